//! Facts of Data ONTAP 7-Mode, before clusters: outputs of its console, and its `/etc/rc`.

use std::net::Ipv4Addr;

use super::collected::Collected;
use super::text::{bytes, integer, lines, odd, pair, telling, telling_value, truth, words};
use crate::facts::{Facts, Value};

/// All facts of a filer.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    for begin in ["version", "sysconfig"] {
        for (_, output) in collected.outputs(begin) {
            if let Some(version) = release(&output.text) {
                facts.put("ontap7.version", version, &output.line);
            }
        }
    }
    for (_, output) in collected.outputs("options") {
        options(&output.text, &output.line, facts);
    }
    for (rest, output) in collected.outputs("vol options") {
        let volume = words(&rest).next().unwrap_or_default();
        if !volume.is_empty() {
            volume_options(volume, &output.text, &output.line, facts);
        }
    }
    for (_, output) in collected.outputs("vol status") {
        status("ontap_volume", &output.text, &output.line, facts);
    }
    unread_volumes(collected, facts);
    for (rest, output) in collected.outputs("aggr status") {
        if rest.contains('r') {
            raid(&output.text, &output.line, facts);
        } else {
            status("ontap_aggregate", &output.text, &output.line, facts);
        }
    }
    for (_, output) in collected.outputs("sysconfig -r") {
        raid(&output.text, &output.line, facts);
    }
    interfaces(collected, facts);
    luns(collected, facts);
    for (_, output) in collected.outputs("fcp show cfmode") {
        let mode = output.text.rsplit(':').next().unwrap_or_default().trim();
        if !mode.is_empty() {
            facts.put("ontap7.fcp.cfmode", mode.to_ascii_uppercase(), &output.line);
        }
    }
    for (_, output) in collected.outputs("snap sched") {
        for (_, line) in telling(&output.text, &[]) {
            if let Some((volume, schedule)) = line.strip_prefix("Volume ").and_then(|rest| pair(rest, ':')) {
                facts.put_of("ontap_volume", volume, "snap_sched", schedule, &output.line);
            }
        }
    }
}

/// Makes options unknown that were not collected. The list of volumes has only the options that are
/// set. That the others are not set is known only from `vol options`.
fn unread_volumes(collected: &Collected, facts: &mut Facts) {
    let volumes: Vec<String> = facts.things.get("ontap_volume").into_iter().flatten().map(|(name, _)| name.clone()).collect();
    for volume in volumes {
        let line = format!("vol options {volume}");
        if collected.output(&line).is_none() {
            facts.put_unknown_others_of("ontap_volume", &volume, &collected.why(&line));
        }
    }
}

/// The version in `NetApp Release 7.2.4: Fri …`.
pub(super) fn release(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Release ")?;
    let version = rest.split(|letter: char| letter.is_whitespace() || letter == ':' || letter == ',').next()?;
    (!version.is_empty()).then(|| version.to_owned())
}

/// Lines such as `nfs.tcp.enable    on    (value might be overwritten in takeover)`.
fn options(text: &str, origin: &str, facts: &mut Facts) {
    for (number, line) in telling(text, &['#']) {
        let mut all = words(line);
        match (all.next(), all.next()) {
            (Some(name), Some(said)) if name.contains('.') => {
                facts.put(&format!("ontap7.option.{name}"), telling_value(said), origin)
            }
            // An option with an empty value.
            (Some(name), None) if name.contains('.') => {}
            _ => odd(facts, origin, number, line),
        }
    }
}

/// Options such as `nosnap=off, nosnapdir=off, minra=off`.
fn volume_options(volume: &str, text: &str, origin: &str, facts: &mut Facts) {
    for (number, line) in telling(text, &['#']) {
        for part in line.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match pair(part, '=') {
                Some((key, said)) => facts.put_of("ontap_volume", volume, key, telling_value(said), origin),
                // A word without a value is a property of the volume, for example `root`.
                None if part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') => {
                    facts.put_of("ontap_volume", volume, part, true, origin);
                }
                None => odd(facts, origin, number, part),
            }
        }
    }
}

/// Output of `vol status -v` and `aggr status -v`: name, state, status words and options, which may
/// continue on later lines.
fn status(kind: &str, text: &str, origin: &str, facts: &mut Facts) {
    let mut name = String::new();
    for (_, line) in telling(text, &[]) {
        let all: Vec<&str> = words(line).collect();
        if let [first, "online" | "offline" | "restricted", ..] = all.as_slice() {
            (*first).clone_into(&mut name);
            facts.put_of(kind, &name, "state", all[1], origin);
            if kind == "ontap_volume" {
                facts.put_of(kind, &name, "flexible", line.contains("flex"), origin);
            }
            for raid in ["raid_dp", "raid4"].iter().filter(|raid| line.contains(**raid)) {
                facts.put_of(kind, &name, "raid_type", *raid, origin);
            }
        }
        if let Some(aggregate) = line.strip_prefix("Containing aggregate:") {
            facts.put_of(kind, &name, "aggregate", aggregate.trim().trim_matches('\''), origin);
            continue;
        }
        for word in line.split([',', ' ', '\t']).filter(|_| !name.is_empty()) {
            match pair(word, '=') {
                Some(("raidsize", said)) => {
                    if let Some(size) = integer(said) {
                        facts.put_of(kind, &name, "raid_size", size, origin);
                    }
                }
                Some(("raidtype", said)) => facts.put_of(kind, &name, "raid_type", said, origin),
                Some((key, said)) if !said.is_empty() => facts.put_of(kind, &name, key, telling_value(said), origin),
                _ => {}
            }
        }
    }
}

/// Output of `aggr status -r`: the disks of each aggregate.
fn raid(text: &str, origin: &str, facts: &mut Facts) {
    let mut name = String::new();
    let mut disks = std::collections::BTreeMap::new();
    for (_, line) in telling(text, &[]) {
        if let Some(rest) = line.strip_prefix("Aggregate ").or_else(|| line.strip_prefix("Volume ")) {
            words(rest).next().unwrap_or_default().clone_into(&mut name);
            for raid in ["raid_dp", "raid4"].iter().filter(|raid| rest.contains(**raid)) {
                facts.put_of("ontap_aggregate", &name, "raid_type", *raid, origin);
            }
        } else if line.starts_with("Spare") || line.starts_with("Pool") || line.starts_with("Broken") {
            name.clear();
        } else if ["data", "parity", "dparity"].contains(&words(line).next().unwrap_or_default()) && !name.is_empty() {
            *disks.entry(name.clone()).or_insert(0_i64) += 1;
        }
    }
    for (name, count) in disks {
        facts.put_of("ontap_aggregate", &name, "disk_count", count, origin);
    }
}

/// Whether `ifconfig -a` was printed by a filer. Only filers print flow control and media type.
pub(super) fn is_filers(text: &str) -> bool {
    text.contains("flowcontrol") || text.contains("mediatype")
}

fn interfaces(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("ifconfig").filter(|(_, output)| is_filers(&output.text)) {
        let mut port = String::new();
        for (_, line) in lines(&output.text) {
            if line.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
                line.split(':').next().unwrap_or_default().clone_into(&mut port);
            }
            if port.is_empty() || port.starts_with("lo") {
                continue;
            }
            let all: Vec<&str> = words(line).collect();
            let after = |word: &str| all.iter().position(|other| *other == word).and_then(|at| all.get(at + 1)).copied();
            if let Some(mtu) = after("mtu").or_else(|| after("mtusize")).and_then(integer) {
                facts.put_of("ontap_if", &port, "mtu", mtu, &output.line);
            }
            if let Some(flow) = after("flowcontrol") {
                facts.put_of("ontap_if", &port, "flowcontrol", flow.trim_matches(')'), &output.line);
            }
            if let Some(address) = after("inet") {
                facts.put_of("ontap_if", &port, "address", address, &output.line);
            }
            let mask =
                after("netmask").and_then(|mask| mask.strip_prefix("0x")).and_then(|mask| u32::from_str_radix(mask, 16).ok());
            if let Some(mask) = mask {
                facts.put_of("ontap_if", &port, "netmask", Ipv4Addr::from(mask).to_string(), &output.line);
            }
        }
    }
    let rc = collected
        .file("/etc/rc")
        .filter(|text| text.contains("mtusize") || text.contains("ifconfig e"))
        .map(|text| ("/etc/rc".to_owned(), text));
    let rdfile = collected
        .outputs("rdfile")
        .filter(|(rest, _)| rest.ends_with("rc"))
        .map(|(_, output)| (output.line.clone(), output.text.as_str()));
    for (origin, text) in rc.into_iter().chain(rdfile.collect::<Vec<_>>()) {
        start_up(text, &origin, facts);
    }
    for begin in ["iscsi interface show", "iswt interface show"] {
        for (_, output) in collected.outputs(begin) {
            for (_, line) in telling(&output.text, &['#']) {
                let all: Vec<&str> = words(line).collect();
                if let [first, second, rest @ ..] = all.as_slice() {
                    let (port, state) =
                        if first.eq_ignore_ascii_case("interface") { (second, rest.first()) } else { (first, Some(second)) };
                    if let Some(enabled) = state.and_then(|state| truth(state)) {
                        facts.put_of("ontap_if", port, "iscsi", enabled, &output.line);
                    }
                }
            }
        }
    }
}

/// `/etc/rc` of a filer: its name, its default gateway, and its ports with their host names.
fn start_up(text: &str, origin: &str, facts: &mut Facts) {
    let mut host = "";
    for (number, line) in telling(text, &['#']) {
        let all: Vec<&str> = words(line).collect();
        let origin = format!("{origin}:{number}");
        match all.as_slice() {
            ["hostname", name, ..] => {
                host = name;
                facts.put("ontap7.host_name", *name, &origin);
            }
            ["route", "add", "default", gateway, ..] => facts.put("ontap7.default_gateway", *gateway, &origin),
            ["ifconfig", port, rest @ ..] => port_of(port, rest, host, &origin, facts),
            _ => {}
        }
    }
}

/// A line such as ``ifconfig e4a `hostname`-e4a mediatype auto flowcontrol full mtusize 9000``.
fn port_of(port: &str, rest: &[&str], host: &str, origin: &str, facts: &mut Facts) {
    let after = |word: &str| rest.iter().position(|other| *other == word).and_then(|at| rest.get(at + 1)).copied();
    let mtu = after("mtusize").or_else(|| after("mtu")).and_then(integer);
    facts.put_of("ontap_if", port, "persistent_mtu", mtu.unwrap_or(1500), origin);
    if let Some(name) = rest.first().filter(|name| name.contains("`hostname`") && !host.is_empty()) {
        facts.put_of("ontap_if", port, "host_name", name.replace("`hostname`", host), origin);
    }
    if let Some(flow) = after("flowcontrol") {
        facts.put_of("ontap_if", port, "persistent_flowcontrol", flow, origin);
        if facts.value_of("ontap_if", port, "flowcontrol").is_none() {
            facts.put_of("ontap_if", port, "flowcontrol", flow, origin);
        }
    }
}

/// Outputs of `lun show -v` and `igroup show`.
fn luns(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("lun show") {
        let mut lun = String::new();
        for (_, line) in telling(&output.text, &['#']) {
            if line.starts_with("/vol/") {
                words(line).next().unwrap_or_default().clone_into(&mut lun);
                let exact = line.split_once('(').and_then(|(_, rest)| rest.split_once(')')).and_then(|(inner, _)| integer(inner));
                if let Some(size) = exact.or_else(|| words(line).nth(1).and_then(bytes)) {
                    facts.put_of("lun", &lun, "size", size, &output.line);
                }
            } else if let (Some((key, said)), false) = (pair(line, ':'), lun.is_empty()) {
                match key {
                    "Multiprotocol Type" => facts.put_of("lun", &lun, "ostype", said, &output.line),
                    "Space Reservation" => {
                        facts.put_of("lun", &lun, "space_reservation", truth(said).unwrap_or(false), &output.line)
                    }
                    "Maps" => facts.put_of("lun", &lun, "igroup", said.split('=').next().unwrap_or(said), &output.line),
                    "Alignment" => facts.put_of("lun", &lun, "alignment", said, &output.line),
                    _ => {}
                }
            }
        }
    }
    for (_, output) in collected.outputs("igroup show") {
        let (mut group, mut count) = (String::new(), std::collections::BTreeMap::new());
        for (_, line) in telling(&output.text, &['#']) {
            if let Some((_, rest)) = line.split_once("(ostype:") {
                words(line).next().unwrap_or_default().clone_into(&mut group);
                let ostype = rest.split(')').next().unwrap_or_default().trim();
                facts.put_of("igroup", &group, "ostype", ostype, &output.line);
                facts.put_of("igroup", &group, "protocol", if line.contains("FCP") { "fcp" } else { "iscsi" }, &output.line);
            } else if !group.is_empty() {
                *count.entry(group.clone()).or_insert(0_i64) += 1;
            }
        }
        for (group, count) in count {
            facts.put_of("igroup", &group, "initiators", Value::Int(count), &output.line);
        }
    }
}
