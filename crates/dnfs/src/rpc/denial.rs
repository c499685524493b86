//! Reasons why this process can never reach the server: it may not use sockets, or its network namespace has no way there. Its
//! calls fail, since waiting does not help. When a network is down for a moment, calls wait.

use super::fault::Fault;
use super::service::Service;
use crate::sys::connect::{Connect, ConnectError, Step};
use crate::sys::network;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Why this process cannot connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// A system call is refused with this errno: by a seccomp filter, RestrictAddressFamilies=, Landlock or another security module.
    Call {
        /// Its name.
        call: &'static str,
        /// The errno.
        errno: i32,
    },
    /// The process is in another network namespace than the mount, and that namespace has no way to the server (`unshare -n`,
    /// PrivateNetwork=).
    Namespace,
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call { call, errno } => {
                let text = rustix::io::Errno::from_raw_os_error(*errno);
                write!(
                    f,
                    "this process may not use sockets ({call}: {text}; a seccomp filter, RestrictAddressFamilies= or Landlock forbids it)"
                )
            }
            Self::Namespace => f.write_str(
                "this process is in a network namespace that does not lead to the server (unshare -n, PrivateNetwork=)",
            ),
        }
    }
}

impl Denial {
    /// The denial by which a send or a receive failed, if any.
    pub(super) fn of_traffic(error: &io::Error) -> Option<Self> {
        let errno = error.raw_os_error()?;
        let denied = match errno {
            libc::ENOSYS | libc::EPERM | libc::EAFNOSUPPORT => true, // on a TCP connection they do not come from the network
            libc::EACCES => network::is_traffic_refused(errno),      // a router's answer to IPv6 gives it too
            _ => false,
        };
        denied.then_some(Self::Call { call: "send or receive", errno })
    }
}

/// Converts a failed attempt to connect to a fault.
#[cold]
pub(super) fn fault_of(failed: &ConnectError, how: &Connect, service: &Service) -> Fault {
    denial_of(failed, how, service).map_or_else(|| Fault::Connect(failed.into()), Fault::Denied)
}

fn denial_of(failed: &ConnectError, how: &Connect, service: &Service) -> Option<Denial> {
    let errno = failed.errno.raw_os_error();
    let denied = match (failed.step, errno) {
        (_, libc::ENOSYS | libc::EAFNOSUPPORT) => true,
        (Step::Socket, libc::EPROTONOSUPPORT | libc::EPERM | libc::EACCES) => true,
        (Step::SetUp, libc::EPERM | libc::EACCES) => true,
        // A firewall and a prohibiting route give these errors too, but not for the loopback.
        (Step::Connect, libc::EPERM | libc::EACCES) => is_denied_to_loopback(how, errno),
        _ => false,
    };
    if denied {
        return Some(Denial::Call { call: failed.step.call(), errno });
    }
    let elsewhere = service.network_namespace.zip(network::own_namespace()).is_some_and(|(mounts, own)| mounts != own);
    let leads_there = !service.server().ip().is_loopback() && network::has_device();
    (elsewhere && !leads_there).then_some(Denial::Namespace)
}

/// Whether a connection to the same port of this host fails with the same errno. Then this process may not connect at all.
fn is_denied_to_loopback(how: &Connect, errno: i32) -> bool {
    let loopback = if how.server.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) };
    let to = Connect { server: SocketAddr::new(loopback, how.server.port()), local_address: None, local_port: None, ..*how };
    to.connect().is_err_and(|failed| failed.errno.raw_os_error() == errno)
}
