//! What follows from several facts together: which interfaces lead to storage, which mounts oranfstab names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::collected::Collected;
use super::text::{integer, lines, telling, words};
use crate::facts::{Facts, Value};

/// A way to addresses: net, bits of it, interface.
pub(super) struct Route {
    net: IpAddr,
    pub(super) bits: u32,
    pub(super) nic: String,
}

/// Derives all of it.
pub(super) fn derive(collected: &Collected, facts: &mut Facts) {
    super::database::oracle::derive(facts);
    oranfstab(facts);
    storage(collected, facts);
}

fn oranfstab(facts: &mut Facts) {
    let named: BTreeSet<String> =
        facts.things.get("oranfstab_mount").into_iter().flatten().map(|(mount, _)| mount.clone()).collect();
    if !facts.things.contains_key("oranfstab_path") {
        return;
    }
    let nfs: Vec<String> = facts
        .things
        .get("mount")
        .into_iter()
        .flatten()
        .filter(|(_, mount)| text(mount.get("fstype").map(|fact| &fact.value)).is_some_and(|kind| kind.starts_with("nfs")))
        .map(|(point, _)| point.clone())
        .collect();
    for point in nfs {
        facts.put_of("mount", &point, "oranfstab", named.contains(&point), "oranfstab");
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    if let Some(Value::Text(text)) = value { Some(text) } else { None }
}

/// Marks interfaces over which servers of storage are reached.
fn storage(collected: &Collected, facts: &mut Facts) {
    let servers = servers(collected, facts);
    if servers.is_empty() {
        return;
    }
    let routes = routes(collected, facts);
    let mut used = BTreeSet::new();
    for server in &servers {
        let best = routes.iter().filter(|route| holds(route, *server)).max_by_key(|route| route.bits);
        used.extend(best.map(|route| route.nic.clone()));
    }
    if used.is_empty() {
        return;
    }
    for kind in ["nic", "en"] {
        let nics: Vec<String> = facts.things.get(kind).into_iter().flatten().map(|(nic, _)| nic.clone()).collect();
        for nic in nics {
            facts.put_of(kind, &nic, "storage", used.contains(&nic), "route to the storage");
            // The adapter below has the same number.
            let adapter = nic.replacen("en", "ent", 1);
            if kind == "en" && facts.things.get("ent").is_some_and(|adapters| adapters.contains_key(&adapter)) {
                facts.put_of("ent", &adapter, "storage", used.contains(&nic), "route to the storage");
            }
        }
    }
}

/// Addresses of NFS servers and iSCSI portals.
fn servers(collected: &Collected, facts: &Facts) -> BTreeSet<IpAddr> {
    let hosts = hosts(collected);
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (kind, attributes) in
        [("mount", &["server_address", "server"][..]), ("iscsi_session", &["portal"]), ("oranfstab_path", &["path"])]
    {
        for thing in facts.things.get(kind).into_iter().flat_map(BTreeMap::values) {
            // The first that is known says it.
            names.extend(attributes.iter().find_map(|name| text(thing.get(*name).map(|fact| &fact.value))));
        }
    }
    let address = |name: &&str| {
        let plain = name.trim_matches(['[', ']']);
        let plain = plain
            .parse()
            .ok()
            .or_else(|| plain.rsplit_once(':').and_then(|(host, _)| host.trim_matches(['[', ']']).parse().ok()));
        plain.or_else(|| hosts.get(*name).copied())
    };
    names.iter().filter_map(address).collect()
}

/// `/etc/hosts`.
fn hosts(collected: &Collected) -> BTreeMap<String, IpAddr> {
    let mut hosts = BTreeMap::new();
    for (_, line) in collected.file("/etc/hosts").into_iter().flat_map(|text| telling(text, &['#'])) {
        let mut all = words(line.split('#').next().unwrap_or(line));
        if let Some(address) = all.next().and_then(|address| address.parse().ok()) {
            hosts.extend(all.map(|name| (name.to_owned(), address)));
        }
    }
    hosts
}

pub(super) fn routes(collected: &Collected, facts: &Facts) -> Vec<Route> {
    let mut routes = Vec::new();
    for (nic, attributes) in facts.things.get("nic").into_iter().flatten() {
        if let Some(Value::List(addresses)) = attributes.get("addresses").map(|fact| &fact.value) {
            routes.extend(addresses.iter().filter_map(|address| net(text(Some(address))?, nic)));
        }
    }
    for (nic, attributes) in facts.things.get("en").into_iter().flatten() {
        let of = |name: &str| text(attributes.get(name).map(|fact| &fact.value));
        if let (Some(address), Some(mask)) = (of("netaddr"), of("netmask"))
            && let (Ok(address), Ok(IpAddr::V4(mask))) = (address.parse(), mask.parse())
        {
            routes.push(Route { net: address, bits: u32::from(mask).count_ones(), nic: nic.clone() });
        }
    }
    // Interface, net and mask as hexadecimal numbers in the byte order of the machine (proc(5)); ours is little-endian.
    for (_, line) in collected.file("/proc/net/route").into_iter().flat_map(|text| lines(text).skip(1)) {
        if let [nic, destination, _, _, _, _, _, mask, ..] = words(line).collect::<Vec<_>>().as_slice()
            && let (Ok(destination), Ok(mask)) = (u32::from_str_radix(destination, 16), u32::from_str_radix(mask, 16))
        {
            routes.push(Route {
                net: IpAddr::V4(destination.swap_bytes().into()),
                bits: mask.count_ones(),
                nic: (*nic).to_owned(),
            });
        }
    }
    for (_, output) in collected.outputs("ip").filter(|(rest, _)| rest.starts_with("route") || rest.starts_with("r ")) {
        for (_, line) in telling(&output.text, &[]) {
            let mut all = words(line);
            let target = all.next().unwrap_or_default();
            if let Some(nic) = all.skip_while(|word| *word != "dev").nth(1) {
                let target = if target == "default" { "0.0.0.0/0" } else { target };
                routes.extend(net(target, nic));
            }
        }
    }
    routes
}

/// `10.0.1.5/24` on an interface; without bits the whole address.
fn net(text: &str, nic: &str) -> Option<Route> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, integer(bits)));
    let net: IpAddr = address.parse().ok()?;
    let most = if net.is_ipv4() { 32 } else { 128 };
    let bits = u32::try_from(bits.unwrap_or(most)).ok().filter(|bits| i64::from(*bits) <= most)?;
    Some(Route { net, bits, nic: nic.to_owned() })
}

pub(super) fn holds(route: &Route, address: IpAddr) -> bool {
    let same = |left: u128, right: u128, width: u32| {
        let free = width - route.bits.min(width);
        left.checked_shr(free).unwrap_or(0) == right.checked_shr(free).unwrap_or(0)
    };
    match (route.net, address) {
        (IpAddr::V4(net), IpAddr::V4(address)) => same(u32::from(net).into(), u32::from(address).into(), 32),
        (IpAddr::V6(net), IpAddr::V6(address)) => same(net.into(), address.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_to_a_server_marks_its_interface() {
        let mut facts = Facts::default();
        facts.put_of("nic", "eth0", "mtu", 1500_i64, "x");
        facts.put_of("nic", "eth1", "mtu", 9000_i64, "x");
        facts.put_of("mount", "/u02", "server", "filer1", "x");
        let mut collected = Collected::default();
        collected.take_file("/etc/hosts", b"10.0.1.5 filer1 # data\n");
        collected.take_command(
            "ip route show",
            b"default via 192.168.0.1 dev eth0\n10.0.1.0/24 dev eth1 proto kernel\n",
            Some(0),
        );
        storage(&collected, &mut facts);
        assert_eq!(facts.value_of("nic", "eth1", "storage"), Some(&true.into()));
        assert_eq!(facts.value_of("nic", "eth0", "storage"), Some(&false.into()));
    }

    #[test]
    fn routes_of_the_kernel_are_read() {
        let mut collected = Collected::default();
        collected.take_file("/proc/net/route", b"Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\neth1 0001000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n");
        let routes = routes(&collected, &Facts::default());
        assert_eq!(routes.len(), 1);
        assert!(holds(&routes[0], "10.0.1.77".parse().unwrap()));
        assert!(!holds(&routes[0], "10.0.2.77".parse().unwrap()));
    }
}
