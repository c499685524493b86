//! The addresses that are listened on, and what is served at each.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// What is served on the connections of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListenerRole {
    /// NFS version 3, MOUNT and portmap.
    Nfs,
    /// Portmap alone.
    Portmap,
    /// iSCSI, in the portal group of this tag.
    Iscsi(u16),
}

/// An address that is listened on.
pub struct Listener {
    /// The bound socket.
    pub socket: TcpListener,
    /// What is served there.
    pub role: ListenerRole,
}

/// An address and a port, or a port of 127.0.0.1, as a user writes it.
///
/// # Errors
/// What to write instead.
pub fn address_or_port(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "give ADDR:PORT or a port, as in 10.1.0.5:2049, [::1]:2049 or 2049".to_owned())
}
