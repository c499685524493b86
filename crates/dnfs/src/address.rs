//! The addresses of one server, and the addresses of this host from which the client connects.

use crate::limits::ADDRESSES_MAX;
use std::net::{IpAddr, SocketAddr};

/// At most [`ADDRESSES_MAX`] of each, in order of preference. One server address is in use at a time
/// ([`crate::MountParts::server`]); the others are kept for every process of the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressSet {
    servers: [Option<SocketAddr>; ADDRESSES_MAX],
    local: [Option<IpAddr>; ADDRESSES_MAX],
}

impl AddressSet {
    /// The first [`ADDRESSES_MAX`] of each.
    #[must_use]
    pub fn new(servers: impl IntoIterator<Item = SocketAddr>, local: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut set = Self::default();
        set.servers.iter_mut().zip(servers).for_each(|(place, address)| *place = Some(address));
        set.local.iter_mut().zip(local).for_each(|(place, address)| *place = Some(address));
        set
    }

    /// Addresses of the server.
    pub fn servers(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.servers.iter().map_while(|address| *address)
    }

    /// Addresses of this host.
    pub fn local(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.local.iter().map_while(|address| *address)
    }
}

/// The address of this host to connect to `server` from: the first of its family. `None` leaves the choice to the
/// kernel.
pub(crate) fn local_for(server: SocketAddr, local: &[IpAddr]) -> Option<IpAddr> {
    local.iter().copied().find(|address| address.is_ipv4() == server.is_ipv4())
}
