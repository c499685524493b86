//! Decides whether this process can never reach the server: it may not use sockets, or its network namespace does not lead to
//! the server. Its calls then fail, since waiting does not help. If a network is down for a moment, calls wait.

use super::events::Denial;
use super::route::Route;
use crate::sys::connect::{Connect, ConnectError, Step};
use crate::sys::network;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The denial by which a send or a receive failed, if any.
pub(super) fn of_traffic(error: &io::Error) -> Option<Denial> {
    let errno = error.raw_os_error()?;
    let denied = match errno {
        libc::ENOSYS | libc::EPERM | libc::EAFNOSUPPORT => true, // on a TCP connection these do not come from the network
        libc::EACCES => network::is_traffic_refused(errno),      // a router's answer over IPv6 causes it too
        _ => false,
    };
    denied.then_some(Denial::Call { call: "send or receive", errno })
}

/// The denial by which an attempt to connect failed, if any.
pub(super) fn of_connect(failed: &ConnectError, how: &Connect, route: &Route) -> Option<Denial> {
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
    let elsewhere = route.endpoints.network_namespace.zip(network::own_namespace()).is_some_and(|(mounts, own)| mounts != own);
    let leads_there = !route.server().ip().is_loopback() && network::has_device();
    (elsewhere && !leads_there).then_some(Denial::Namespace)
}

/// Whether a connection to the same port of this host fails with the same errno. Then this process may not connect at all.
fn is_denied_to_loopback(how: &Connect, errno: i32) -> bool {
    let loopback = if how.server.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) };
    let to = Connect { server: SocketAddr::new(loopback, how.server.port()), local_address: None, local_port: None, ..*how };
    to.connect().is_err_and(|failed| failed.errno.raw_os_error() == errno)
}
