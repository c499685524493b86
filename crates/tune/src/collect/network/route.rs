//! Routes of a host: the networks of its interfaces, and its routing tables.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use super::{KINDS, text};
use crate::collect::collected::Collected;
use crate::collect::limits::ROUTES_MAX;
use crate::collect::text::{integer, lines, telling, words};
use crate::facts::{Facts, Value};

/// A route: network, prefix length, interface.
#[derive(Debug)]
pub(in crate::collect) struct Route {
    pub(super) net: IpAddr,
    pub(in crate::collect) bits: u32,
    pub(in crate::collect) interface: String,
    /// Whether the interface is in the network itself, so that no gateway is needed.
    pub(super) is_direct: bool,
}

/// All routes, and the default gateways.
pub(in crate::collect) fn routes(collected: &Collected, facts: &Facts) -> (Vec<Route>, BTreeSet<IpAddr>) {
    let mut routes = of_interfaces(facts);
    let mut gateways = BTreeSet::new();
    // Network and mask are hexadecimal numbers in the host's byte order (proc(5)). Millrace runs on
    // little-endian hosts.
    for (_, line) in collected.file("/proc/net/route").into_iter().flat_map(|text| lines(text).skip(1)) {
        if let [interface, destination, gateway, _, _, _, _, mask, ..] = words(line).collect::<Vec<_>>().as_slice()
            && let [Ok(destination), Ok(gateway), Ok(mask)] =
                [destination, gateway, mask].map(|word| u32::from_str_radix(word, 16))
        {
            let net = IpAddr::V4(destination.swap_bytes().into());
            let gateway = IpAddr::V4(gateway.swap_bytes().into());
            gateways.extend((mask == 0 && !gateway.is_unspecified()).then_some(gateway));
            let is_direct = gateway.is_unspecified();
            routes.push(Route { net, bits: mask.count_ones(), interface: (*interface).to_owned(), is_direct });
        }
    }
    for (_, output) in collected.outputs("ip").filter(|(rest, _)| rest.starts_with("route") || rest.starts_with("r ")) {
        for (_, line) in telling(&output.text, &[]) {
            let after = |word: &str| words(line).skip_while(|other| *other != word).nth(1);
            let target = words(line).next().unwrap_or_default();
            let via: Option<IpAddr> = after("via").and_then(|gateway| gateway.parse().ok());
            gateways.extend(via.filter(|_| target == "default"));
            if let Some(interface) = after("dev") {
                let target = if target == "default" { "0.0.0.0/0" } else { target };
                routes.extend(net(target, interface).map(|route| Route { is_direct: via.is_none(), ..route }));
            }
        }
    }
    for (rest, output) in collected.outputs("netstat") {
        if rest.contains('r') {
            gateways.extend(telling(&output.text, &[]).filter_map(|(_, line)| default_gateway(line)));
        }
    }
    routes.truncate(ROUTES_MAX);
    (routes, gateways)
}

/// The gateway in a line `default 10.1.1.1 UG …` or `0.0.0.0 10.1.1.1 …` of `netstat -rn`.
fn default_gateway(line: &str) -> Option<IpAddr> {
    let mut all = words(line);
    all.next().filter(|target| matches!(*target, "default" | "0.0.0.0" | "default/0"))?;
    all.next()?.parse().ok()
}

/// Routes to the networks of the interfaces.
fn of_interfaces(facts: &Facts) -> Vec<Route> {
    let mut routes = Vec::new();
    for (kind, (name, interface)) in KINDS.into_iter().flat_map(|kind| {
        let things = facts.things.get(kind).into_iter().flatten();
        things.map(move |thing| (kind, thing))
    }) {
        if let Some(Value::List(addresses)) = interface.get("addresses").map(|fact| &fact.value) {
            let texts = addresses.iter().filter_map(|address| if let Value::Text(text) = address { Some(text) } else { None });
            routes.extend(texts.filter_map(|address| net(address, name)));
        }
        let address = text(interface, if kind == "en" { "netaddr" } else { "address" }).and_then(|text| text.parse().ok());
        let Some(address) = address else { continue };
        let mask = text(interface, "netmask").and_then(|mask| mask.parse().ok());
        let bits = mask.map(|mask: Ipv4Addr| u32::from(mask).count_ones());
        let bits = bits.or_else(|| Some(bits_at_most(address, text(interface, "network")?.parse().ok()?)));
        if let Some(bits) = bits {
            routes.push(Route { net: IpAddr::V4(address), bits, interface: name.clone(), is_direct: true });
        }
    }
    routes
}

/// The longest prefix of whole octets that address and network share.
fn bits_at_most(address: Ipv4Addr, network: Ipv4Addr) -> u32 {
    let differing = u32::from(address) ^ u32::from(network);
    differing.leading_zeros() / 8 * 8
}

/// A route for `10.0.1.5/24` on an interface. Without a length, the network is one address.
pub(super) fn net(text: &str, interface: &str) -> Option<Route> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, integer(bits)));
    let net: IpAddr = address.parse().ok()?;
    let most = if net.is_ipv4() { 32 } else { 128 };
    let bits = u32::try_from(bits.unwrap_or(most)).ok().filter(|bits| i64::from(*bits) <= most)?;
    Some(Route { net, bits, interface: interface.to_owned(), is_direct: true })
}

/// Whether the network of a route contains an address.
pub(in crate::collect) fn holds(route: &Route, address: IpAddr) -> bool {
    in_net(route.net, route.bits, address)
}

/// Whether the network of `net`, with this prefix length, contains an address.
pub(super) fn in_net(net: IpAddr, bits: u32, address: IpAddr) -> bool {
    let same = |left: u128, right: u128, width: u32| {
        let free = width - bits.min(width);
        left.checked_shr(free).unwrap_or(0) == right.checked_shr(free).unwrap_or(0)
    };
    match (net, address) {
        (IpAddr::V4(net), IpAddr::V4(address)) => same(u32::from(net).into(), u32::from(address).into(), 32),
        (IpAddr::V6(net), IpAddr::V6(address)) => same(net.into(), address.into(), 128),
        _ => false,
    }
}
