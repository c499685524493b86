//! The filer whose console is in a capture: its names and the addresses of its ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use super::route::in_net;
use super::text;
use crate::collect::limits::PORTS_MAX;
use crate::facts::Facts;

/// A port with an address.
struct Port {
    address: IpAddr,
    bits: u32,
    /// Its host name in `/etc/rc`.
    called: Option<String>,
}

/// A filer.
pub(super) struct Filer {
    name: Option<String>,
    /// Its default gateway, and whether its start-up file, which names the gateway, was read.
    gateway: Option<IpAddr>,
    has_rc: bool,
    ports: BTreeMap<String, Port>,
}

impl Filer {
    /// Reads the filer from the facts of its console; `None` if no port has an address.
    pub(super) fn read(facts: &Facts) -> Option<Self> {
        let mut ports = BTreeMap::new();
        for (name, port) in facts.things.get("ontap_if").into_iter().flatten().take(PORTS_MAX) {
            let Some(address) = text(port, "address").and_then(|address| address.parse().ok()) else { continue };
            let mask = text(port, "netmask").and_then(|mask| mask.parse().ok());
            let bits = mask.map_or(32, |mask: Ipv4Addr| u32::from(mask).count_ones());
            ports.insert(name.clone(), Port { address, bits, called: text(port, "host_name").map(str::to_owned) });
        }
        let name = facts.host_text("ontap7.host_name").map(str::to_owned);
        let gateway = facts.host_text("ontap7.default_gateway").and_then(|gateway| gateway.parse().ok());
        facts.host.contains_key("ontap7.version").then_some(())?;
        (!ports.is_empty()).then_some(Self { has_rc: name.is_some(), name, gateway, ports })
    }

    /// Names of its ports, with their addresses.
    pub(super) fn names(&self) -> impl Iterator<Item = (String, IpAddr)> {
        self.ports.values().filter_map(|port| Some((port.called.clone()?, port.address)))
    }

    /// The address of a port.
    pub(super) fn address(&self, port: &str) -> Option<IpAddr> {
        self.ports.get(port).map(|port| port.address)
    }

    /// Whether a server is this filer. `address` is the server's address, if it is known.
    pub(super) fn is_called(&self, name: &str, address: Option<IpAddr>) -> bool {
        let is_port = |port: &Port| port.called.as_deref() == Some(name) || address == Some(port.address);
        self.name.as_deref() == Some(name) || self.ports.values().any(is_port)
    }

    /// Whether ports carry data of the host, if this is known. A port does if the host uses its
    /// address, or if it is in the network of one of the host's interfaces and does not lead to the
    /// default gateway. `is_linked` says whether an address is in such a network.
    pub(super) fn storage_ports(
        &self,
        used: &BTreeSet<IpAddr>,
        is_linked: &dyn Fn(IpAddr) -> Option<bool>,
    ) -> BTreeMap<String, bool> {
        let is_public = |port: &Port| self.gateway.is_some_and(|gateway| in_net(port.address, port.bits, gateway));
        let is_like = |port: &Port| match is_linked(port.address) {
            _ if is_public(port) => Some(false),
            // Without the start-up file, any port may lead to the default gateway.
            Some(true) if !self.has_rc => None,
            linked => linked,
        };
        let storage = |port: &Port| if used.contains(&port.address) { Some(true) } else { is_like(port) };
        self.ports.iter().filter_map(|(name, port)| Some((name.clone(), storage(port)?))).collect()
    }
}
