//! Resolves a URL to the handle of a directory: name lookup, MOUNT (on the NFS port, a given one, or the one that portmap
//! returns).

use crate::address::AddressSet;
use crate::client_state::MOUNT_ANSWER;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::FileHandle;
use crate::limits::ADDRESSES_MAX;
use crate::nfs3::procedures::NFS;
use crate::nfs3::single_call::call_once;
use crate::nfs3::types::handle_of;
use crate::rpc::program::Program;
use crate::rpc::route::{RetryPolicy, Route};
use crate::rpc::silence::Silence;
use crate::rpc::tls_config::TlsConfig;
use crate::url::{NfsUrl, host_key};
use nfs_proto::mount3::{self, DirPath, MountArgs, MountResult, MountStatus};
use nfs_proto::portmap2::{self, Mapping};
use nfs_proto::rpc::{AUTH_NONE, AUTH_SYS, ReplyStatus};
use nfs_proto::xdr::{Decode, Reader};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// MOUNT version 3.
const MOUNT: Program = Program { name: "MOUNT", number: mount3::PROGRAM, version: mount3::VERSION, procedures: None };
/// Portmap version 2.
const PORTMAP: Program = Program { name: "portmap", number: portmap2::PROGRAM, version: portmap2::VERSION, procedures: None };

/// The result of MOUNT.
#[derive(Debug)]
pub(crate) struct Mounted {
    /// The NFS service.
    pub(crate) nfs: SocketAddr,
    /// Handle of the part of the path that could be mounted.
    pub(crate) root: FileHandle,
    /// The remaining components of the path.
    pub(crate) rest: Vec<Vec<u8>>,
    /// The index of the host in the URL's set.
    pub(crate) host: u32,
    /// All addresses of the server and of this host.
    pub(crate) addresses: AddressSet,
}

/// The paths that a server exports, as it names them.
///
/// # Errors
/// As for mounting.
pub fn exports(url: &NfsUrl, who: &Credentials) -> Result<Vec<String>, Error> {
    let who = who.for_url(url);
    on_any_address(url, |server, _, tls_config| {
        let places = Places::find(url, server, &who, tls_config, &Arc::default())?;
        list_exports(&places.mount)
    })
}

/// Mounts the longest part of the URL's path that the server accepts, on the first address that accepts one.
pub(crate) fn mount(url: &NfsUrl, who: &Credentials, silence: &Arc<Silence>) -> Result<Mounted, Error> {
    on_any_address(url, |server, host, tls_config| {
        let places = Places::find(url, server, who, tls_config, silence)?;
        let (root, rest) = mount_longest(&places.mount, &url.export_path)?;
        let addresses = addresses_of(url, host, places.nfs);
        Ok(Mounted { nfs: places.nfs, root, rest, host, addresses })
    })
}

/// One address of each host; for host `used` the one that answered. A host without an address is left out: mounting did not
/// need it.
fn addresses_of(url: &NfsUrl, used: u32, answered: SocketAddr) -> AddressSet {
    let hosts = url.server_set();
    let used = hosts.get(used as usize).map(|name| host_key(name));
    let servers = url.servers.iter().filter_map(|host| match used.as_ref() == Some(&host_key(host)) {
        true => Some(answered),
        false => resolve(host, answered.port()).ok().and_then(|found| found.first().copied()),
    });
    AddressSet::new(servers, url.options.local.iter().copied())
}

/// Converts a refusal of FSINFO because of its version: the server has NFS, but not version 3.
pub(crate) fn name_version(error: Error) -> Error {
    match error {
        Error::Refused { server, status: ReplyStatus::ProgramMismatch { low, high } } => Error::Version { server, low, high },
        other => other,
    }
}

/// Calls `attempt` for each address of each server in turn, with the host's index and its TLS configuration. Returns the error
/// of the first if all fail.
fn on_any_address<T>(
    url: &NfsUrl,
    mut attempt: impl FnMut(SocketAddr, u32, Option<&TlsConfig>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut first_error = None;
    let set = url.server_set();
    for host in &url.servers {
        // Its index in the set, independent of the order in the URL.
        let number = set.iter().position(|name| host_key(name) == host_key(host)).unwrap_or(0) as u32;
        let tls_config = TlsConfig::of(url, host)?;
        let addresses = match resolve(host, url.nfs_port()) {
            Ok(addresses) => addresses,
            Err(error) => {
                first_error = first_error.or(Some(error));
                continue;
            }
        };
        for address in addresses {
            match attempt(address, number, tls_config.as_ref()) {
                Ok(done) => return Ok(done),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
    }
    Err(first_error.unwrap_or_else(|| unknown_host(url.server(), io::ErrorKind::NotFound.into())))
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let addresses = (host, port).to_socket_addrs().map_err(|source| unknown_host(host, source))?;
    // IPv4 comes first, because an NFS server that listens on one family only listens on IPv4.
    let mut addresses: Vec<SocketAddr> = addresses.take(ADDRESSES_MAX).collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    if addresses.is_empty() { Err(unknown_host(host, io::ErrorKind::NotFound.into())) } else { Ok(addresses) }
}

fn unknown_host(host: &str, source: io::Error) -> Error {
    Error::UnknownHost { host: host.to_owned(), source }
}

/// The ports of a server's services.
struct Places {
    nfs: SocketAddr,
    mount: Route,
}

impl Places {
    /// Uses a given port; otherwise looks for MOUNT on the NFS port; otherwise, if no port was given, asks portmap.
    fn find(
        url: &NfsUrl,
        server: SocketAddr,
        who: &Credentials,
        tls_config: Option<&TlsConfig>,
        silence: &Arc<Silence>,
    ) -> Result<Self, Error> {
        let options = &url.options;
        let route_to = |program: Program, port: u16| {
            let mut route = Route::new(SocketAddr::new(server.ip(), port), program, who, RetryPolicy::Mounting);
            route.resend_after = options.resend_after.min(MOUNT_ANSWER);
            route.privileged_port = options.privileged_port;
            route.local.clone_from(&options.local);
            route.endpoints.silence = Arc::clone(silence);
            // Portmap is unencrypted. If it returns a wrong port, the TLS handshake fails there.
            route.tls_config = tls_config.filter(|_| program.number != PORTMAP.number).cloned();
            route
        };
        if let Some(port) = options.mount_port {
            return Ok(Self { nfs: server, mount: route_to(MOUNT, port) });
        }
        let mount = route_to(MOUNT, server.port());
        let error = match null(&mount) {
            Ok(()) => return Ok(Self { nfs: server, mount }),
            Err(error) => error,
        };
        // An error other than "not here" is final.
        if !matches!(error, Error::Refused { .. } | Error::Connect { .. } | Error::Protocol { .. }) {
            return Err(error);
        }
        if options.nfs_port.is_some() {
            null(&route_to(NFS, server.port())).map_err(name_version)?;
            return Err(Error::NoMountService { server, portmap_asked: false });
        }
        let portmap = route_to(PORTMAP, portmap2::PORT);
        let port_of = |program: Program| port_of(&portmap, program);
        let nfs_port = match port_of(NFS) {
            Ok(port) => port.unwrap_or(server.port()),
            // No portmap either: the error of the NFS port is the better message.
            Err(_) => {
                null(&route_to(NFS, server.port())).map_err(name_version)?;
                return Err(Error::NoMountService { server, portmap_asked: true });
            }
        };
        match port_of(MOUNT)? {
            Some(port) => Ok(Self { nfs: SocketAddr::new(server.ip(), nfs_port), mount: route_to(MOUNT, port) }),
            None => {
                null(&route_to(NFS, nfs_port)).map_err(name_version)?;
                Err(Error::NoMountService { server, portmap_asked: true })
            }
        }
    }
}

fn null(route: &Route) -> Result<(), Error> {
    call_once(route, 0, &(), |_| Ok(()))
}

fn port_of(portmap: &Route, program: Program) -> Result<Option<u16>, Error> {
    let mapping = Mapping { program: program.number, version: program.version, protocol: portmap2::IPPROTO_TCP, port: 0 };
    let mut port = 0u32;
    call_once(portmap, portmap2::Procedure::GetPort.number(), &mapping, |results| {
        port = u32::decode(results)?;
        Ok(())
    })?;
    Ok(u16::try_from(port).ok().filter(|&port| port != 0))
}

fn list_exports(mount: &Route) -> Result<Vec<String>, Error> {
    let mut paths = Vec::new();
    call_once(mount, mount3::Procedure::Export.number(), &(), |results: &mut Reader<'_>| {
        paths = mount3::decode_exports(results)?.iter().map(|(path, _)| String::from_utf8_lossy(path.0).into_owned()).collect();
        Ok(())
    })?;
    Ok(paths)
}

/// Mounts the path itself, otherwise the longest export above it, otherwise (if the server lists no exports) the longest part
/// that works.
fn mount_longest(mount: &Route, path: &str) -> Result<(FileHandle, Vec<Vec<u8>>), Error> {
    let error = match mnt(mount, path) {
        Ok(root) => return Ok((root, Vec::new())),
        Err(error) => error,
    };
    let Error::Mount { status, server, .. } = error else { return Err(error) };
    let exports = list_exports(mount).unwrap_or_default();
    let mut candidates: Vec<&str> = exports.iter().map(String::as_str).filter(|export| is_below(path, export)).collect();
    if exports.is_empty() && matches!(status, MountStatus::NoEnt | MountStatus::NotDir | MountStatus::Inval) {
        candidates = path.match_indices('/').map(|(at, _)| path.get(..at.max(1)).unwrap_or("/")).collect();
    }
    candidates.retain(|candidate| *candidate != path);
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.len()));
    for candidate in candidates {
        if let Ok(root) = mnt(mount, candidate) {
            let rest = path.get(candidate.len()..).unwrap_or_default();
            let rest = rest.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect();
            return Ok((root, rest));
        }
    }
    Err(Error::Mount { server, path: path.to_owned(), status, exports })
}

/// Whether `path` is `export` or below it.
fn is_below(path: &str, export: &str) -> bool {
    let export = export.trim_end_matches('/');
    path.strip_prefix(export).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn mnt(mount: &Route, path: &str) -> Result<FileHandle, Error> {
    let arguments = MountArgs { path: DirPath(path.as_bytes()) };
    let mut answer: Option<MountResult> = None;
    call_once(mount, mount3::Procedure::Mnt.number(), &arguments, |results| {
        answer = Some(MountResult::decode(results)?);
        Ok(())
    })?;
    match answer {
        Some(Ok(ok)) => {
            let flavors = ok.flavors.as_slice();
            let usable = flavors.is_empty() || flavors.iter().any(|flavor| matches!(*flavor, AUTH_SYS | AUTH_NONE));
            if usable {
                Ok(handle_of(&ok.root))
            } else {
                Err(Error::Flavors { path: path.to_owned(), flavors: flavors.to_vec() })
            }
        }
        Some(Err(status)) => Err(Error::Mount { server: mount.server(), path: path.to_owned(), status, exports: Vec::new() }),
        None => Err(Error::Protocol { server: mount.server(), source: crate::error::ProtocolError::Missing("results") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_an_export_by_whole_components() {
        assert!(is_below("/vol/db", "/vol") && is_below("/vol", "/vol") && is_below("/vol", "/"));
        assert!(!is_below("/volume", "/vol") && !is_below("/vo", "/vol"));
    }

    #[test]
    fn an_unknown_host_is_named() {
        let url: NfsUrl = "nfs://no-such-host.invalid/vol".parse().unwrap();
        let error = mount(&url, &Credentials::of_process(), &Arc::default()).unwrap_err();
        assert!(matches!(&error, Error::UnknownHost { host, .. } if host == "no-such-host.invalid"), "{error}");
    }
}
