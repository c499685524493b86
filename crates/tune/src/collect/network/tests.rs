use super::*;

fn marked(collected: &Collected, mut facts: Facts) -> Facts {
    Network::read(collected, &facts).mark(&mut facts);
    facts
}

fn storage(facts: &Facts, kind: &str, name: &str) -> Option<bool> {
    match facts.value_of(kind, name, "storage") {
        Some(Value::Bool(yes)) => Some(*yes),
        _ => None,
    }
}

#[test]
fn the_longest_route_to_a_server_marks_its_interface() {
    let mut facts = Facts::default();
    facts.put_of("nic", "eth0", "mtu", 1500_i64, "x");
    facts.put_of("nic", "eth1", "mtu", 9000_i64, "x");
    facts.put_of("mount", "/u02", "server", "filer1", "x");
    let mut collected = Collected::default();
    collected.take_file("/etc/hosts", b"10.0.1.5 filer1 # data\n");
    let routes = b"default via 192.168.0.1 dev eth0\n10.0.1.0/24 dev eth1 proto kernel\n";
    collected.take_command("ip route show", routes, Some(0));
    let facts = marked(&collected, facts);
    assert_eq!((storage(&facts, "nic", "eth1"), storage(&facts, "nic", "eth0")), (Some(true), Some(false)));
}

#[test]
fn the_server_of_a_direct_nfs_mount_marks_its_interface_unless_it_is_this_host() {
    for (address, loopback) in [("10.0.1.5", false), ("127.0.0.1", true)] {
        let mut facts = Facts::default();
        facts.put_of("nic", "eth0", "mtu", 1500_i64, "x");
        facts.put_of("nic", "eth1", "mtu", 9000_i64, "x");
        facts.put_of("direct_nfs_mount", "/db", "server_address", address, "x");
        facts.put_of("direct_nfs_mount", "/db", "loopback", loopback, "x");
        let mut collected = Collected::default();
        let routes = b"default via 192.168.0.1 dev eth0\n10.0.1.0/24 dev eth1 proto kernel\n";
        collected.take_command("ip route show", routes, Some(0));
        let facts = marked(&collected, facts);
        let wanted = if loopback { (None, None) } else { (Some(true), Some(false)) };
        assert_eq!((storage(&facts, "nic", "eth1"), storage(&facts, "nic", "eth0")), wanted, "{address}");
    }
}

#[test]
fn routes_of_the_kernel_are_read() {
    let mut collected = Collected::default();
    collected.take_file("/proc/net/route", b"Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\neth1 0001000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\neth0 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0\n");
    let (routes, gateways) = routes(&collected, &Facts::default());
    assert_eq!(routes.len(), 2);
    assert!(holds(&routes[0], "10.0.1.77".parse().unwrap()) && routes[0].is_direct);
    assert!(!holds(&routes[0], "10.0.2.77".parse().unwrap()));
    assert_eq!(gateways, ["192.168.0.1".parse().unwrap()].into());
}

#[test]
fn an_adapter_of_aix_leads_to_the_portal_of_a_disk() {
    let mut facts = Facts::default();
    for (name, address) in [("en0", "10.1.1.21"), ("en2", "192.168.10.21")] {
        facts.put_of("en", name, "netaddr", address, "x");
        facts.put_of("en", name, "netmask", "255.255.255.0", "x");
        facts.put_of("ent", &name.replace("en", "ent"), "jumbo_frames", false, "x");
    }
    facts.put_of("hdisk", "hdisk5", "host_addr", "192.168.10.10", "x");
    let facts = marked(&Collected::default(), facts);
    assert_eq!((storage(&facts, "ent", "ent2"), storage(&facts, "en", "en2")), (Some(true), Some(true)));
    assert_eq!(storage(&facts, "ent", "ent0"), Some(false));
}

#[test]
fn hpux_has_its_nets_by_their_numbers() {
    let mut facts = Facts::default();
    for (name, network, address) in [("lan0", "10.0.0.0", "10.0.0.26"), ("lan1", "10.0.1.0", "10.0.1.26")] {
        facts.put_of("lan", name, "network", network, "netstat -in");
        facts.put_of("lan", name, "address", address, "netstat -in");
    }
    facts.put_of("mount", "/u02", "server_address", "10.0.1.10", "x");
    let facts = marked(&Collected::default(), facts);
    assert_eq!((storage(&facts, "lan", "lan1"), storage(&facts, "lan", "lan0")), (Some(true), Some(false)));
}

/// A host with three interfaces and a filer with four ports, one of which is in the network of the
/// default gateway.
fn with_filer(default_gateway: Option<&str>) -> Facts {
    let mut facts = Facts::default();
    for (name, address) in [("eth0", "10.1.1.31/24"), ("eth2", "10.61.163.31/24"), ("eth3", "10.61.164.31/24")] {
        facts.put_of("nic", name, "addresses", Value::List(vec![address.into()]), "x");
    }
    facts.put("ontap7.version", "7.3", "x");
    facts.put("ontap7.host_name", "scotty", "x");
    if let Some(gateway) = default_gateway {
        facts.put("ontap7.default_gateway", gateway, "x");
    }
    for (port, address) in [("e0", "10.1.1.101"), ("e1", "10.61.163.101"), ("e2", "10.61.164.101"), ("e3", "10.99.1.101")] {
        facts.put_of("ontap_if", port, "address", address, "x");
        facts.put_of("ontap_if", port, "netmask", "255.255.255.0", "x");
        facts.put_of("ontap_if", port, "host_name", format!("scotty-{port}"), "x");
    }
    facts.put_of("mount", "/u02", "server", "scotty-e1", "x");
    facts
}

#[test]
fn the_links_beside_the_one_that_is_used_are_storage_and_the_public_one_is_not() {
    let facts = marked(&Collected::default(), with_filer(Some("10.1.1.1")));
    for (kind, name, expected) in [
        ("ontap_if", "e0", Some(false)),
        ("ontap_if", "e1", Some(true)),
        ("ontap_if", "e2", Some(true)),
        // The host has no interface in the network of this port.
        ("ontap_if", "e3", Some(false)),
        ("nic", "eth0", Some(false)),
        ("nic", "eth2", Some(true)),
        ("nic", "eth3", Some(true)),
    ] {
        assert_eq!(storage(&facts, kind, name), expected, "{kind} {name}");
    }
}

#[test]
fn the_way_to_the_default_gateway_of_the_host_is_public_too() {
    let mut collected = Collected::default();
    collected.take_command("netstat -rn", b"Destination Gateway Flags\ndefault 10.1.1.1 UG 1 40\n", Some(0));
    let facts = marked(&collected, with_filer(None));
    assert_eq!((storage(&facts, "nic", "eth0"), storage(&facts, "ontap_if", "e0")), (Some(false), Some(false)));
    assert_eq!(storage(&facts, "nic", "eth3"), Some(true));
}

#[test]
fn what_may_be_public_or_lead_to_a_server_without_an_address_is_not_known() {
    let mut facts = with_filer(None);
    facts.host.remove("ontap7.host_name");
    facts.put_of("mount", "/u02", "server_address", "10.61.163.101", "x");
    let without_rc = marked(&Collected::default(), facts);
    assert_eq!((storage(&without_rc, "ontap_if", "e1"), storage(&without_rc, "ontap_if", "e2")), (Some(true), None));
    assert_eq!((storage(&without_rc, "nic", "eth2"), storage(&without_rc, "nic", "eth3")), (Some(true), Some(false)));
    let mut facts = with_filer(None);
    facts.put_of("mount", "/u03", "server", "frodo", "x");
    let unresolved = marked(&Collected::default(), facts);
    assert_eq!(storage(&unresolved, "nic", "eth2"), Some(true));
    assert_eq!(unresolved.value_of("nic", "eth2", "nfs_mounts"), None);
}

#[test]
fn mounts_by_several_names_of_a_server_are_of_one_volume() {
    let mut facts = with_filer(None);
    for (point, server, source) in [
        ("/a", "scotty-e1", "scotty-e1:/vol/a"),
        ("/b", "10.61.164.101", "10.61.164.101:/vol/a"),
        ("/c", "scotty", "scotty:/vol/c"),
        ("/d", "frodo", "frodo:/vol/a"),
    ] {
        facts.put_of("mount", point, "server", server, "x");
        facts.put_of("mount", point, "source", source, "x");
    }
    Network::read(&Collected::default(), &facts).name_volumes(&mut facts);
    let volume = |point: &str| facts.value_of("mount", point, "volume").cloned();
    assert!(volume("/a").is_some());
    assert_eq!(volume("/a"), volume("/b"));
    assert_ne!(volume("/a"), volume("/c"));
    assert_eq!(volume("/d"), Some("frodo:/vol/a".into()));
}
