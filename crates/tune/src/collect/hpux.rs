//! Facts of HP-UX hosts.

use super::collected::Collected;
use super::family::Family;
use super::mounts::{self, Mounts, Table};
use super::persistent::put_setting;
use super::solaris::device_and_rest;
use super::text::{bytes, integer, lines, name_of, odd, pair, telling, unquoted, value, words};
use crate::facts::{Facts, Value};

/// All facts of an HP-UX host.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    identity(collected, facts);
    let mut any = false;
    for (rest, output) in collected.outputs("kctune").chain(collected.outputs("kmtune")) {
        any = true;
        kctune(&output.text, rest.contains('v'), &output.line, facts);
    }
    if !any {
        facts.put_unknown("hpux.kctune.", &collected.why("kctune -v"));
    }
    stand_system(collected, facts);
    ndd(collected, facts);
    software(collected, facts);
    rc_config(collected, facts);
    lans(collected, facts);
    volumes(collected, facts);
    let mut found = Mounts::default();
    for (_, output) in collected.outputs("nfsstat -m") {
        mounts::nfsstat(&output.text, &output.line, &mut found);
    }
    for (_, output) in collected.outputs("mount") {
        mounts::mount_command(&output.text, &output.line, &mut found, facts);
    }
    if let Some(text) = collected.file("/etc/mnttab") {
        mounts::mount_table(text, "/etc/mnttab", &mut found, facts);
    }
    if let Some(text) = collected.file("/etc/fstab") {
        mounts::fstab(text, "/etc/fstab", &mut found, facts);
    }
    found.note_unread(&[Table::Command("mount"), Table::File("/etc/mnttab")], "/etc/fstab", collected);
    if found.is_empty() {
        facts.put_unknown("mount", &collected.why("nfsstat -m"));
    }
    found.put(Family::Hpux, facts);
}

fn identity(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("uname") {
        // HP-UX host B.11.31 U ia64 …
        if let Some(release) = words(&output.text).find_map(|word| word.strip_prefix("B.")) {
            facts.put("os.release", release, &output.line);
        }
    }
    if facts.host_text("os.release") == Some("11.23") {
        facts.put("nfs.client_transfer_max", 64 << 10, "the release: nfs3_max_transfer_size ends there");
    }
    for (_, output) in collected.outputs("getconf KERNEL_BITS") {
        if let Some(bits) = integer(&output.text) {
            facts.put("os.word_bits", bits, &output.line);
        }
    }
    for (_, output) in collected.outputs("machinfo") {
        for (_, line) in telling(&output.text, &[]) {
            if let Some(size) = line.strip_prefix("Memory").map(|rest| rest.trim_start_matches([' ', '=', ':'])) {
                let mut all = words(size);
                let size = format!("{}{}", all.next().unwrap_or_default(), all.next().unwrap_or_default());
                if let Some(size) = bytes(&size) {
                    facts.put("hw.memory_bytes", size, &output.line);
                }
            }
            let count = line
                .strip_prefix("Number of CPUs")
                .and_then(|rest| words(rest.trim_start_matches([' ', '='])).next())
                .and_then(integer);
            let count = count.or_else(|| {
                line.strip_suffix("logical processors")
                    .or_else(|| line.split_once("logical processors").map(|(left, _)| left))
                    .and_then(|left| words(left).next())
                    .and_then(integer)
            });
            if let Some(count) = count {
                facts.put("hw.cpu_count", count, &output.line);
            }
        }
    }
}

/// `kctune` prints columns `name value expression changes`, `kctune -v` blocks of `Key  value`, and
/// `kmtune` columns `name value …`.
fn kctune(text: &str, verbose: bool, origin: &str, facts: &mut Facts) {
    let verbose = verbose || lines(text).any(|(_, line)| line.starts_with("Current Value"));
    let mut tunable = String::new();
    for (number, line) in telling(text, &['=', '#']) {
        let all: Vec<&str> = words(line).collect();
        match all.as_slice() {
            ["Tunable", name] if verbose => (*name).clone_into(&mut tunable),
            ["Current", "Value", said, ..] if verbose => put_tunable(&tunable, said, origin, facts),
            ["Value", "at", "Next", "Boot", said, ..] if verbose => {
                if let Some(amount) = amount(said) {
                    facts.put(&format!("persistent.hpux.kctune.{tunable}"), amount, origin);
                }
            }
            _ if verbose => {}
            ["Tunable" | "Parameter", ..] => {}
            [name, said, ..] => put_tunable(name, said, origin, facts),
            // The expression of a long line is alone on the next line.
            [_] => {}
            [] => odd(facts, origin, number, line),
        }
    }
}

fn put_tunable(name: &str, said: &str, origin: &str, facts: &mut Facts) {
    if let Some(amount) = amount(said).filter(|_| !name.is_empty()) {
        facts.put(&format!("hpux.kctune.{name}"), amount, origin);
    }
}

/// A number or a text; `-` means that there is no value.
fn amount(said: &str) -> Option<Value> {
    match said {
        "-" | "[none]" => None,
        said => Some(value(said)),
    }
}

/// `/stand/system`: `tunable name value` or `name value`.
fn stand_system(collected: &Collected, facts: &mut Facts) {
    const PATH: &str = "/stand/system";
    for (number, line) in collected.file(PATH).into_iter().flat_map(|text| telling(text, &['*', '#'])) {
        let all: Vec<&str> = words(line).collect();
        let (name, said) = match all.as_slice() {
            ["tunable", name, said, ..] => (name, said),
            [name, said] if integer(said).is_some() => (name, said),
            _ => continue,
        };
        let origin = format!("{PATH}:{number}");
        let said = value(said);
        facts.host.remove(&format!("persistent.hpux.kctune.{name}"));
        facts.put(&format!("persistent.hpux.kctune.{name}"), said.clone(), &origin);
        match facts.host.get(&format!("hpux.kctune.{name}")).cloned() {
            Some(running) => put_setting(&format!("kctune {name}"), &running, said, &origin, facts),
            None => facts.put(&format!("hpux.kctune.{name}"), said, &origin),
        }
    }
}

fn ndd(collected: &Collected, facts: &mut Facts) {
    for (rest, output) in collected.outputs("ndd -get") {
        let Some((driver, parameter)) = device_and_rest(&rest) else { continue };
        if let Some((_, line)) = telling(&output.text, &[]).next().filter(|_| output.exit.is_none_or(|code| code == 0)) {
            facts.put(&format!("hpux.ndd.{driver}.{}", parameter.replace('-', "_")), value(line), &output.line);
        }
    }
    const PATH: &str = "/etc/rc.config.d/nddconf";
    let entries: Vec<(String, i64, String, usize)> = collected.file(PATH).map(|text| indexed(text).collect()).unwrap_or_default();
    let of = |name: &str, index: i64| entries.iter().rev().find(|(key, at, ..)| key == name && *at == index);
    for (_, index, driver, number) in entries.iter().filter(|(key, ..)| key == "TRANSPORT_NAME") {
        let (Some((.., name, _)), Some((.., said, _))) = (of("NDD_NAME", *index), of("NDD_VALUE", *index)) else {
            facts.remark(format!(
                "{PATH}:{number}: TRANSPORT_NAME[{index}] has no NDD_NAME[{index}] and NDD_VALUE[{index}]: nothing is set"
            ));
            continue;
        };
        let (name, said, origin) = (format!("{driver}.{name}"), value(said), format!("{PATH}:{number}"));
        facts.put(&format!("persistent.hpux.ndd.{name}"), said.clone(), &origin);
        match facts.host.get(&format!("hpux.ndd.{name}")).cloned() {
            Some(running) => put_setting(&format!("ndd {name}"), &running, said, &origin, facts),
            None => facts.put(&format!("hpux.ndd.{name}"), said, &origin),
        }
    }
}

/// `KEY[3]=value` in a file of rc.config.d: key, index, value, line.
fn indexed(text: &str) -> impl Iterator<Item = (String, i64, String, usize)> {
    telling(text, &['#']).filter_map(|(number, line)| {
        let (key, said) = pair(line, '=')?;
        let (key, index) = key.strip_suffix(']')?.split_once('[')?;
        Some((key.to_owned(), integer(index)?, unquoted(said.split('#').next().unwrap_or(said)).to_owned(), number))
    })
}

/// `swlist -l bundle`, `swlist -l product`, `swlist -l patch`.
fn software(collected: &Collected, facts: &mut Facts) {
    let mut patches: Vec<Value> = Vec::new();
    let (mut lists_patches, mut lists_bundles) = (false, false);
    let mut origin = String::new();
    for (rest, output) in collected.outputs("swlist") {
        // `swlist` lists bundles unless another level is named. Patches are products.
        let is_of_products = ["product", "patch", "fileset"].iter().any(|level| rest.contains(level));
        (lists_patches, lists_bundles) = (lists_patches || is_of_products, lists_bundles || !is_of_products);
        if is_of_products || origin.is_empty() {
            output.line.clone_into(&mut origin);
        }
        for (_, line) in telling(&output.text, &['#']) {
            let mut all = words(line);
            let (Some(name), Some(version)) = (all.next(), all.next()) else { continue };
            let (name, version) = (name.split('.').next().unwrap_or(name), revision(version));
            if name.starts_with("PH") && name.contains('_') {
                let patch = Value::Text(name.to_owned());
                if !patches.contains(&patch) && patches.len() < 20_000 {
                    patches.push(patch);
                }
            } else if rest.contains("product") {
                facts
                    .host
                    .entry(format!("hpux.product.{name}"))
                    .or_insert_with(|| crate::facts::Fact { value: version.into(), origin: output.line.clone() });
            } else {
                facts
                    .host
                    .entry(format!("hpux.bundle.{name}"))
                    .or_insert_with(|| crate::facts::Fact { value: version.into(), origin: output.line.clone() });
            }
        }
    }
    if lists_patches || !patches.is_empty() {
        facts.put("hpux.patch", Value::List(patches), &origin);
    } else {
        facts.put_unknown("hpux.patch", &collected.why("swlist -l product"));
    }
    if !lists_bundles {
        facts.put_unknown("hpux.bundle.", &collected.why("swlist -l bundle"));
    }
}

/// A revision without the title after it. A long revision fills its column, so no blank separates
/// the two.
fn revision(word: &str) -> &str {
    let mut before = '.';
    for (at, letter) in word.char_indices() {
        if letter.is_ascii_uppercase() && before != '.' {
            return &word[..at];
        }
        before = letter;
    }
    word
}

/// Other files of rc.config.d: `nfsconf` without indexes, `hp…conf` with an index for each card.
fn rc_config(collected: &Collected, facts: &mut Facts) {
    for (path, text) in collected.files_under("/etc/rc.config.d/") {
        let file = path.rsplit('/').next().unwrap_or(path);
        if file == "nfsconf" {
            for (number, line) in telling(text, &['#']) {
                if let Some((key, said)) = pair(line, '=') {
                    facts.put(&format!("hpux.nfsconf.{key}"), value(unquoted(said)), &format!("{path}:{number}"));
                }
            }
        } else if let Some(driver) = file.strip_prefix("hp").and_then(|rest| rest.strip_suffix("conf")) {
            let entries: Vec<(String, i64, String, usize)> = indexed(text).collect();
            let prefix = format!("HP_{}_", driver.to_ascii_uppercase());
            for (_, index, nic, _) in entries.iter().filter(|(key, ..)| *key == format!("{prefix}INTERFACE_NAME")) {
                facts.put_of("lan", nic, "driver", driver, path);
                for (key, at, said, number) in &entries {
                    if at == index
                        && let Some(name) = key.strip_prefix(&prefix).filter(|name| *name != "INTERFACE_NAME" && !said.is_empty())
                    {
                        // The running MTU is the one that the interface reports.
                        let attribute = if name == "MTU" { "persistent_mtu".to_owned() } else { name_of(name) };
                        facts.put_of("lan", nic, &attribute, super::text::telling_value(said), &format!("{path}:{number}"));
                    }
                }
            }
        } else if file == "netconf" {
            for (_, index, nic, _) in indexed(text).filter(|(key, ..)| key == "INTERFACE_NAME").collect::<Vec<_>>() {
                if let Some((.., address, _)) = indexed(text).find(|(key, at, ..)| key == "IP_ADDRESS" && *at == index) {
                    facts.put_of("lan", &nic, "address", address, path);
                }
                if let Some((.., mask, _)) = indexed(text).find(|(key, at, ..)| key == "SUBNET_MASK" && *at == index) {
                    facts.put_of("lan", &nic, "netmask", mask, path);
                }
            }
        }
    }
}

/// Outputs of `ioscan -fnkC lan`, `netstat -in` and `lanadmin -m 0`.
fn lans(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("ioscan") {
        for (_, line) in telling(&output.text, &['=']) {
            // lan  0  0/1/2/0  igelan CLAIMED INTERFACE HP A6794-60001 …
            if let ["lan", instance, _, driver, ..] = words(line).collect::<Vec<_>>().as_slice() {
                facts.put_of("lan", &format!("lan{instance}"), "driver", *driver, &output.line);
            }
        }
    }
    for (_, output) in collected.outputs("netstat") {
        for (_, line) in telling(&output.text, &[]) {
            if let [nic, mtu, network, address, ..] = words(line).collect::<Vec<_>>().as_slice()
                && let (true, Some(mtu)) = (nic.starts_with("lan"), integer(mtu))
            {
                let nic = nic.trim_end_matches('*').split(':').next().unwrap_or(nic);
                facts.put_of("lan", nic, "mtu", mtu, &output.line);
                facts.put_of("lan", nic, "address", *address, &output.line);
                facts.put_of("lan", nic, "network", *network, &output.line);
            }
        }
    }
    for (rest, output) in collected.outputs("lanadmin") {
        let Some(instance) = rest.rsplit([' ', '-']).next().and_then(integer) else { continue };
        if let Some(mtu) = output
            .text
            .split("MTU Size")
            .nth(1)
            .and_then(|rest| words(rest.trim_start_matches([' ', '=', ':'])).next())
            .and_then(integer)
        {
            facts.put_of("lan", &format!("lan{instance}"), "mtu", mtu, &output.line);
        }
        if let Some(speed) = output
            .text
            .split("Speed")
            .nth(1)
            .and_then(|rest| words(rest.trim_start_matches([' ', '=', ':'])).next())
            .and_then(integer)
        {
            // Releases before 11.31 report bit/s, later ones Mbit/s.
            facts.put_of(
                "lan",
                &format!("lan{instance}"),
                "speed_mbit",
                if speed >= 1_000_000 { speed / 1_000_000 } else { speed },
                &output.line,
            );
        }
    }
}

/// Outputs of `vgdisplay -v` and `lvdisplay`.
fn volumes(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("vgdisplay").chain(collected.outputs("lvdisplay")) {
        let (mut kind, mut name) = ("vg", String::new());
        for (_, line) in telling(&output.text, &['-']) {
            if let Some(vg) = line.strip_prefix("VG Name") {
                (kind, name) = ("vg", vg.trim().to_owned());
            } else if let Some(lv) = line.strip_prefix("LV Name") {
                (kind, name) = ("lv", lv.trim().to_owned());
            } else if line.starts_with("PV Name") {
                name.clear();
            } else if !name.is_empty() {
                // A key contains only single blanks. Several blanks separate it from the value.
                if let Some((key, said)) = line.split_once("  ").or_else(|| line.rsplit_once(' ')) {
                    facts.put_of(kind, &name, &name_of(key), value(said), &output.line);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_end_where_a_title_begins() {
        for (word, clean) in [
            ("B.11.23.0803.070aFeature", "B.11.23.0803.070a"),
            ("B.11.31.0809.326", "B.11.31.0809.326"),
            ("1.0", "1.0"),
            ("C.04.70.000", "C.04.70.000"),
        ] {
            assert_eq!(revision(word), clean);
        }
    }
}
