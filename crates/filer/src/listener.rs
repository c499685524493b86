//! The addresses that are listened on, and what is served at each.

use std::net::TcpListener;

/// What is served on the connections of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
