//! Network interfaces and routes of Linux.

use std::net::Ipv4Addr;

use crate::collect::collected::Collected;
use crate::collect::persistent::{put_setting, running_mtu};
use crate::collect::text::{integer, lines, odd, pair, telling, truth, unquoted, words};
use crate::facts::Facts;

/// Notes all facts of interfaces.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    let mut any = false;
    for (path, text) in collected.files_under("/sys/class/net/") {
        let Some((name, attribute)) = path.trim_start_matches("/sys/class/net/").split_once('/') else { continue };
        any = true;
        attribute_of(name, attribute, text.trim(), path, facts);
    }
    for (_, output) in collected.outputs("ip") {
        any |= ip_link(&output.text, &output.line, facts);
    }
    for (_, output) in collected.outputs("ifconfig").filter(|(_, output)| !crate::collect::ontap7::is_filers(&output.text)) {
        any |= ifconfig(&output.text, &output.line, facts);
    }
    if !any {
        facts.put_unknown("nic", &collected.why("/sys/class/net"));
    }
    for output in &collected.commands {
        if let Some(rest) = crate::collect::command_line::rest_after(&output.line, "ethtool") {
            ethtool(&rest, &output.text, &output.line, facts);
        }
    }
    for (line, reason) in collected.denied.iter().filter(|(line, _)| line.starts_with("ethtool")) {
        for name in ["driver_version", "rx_pause", "tx_pause", "tso", "autoneg"] {
            facts.put_unknown(&format!("nic.{name}"), &format!("{line}: {reason}"));
        }
    }
    persistent(collected, facts);
}

fn attribute_of(nic: &str, attribute: &str, text: &str, origin: &str, facts: &mut Facts) {
    if nic == "lo" {
        return;
    }
    match attribute {
        "mtu" => {
            if let Some(mtu) = integer(text) {
                facts.put_of("nic", nic, "mtu", mtu, origin);
            }
        }
        // An interface without a link reports -1 or "unknown".
        "speed" => {
            if let Some(speed) = integer(text).filter(|speed| *speed > 0) {
                facts.put_of("nic", nic, "speed_mbit", speed, origin);
            }
        }
        "operstate" => facts.put_of("nic", nic, "up", text == "up", origin),
        "device/driver" => facts.put_of("nic", nic, "driver", text, origin),
        _ => {}
    }
}

/// `ip link` and `ip address` print one head line for each interface, then its addresses.
fn ip_link(text: &str, origin: &str, facts: &mut Facts) -> bool {
    let (mut nic, mut any) = (String::new(), false);
    for (_, line) in lines(text) {
        let mut all = words(line);
        if line.starts_with(|letter: char| letter.is_ascii_digit()) {
            let Some(name) = all.nth(1).map(|name| name.trim_end_matches(':')) else { continue };
            name.split('@').next().unwrap_or(name).clone_into(&mut nic);
            let mtu = words(line).skip_while(|word| *word != "mtu").nth(1).and_then(integer);
            if let Some(mtu) = mtu.filter(|_| nic != "lo") {
                facts.put_of("nic", &nic, "mtu", mtu, origin);
                any = true;
            }
        } else if let (Some("inet" | "inet6"), Some(address)) = (all.next(), all.next())
            && nic != "lo"
            && !nic.is_empty()
            && !address.starts_with("fe80")
        {
            address_of(&nic, address, origin, facts);
        }
    }
    any
}

/// Adds an address to the list of an interface.
pub(in crate::collect) fn address_of(nic: &str, address: &str, origin: &str, facts: &mut Facts) {
    let thing = facts.things.entry("nic".to_owned()).or_default().entry(nic.to_owned()).or_default();
    let fact = thing
        .entry("addresses".to_owned())
        .or_insert_with(|| crate::facts::Fact { value: crate::facts::Value::List(Vec::new()), origin: origin.to_owned() });
    // No database host has more addresses on one interface.
    if let crate::facts::Value::List(list) = &mut fact.value
        && list.len() < 256
        && !list.contains(&address.into())
    {
        list.push(address.into());
    }
}

/// `ifconfig -a` of Linux in its old (`MTU:1500`) and new (`mtu 1500`) format.
fn ifconfig(text: &str, origin: &str, facts: &mut Facts) -> bool {
    let (mut nic, mut any) = (String::new(), false);
    for (_, line) in lines(text) {
        if line.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            words(line).next().unwrap_or_default().trim_end_matches(':').clone_into(&mut nic);
        }
        let old = line.split_once("MTU:").map(|(_, rest)| rest);
        let mtu =
            old.or_else(|| line.split_once(" mtu ").map(|(_, rest)| rest)).and_then(|rest| words(rest).next()).and_then(integer);
        if let Some(mtu) = mtu.filter(|_| nic != "lo" && !nic.is_empty()) {
            facts.put_of("nic", &nic, "mtu", mtu, origin);
            any = true;
        }
        let address = line.trim_start().strip_prefix("inet addr:").or_else(|| line.trim_start().strip_prefix("inet "));
        if let Some(address) = address.and_then(|rest| words(rest).next()).filter(|_| nic != "lo" && !nic.is_empty()) {
            address_of(&nic, &with_mask(address, line), origin, facts);
        }
    }
    any
}

/// An address with the prefix length of the mask in its line: `Mask:255.255.255.0`, `netmask
/// 255.255.255.0`.
fn with_mask(address: &str, line: &str) -> String {
    let after = line.split_once("Mask:").or_else(|| line.split_once(" netmask ")).map(|(_, rest)| rest);
    let mask = after.and_then(|rest| words(rest).next()).and_then(|mask| mask.parse::<Ipv4Addr>().ok());
    mask.map_or(address.to_owned(), |mask| format!("{address}/{}", u32::from(mask).count_ones()))
}

/// `ethtool [-i|-a|-k|-g|-c] NIC`.
fn ethtool(rest: &str, text: &str, origin: &str, facts: &mut Facts) {
    let rest = rest.trim();
    let (flag, nic) = match rest.split_once(['-', ' ']) {
        // A slug has no leading hyphen.
        Some((flag @ ("i" | "a" | "k" | "g" | "c" | "S"), nic)) => (flag, nic),
        Some(("", tail)) => tail.split_once(' ').unwrap_or(("", tail)),
        _ => ("", rest),
    };
    let nic = nic.trim();
    if nic.is_empty() || flag == "S" || flag == "c" {
        return;
    }
    let mut current = false;
    for (_, line) in telling(text, &[]) {
        let Some((key, said)) = pair(line, ':') else { continue };
        current |= key.starts_with("Current hardware");
        let word = words(said).next().unwrap_or_default();
        let name = match (flag, key) {
            ("i", "driver") => "driver",
            ("i", "version") => "driver_version",
            ("i", "firmware-version") => "firmware_version",
            ("a", "RX") => "rx_pause",
            ("a", "TX") => "tx_pause",
            ("k", "tcp-segmentation-offload" | "tcp segmentation offload") => "tso",
            ("k", "generic-receive-offload" | "generic receive offload") => "gro",
            ("k", "large-receive-offload" | "large receive offload") => "lro",
            ("k", "rx-checksumming") => "rx_checksum",
            ("k", "tx-checksumming") => "tx_checksum",
            ("g", "RX") => {
                if current {
                    "rx_ring"
                } else {
                    "rx_ring_max"
                }
            }
            ("g", "TX") => {
                if current {
                    "tx_ring"
                } else {
                    "tx_ring_max"
                }
            }
            ("", "Auto-negotiation") => "autoneg",
            ("", "Duplex") => "duplex",
            ("", "Speed") => {
                if let Some(speed) = word.strip_suffix("Mb/s").and_then(integer) {
                    facts.put_of("nic", nic, "speed_mbit", speed, origin);
                }
                continue;
            }
            _ => continue,
        };
        if said.is_empty() {
            continue;
        }
        match (name, integer(word), truth(word)) {
            ("driver" | "driver_version" | "firmware_version" | "duplex", ..) => facts.put_of("nic", nic, name, said, origin),
            (_, Some(number), _) => facts.put_of("nic", nic, name, number, origin),
            (_, _, Some(yes)) => facts.put_of("nic", nic, name, yes, origin),
            _ => {}
        }
    }
}

/// Notes the MTU that the distribution's files set at a boot.
fn persistent(collected: &Collected, facts: &mut Facts) {
    for (path, text) in collected.files_under("/etc/sysconfig/network-scripts/ifcfg-") {
        let nic = path.rsplit("ifcfg-").next().unwrap_or_default();
        if nic == "lo" || nic.contains('~') || nic.ends_with(".bak") {
            continue;
        }
        let mut mtu = 1500;
        for (number, line) in telling(text, &['#']) {
            match pair(line, '=') {
                Some(("MTU", value)) => match integer(unquoted(value)) {
                    Some(value) => mtu = value,
                    None => odd(facts, path, number, line),
                },
                Some(("IPADDR", value)) => address_of(nic, unquoted(value), path, facts),
                _ => {}
            }
        }
        persistent_mtu(nic, mtu, path, facts);
    }
    if let Some(text) = collected.file("/etc/network/interfaces") {
        let mut nic = String::new();
        for (number, line) in telling(text, &['#']) {
            let mut all = words(line);
            match (all.next(), all.next()) {
                (Some("iface"), Some(name)) => name.clone_into(&mut nic),
                (Some("mtu"), Some(mtu)) if !nic.is_empty() => {
                    if let Some(mtu) = integer(mtu) {
                        persistent_mtu(&nic, mtu, &format!("/etc/network/interfaces:{number}"), facts);
                    }
                }
                _ => {}
            }
        }
    }
    for (path, text) in collected.files_under("/etc/netplan/") {
        let mut nic = String::new();
        for (number, line) in telling(text, &['#']) {
            match pair(line, ':') {
                Some((name, "")) => unquoted(name).clone_into(&mut nic),
                Some(("mtu", mtu)) => {
                    if let Some(mtu) = integer(mtu) {
                        persistent_mtu(&nic, mtu, &format!("{path}:{number}"), facts);
                    }
                }
                _ => {}
            }
        }
    }
    for folder in ["/etc/systemd/network/", "/etc/NetworkManager/system-connections/"] {
        for (path, text) in collected.files_under(folder) {
            let find = |keys: &[&str]| {
                telling(text, &['#'])
                    .filter_map(|(_, line)| pair(line, '='))
                    .find(|(key, _)| keys.contains(key))
                    .map(|(_, value)| value)
            };
            if let (Some(nic), Some(mtu)) = (find(&["Name", "interface-name"]), find(&["MTUBytes", "mtu"]).and_then(integer)) {
                persistent_mtu(nic, mtu, path, facts);
            }
        }
    }
}

fn persistent_mtu(nic: &str, mtu: i64, origin: &str, facts: &mut Facts) {
    if nic.is_empty() {
        return;
    }
    facts.put_of("nic", nic, "persistent_mtu", mtu, origin);
    if let Some(running) = running_mtu(nic, facts) {
        put_setting(&format!("nic {nic} mtu"), &running, mtu.into(), origin, facts);
    }
}
