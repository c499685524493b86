//! Reports that the filer is ready, on stdout and to the service manager.

use std::io::Write;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::path::Path;

use anyhow::Context;
use filer::exports::Exports;
use filer::iscsi::Portal;
use serde_json::{Map, Value, json};

/// The addresses of a filer that is ready.
pub(super) struct Ready<'a> {
    pub(super) json: bool,
    /// The served directory; `None` with a configuration file.
    pub(super) dir: Option<&'a Path>,
    pub(super) listen: &'a [SocketAddr],
    pub(super) portmap: &'a [SocketAddr],
    pub(super) portals: &'a [SocketAddr],
    pub(super) admin: &'a Path,
    /// The address of the metrics.
    pub(super) metrics: Option<SocketAddr>,
}

impl Ready<'_> {
    /// Prints one line of JSON, or lines for each volume, for its LUNs and for the admin socket.
    pub(super) fn say(&self, exports: &Exports, iscsi: Option<(Portal, Vec<(String, String)>)>) -> anyhow::Result<()> {
        let urls: Vec<(&str, String)> =
            exports.entries().iter().map(|entry| (entry.export.name(), self.url(entry.export.path()))).collect();
        let targets: Vec<(String, String)> = iscsi.map_or_else(Vec::new, |(portal, targets)| {
            let (host, port) = host_and_port(portal.address);
            targets.into_iter().map(|(volume, target)| (volume, format!("iscsi://{host}:{port}/{target}"))).collect()
        });
        let mut out = std::io::stdout().lock();
        let admin = std::path::absolute(self.admin).unwrap_or_else(|_| self.admin.to_path_buf());
        let said = if self.json {
            let volumes: Map<String, Value> = urls.iter().map(|(name, url)| ((*name).to_owned(), json!(url))).collect();
            let url = urls.first().map(|(_, url)| url);
            let pid = std::process::id();
            let metrics = self.metrics.map(|address| format!("http://{address}/metrics"));
            let iscsi = targets.first().map(|(_, url)| url);
            let targets: Map<String, Value> = targets.iter().map(|(name, url)| (name.clone(), json!(url))).collect();
            let line = json!({"nfs": url, "iscsi": iscsi, "volumes": volumes, "targets": targets, "portals": self.portals, "listen": self.listen, "portmap": self.portmap, "admin": admin,
                "metrics": metrics, "pid": pid});
            writeln!(out, "{line}")
        } else {
            let mut each = urls.iter().map(|(name, url)| match self.dir {
                Some(dir) => writeln!(out, "serving {} as {url}", dir.display()),
                None => writeln!(out, "serving volume {name} as {url}"),
            });
            each.try_for_each(|said| said)?;
            targets.iter().try_for_each(|(name, url)| writeln!(out, "serving LUNs of volume {name} as {url}/LUN"))?;
            writeln!(out, "admin socket {}", admin.display())
        };
        said.and_then(|()| out.flush()).context(crate::closed_output::TO_STDOUT)
    }

    fn url(&self, path: &str) -> String {
        let (host, port) = self.listen.first().copied().map_or_else(|| (String::new(), 0), host_and_port);
        let path = dnfs::url::escape(path);
        format!("nfs://{host}:{port}{path}?nfsport={port}&mountport={port}")
    }
}

/// Host and port for a URL. A wildcard address is replaced by the loopback address, which reaches
/// the filer on this host.
fn host_and_port(address: SocketAddr) -> (String, u16) {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => ("127.0.0.1".to_owned(), v4.port()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => ("[::1]".to_owned(), v6.port()),
        SocketAddr::V4(v4) => (v4.ip().to_string(), v4.port()),
        SocketAddr::V6(v6) => (format!("[{}]", v6.ip()), v6.port()),
    }
}

/// Notifies the service manager, if there is one: sd_notify(3), a datagram to the socket that
/// NOTIFY_SOCKET names.
pub(super) fn notify(state: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match place.as_bytes() {
        [b'@', name @ ..] => UnixAddr::from_abstract_name(name),
        path => UnixAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(path))),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, state, "the service manager could not be notified");
    }
}
