//! The addresses of one server, and the addresses of this host from which the client connects.

use crate::limits::{ADDRESSES_MAX, ENDPOINTS_MAX};
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

/// Number of an address of the server that is in use: below [`ENDPOINTS_MAX`]. Different numbers may lead to different servers of a
/// cluster. If the server's address changes, the number stays (docs/design/031-verifiers-of-addresses.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointIndex(u8);

impl EndpointIndex {
    /// The only one in use today.
    pub const FIRST: Self = Self(0);

    /// The endpoint of this number, modulo [`ENDPOINTS_MAX`].
    pub(crate) const fn new(number: u32) -> Self {
        Self((number % ENDPOINTS_MAX as u32) as u8)
    }

    /// The number.
    pub(crate) const fn number(self) -> u32 {
        self.0 as u32
    }
}

/// The address of this host to connect to `server` from: the first of its family. `None` leaves the choice to the
/// kernel.
pub(crate) fn local_for(server: SocketAddr, local: &[IpAddr]) -> Option<IpAddr> {
    local.iter().copied().find(|address| address.is_ipv4() == server.is_ipv4())
}
