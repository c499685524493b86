//! The addresses on which the filer listens, and the protocol of each.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// The protocol that a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenerRole {
    /// NFS version 3, MOUNT and portmap.
    Nfs,
    /// Only portmap.
    Portmap,
    /// iSCSI, in the portal group with this tag.
    Iscsi(u16),
}

/// An address on which the filer listens.
pub struct Listener {
    /// The bound socket.
    pub socket: TcpListener,
    /// The protocol that is served there.
    pub role: ListenerRole,
}

/// Parses an address with a port, or a port of 127.0.0.1, as users write them.
///
/// # Errors
/// A text that says what to write instead.
pub fn address_or_port(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "give ADDR:PORT or a port, as in 10.1.0.5:2049, [::1]:2049 or 2049".to_owned())
}
