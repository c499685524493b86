//! The sockets of a filer.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use anyhow::{Context, anyhow};
use filer::iscsi::Portal;
use filer::metrics::Endpoint;
use filer::{Listener, ListenerRole};

use crate::error_printing::refusal;

/// Binds all addresses. `from_file`: the addresses are in a configuration file.
pub(super) fn bind(
    nfs: &[SocketAddr],
    portmap: &[SocketAddr],
    iscsi: &[Portal],
    from_file: bool,
) -> anyhow::Result<Vec<Listener>> {
    let (nfs_place, iscsi_place) = if from_file {
        ("listen = [\"ADDRESS\"] in [filer]", "ADDRESS in [iscsi]")
    } else {
        ("--listen ADDRESS", "--iscsi ADDRESS")
    };
    if let Some(twice) = nfs
        .iter()
        .enumerate()
        .find_map(|(at, address)| (address.port() != 0 && nfs.iter().take(at).any(|before| before == address)).then_some(address))
    {
        return Err(refusal(format!("listen on {twice}: the address is given twice"), "give each address once"));
    }
    let nfs = nfs.iter().map(|address| (*address, ListenerRole::Nfs, nfs_place));
    let portmap = portmap.iter().map(|address| (*address, ListenerRole::Portmap, "portmap = [\"ADDRESS\"] in [filer]"));
    let iscsi = iscsi.iter().map(|portal| (portal.address, ListenerRole::Iscsi(portal.tag), iscsi_place));
    let bound = |(address, role, place): (SocketAddr, ListenerRole, &str)| {
        let socket = TcpListener::bind(address).map_err(|error| cannot_listen(address, place, &error))?;
        Ok(Listener { socket, role })
    };
    nfs.chain(portmap).chain(iscsi).map(bound).collect()
}

/// Binds portmap's UDP sockets beside its TCP listeners.
pub(super) fn bind_datagrams(portmap: &[SocketAddr]) -> anyhow::Result<Vec<UdpSocket>> {
    let bound = |address: &SocketAddr| {
        UdpSocket::bind(address).map_err(|error| cannot_listen(*address, "portmap = [\"ADDRESS\"] in [filer], over UDP", &error))
    };
    portmap.iter().map(bound).collect()
}

/// Binds the endpoint for metrics.
pub(super) fn bind_metrics(address: SocketAddr, from_file: bool) -> anyhow::Result<Endpoint> {
    let place = if from_file { "metrics = \"ADDRESS\" in [filer]" } else { "--metrics ADDRESS" };
    let endpoint = Endpoint::bind(address).map_err(|error| cannot_listen(address, place, &error))?;
    if !endpoint.address().ip().is_loopback() {
        tracing::warn!(address = %endpoint.address(), "anyone who reaches this address can read the metrics");
    }
    Ok(endpoint)
}

/// The addresses of the listeners of one role.
pub(super) fn addresses(listeners: &[Listener], role: ListenerRole) -> anyhow::Result<Vec<SocketAddr>> {
    let those = listeners.iter().filter(|listener| listener.role == role);
    those.map(|listener| listener.socket.local_addr().context("learn the address listened on")).collect()
}

/// The addresses of the portals.
pub(super) fn portals(listeners: &[Listener]) -> anyhow::Result<Vec<SocketAddr>> {
    let those = listeners.iter().filter(|listener| matches!(listener.role, ListenerRole::Iscsi(_)));
    those.map(|listener| listener.socket.local_addr().context("learn the address listened on")).collect()
}

/// The error if an address cannot be bound. `place` is where the user writes the address.
fn cannot_listen(address: SocketAddr, place: &str, error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse => refusal(
            format!("listen on {address}: the port is in use"),
            format!(
                "choose another, or any free one: {}; [::] takes the port for IPv4 too",
                place.replace("ADDRESS", &SocketAddr::new(address.ip(), 0).to_string())
            ),
        ),
        ErrorKind::PermissionDenied => refusal(
            format!("listen on {address}: ports below 1024 need root"),
            "choose a port from 1024, give the program CAP_NET_BIND_SERVICE, or lower net.ipv4.ip_unprivileged_port_start",
        ),
        ErrorKind::AddrNotAvailable => {
            refusal(format!("listen on {address}: not an address of this machine"), "`ip address` shows its addresses")
        }
        _ => anyhow!("listen on {address}: {error}"),
    }
}

pub(super) fn cannot_bind_admin(path: &Path, error: &std::io::Error, from_file: bool) -> anyhow::Error {
    let shown = path.display();
    let hint = match error.kind() {
        ErrorKind::AddrInUse if path.is_dir() => "it is a directory: name a file in it with --admin PATH",
        ErrorKind::AddrInUse => "a filer answers there, or a file exists there: name another path with --admin PATH",
        ErrorKind::InvalidInput | ErrorKind::InvalidFilename => {
            "a socket path has to be shorter than 108 bytes: name another with --admin PATH"
        }
        ErrorKind::NotFound => "its directory does not exist: make it, or name another path with --admin PATH",
        ErrorKind::NotADirectory => "a part of its path is a file: name another path with --admin PATH",
        _ => "name a path in a directory that this user may write: --admin PATH",
    };
    let place = if from_file { "admin = \"PATH\" in [filer]" } else { "--admin PATH" };
    refusal(format!("make the admin socket {shown}: {error}"), hint.replace("--admin PATH", place))
}
