//! Facts of AIX hosts.

use super::collected::Collected;
use super::family::Family;
use super::mounts::{self, Mounts, Table};
use super::persistent::put_setting;
use super::text::{bytes, integer, lines, odd, pair, telling, truth, value, words};
use crate::facts::{Facts, Value};

/// All facts of an AIX host.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    identity(collected, facts);
    for tool in ["no", "nfso", "vmo", "ioo", "schedo"] {
        tunables(collected, tool, facts);
    }
    nextboot(collected, facts);
    for (rest, output) in collected.outputs("lsattr") {
        lsattr(&rest, &output.text, &output.line, facts);
    }
    limits(collected, facts);
    levels(collected, facts);
    disks(collected, facts);
    let mut found = Mounts::default();
    for (_, output) in collected.outputs("nfsstat -m") {
        mounts::nfsstat(&output.text, &output.line, &mut found);
    }
    for (rest, output) in collected.outputs("mount") {
        if rest.is_empty() {
            mounts::mount_aix(&output.text, &output.line, &mut found, facts);
        }
    }
    if let Some(text) = collected.file("/etc/filesystems") {
        mounts::filesystems(text, "/etc/filesystems", &mut found, facts);
    }
    found.note_unread(&[Table::Command("mount")], "/etc/filesystems", collected);
    if found.is_empty() {
        facts.put_unknown("mount", &collected.why("nfsstat -m"));
    }
    found.put(Family::Aix, facts);
}

fn identity(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("oslevel") {
        // 5300-03, 5300-04-CSP, 7200-05-03-2148, or 5.3.0.0
        let Some(level) = words(&output.text).next() else { continue };
        if let Some((release, rest)) = level.split_once('-') {
            if release.len() == 4 && release.bytes().all(|digit| digit.is_ascii_digit()) {
                facts.put("os.release", format!("{}.{}", &release[..1], &release[1..2]), &output.line);
            }
            let mut rest = rest.split('-');
            if let Some(level) = rest.next().and_then(integer) {
                facts.put("aix.technology_level", level, &output.line);
            }
            if let Some(pack) = rest.next().and_then(integer) {
                facts.put("aix.service_pack", pack, &output.line);
            }
        } else if level.contains('.') {
            facts.put("os.release", level.split('.').take(2).collect::<Vec<_>>().join("."), &output.line);
        }
    }
    for (_, output) in collected.outputs("uname") {
        // AIX host 3 5 00C8E2AA4C00: release, then version.
        if let ["AIX", _, release, version, ..] = words(&output.text).collect::<Vec<_>>().as_slice() {
            facts.put("os.release", format!("{version}.{release}"), &output.line);
        }
    }
    for begin in ["bootinfo -K", "getconf KERNEL_BITMODE"] {
        for (_, output) in collected.outputs(begin) {
            if let Some(bits) = integer(&output.text) {
                facts.put("os.word_bits", bits, &output.line);
            }
        }
    }
    for (_, output) in collected.outputs("bootinfo -r") {
        if let Some(size) = integer(&output.text) {
            facts.put("hw.memory_bytes", size.saturating_mul(1 << 10), &output.line);
        }
    }
    for (_, output) in collected.outputs("prtconf") {
        for (_, line) in telling(&output.text, &[]) {
            match pair(line, ':') {
                Some(("Memory Size" | "Good Memory Size", size)) => {
                    if let Some(size) = bytes(size) {
                        facts
                            .host
                            .entry("hw.memory_bytes".to_owned())
                            .or_insert_with(|| crate::facts::Fact { value: size.into(), origin: output.line.clone() });
                    }
                }
                Some(("Number Of Processors", count)) => facts.put("hw.cpu_count", value(count), &output.line),
                Some(("Kernel Type", kind)) => {
                    if let Some(bits) = kind.split('-').next().and_then(integer) {
                        facts.put("os.word_bits", bits, &output.line);
                    }
                }
                _ => {}
            }
        }
    }
}

/// `vmo -Fa` prints `name = value`; `n/a` means that there is no value. `vmo -L` prints columns.
fn tunables(collected: &Collected, tool: &str, facts: &mut Facts) {
    let mut any = false;
    for (rest, output) in collected.outputs(tool) {
        any = true;
        let long = rest.contains('L');
        for (number, line) in telling(&output.text, &['#', '-']) {
            if let Some((key, said)) = pair(line, '=') {
                if said != "n/a" && !key.contains(' ') {
                    facts.put(&format!("aix.{tool}.{key}"), value(said), &output.line);
                }
            } else if long {
                // NAME CUR DEF BOOT MIN MAX UNIT TYPE
                let all: Vec<&str> = words(line).collect();
                if let [key, current, _, boot, ..] = all.as_slice()
                    && let (Some(current), Some(boot)) = (scaled(current), scaled(boot))
                {
                    facts.put(&format!("aix.{tool}.{key}"), current, &output.line);
                    facts.put(&format!("persistent.aix.{tool}.{key}"), boot, &output.line);
                }
            } else if !line.contains("estricted") && !line.contains("unable") {
                odd(facts, &output.line, number, line);
            }
        }
    }
    if !any {
        facts.put_unknown(&format!("aix.{tool}."), &collected.why(&format!("{tool} -a")));
    }
}

/// A number of `vmo -L`. Its abbreviations, as in `4K` and `2M`, are powers of 1,024.
fn scaled(text: &str) -> Option<Value> {
    integer(text).or_else(|| bytes(text)).map(Value::Int)
}

/// `/etc/tunables/nextboot`: one stanza for each tool.
fn nextboot(collected: &Collected, facts: &mut Facts) {
    const PATH: &str = "/etc/tunables/nextboot";
    let Some(text) = collected.file(PATH) else { return };
    for stanza in super::stanza::read(text, &['#', '*'], PATH, facts) {
        if !["no", "nfso", "vmo", "ioo", "schedo"].contains(&stanza.name.as_str()) {
            continue;
        }
        for (key, said) in stanza.values {
            let said = value(super::text::unquoted(&said));
            let name = format!("aix.{}.{key}", stanza.name);
            facts.put(&format!("persistent.{name}"), said.clone(), PATH);
            if let Some(running) = facts.host.get(&name).cloned() {
                put_setting(&format!("{} {key}", stanza.name), &running, said, PATH, facts);
            }
        }
    }
}

/// `lsattr -El DEVICE` prints `attribute value description user_settable`; with `-a ATTRIBUTE` only
/// one line of it.
fn lsattr(rest: &str, text: &str, origin: &str, facts: &mut Facts) {
    // The device follows the options: `-El hdisk3`, `-E -l hdisk3`, or `El-hdisk3` in a file name.
    let device = rest.split([' ', '-']).find(|word| word.len() > 2 && word.ends_with(|letter: char| letter.is_ascii_digit()));
    let Some(device) = device else {
        if !text.trim().is_empty() {
            facts.remark(format!("{origin} names no device: skipped"));
        }
        return;
    };
    let kind = device.trim_end_matches(|letter: char| letter.is_ascii_digit());
    // All values begin in the same column. If a line has no value, its description begins in a
    // later one.
    let starts = |line: &str| {
        line.find(char::is_whitespace)
            .and_then(|end| line[end..].find(|letter: char| !letter.is_whitespace()).map(|more| end + more))
    };
    let column = telling(text, &['#']).filter_map(|(_, line)| starts(line)).min();
    for (number, line) in telling(text, &['#']) {
        if starts(line) != column {
            continue;
        }
        let mut all = words(line);
        let (Some(name), Some(first)) = (all.next(), all.next()) else {
            odd(facts, origin, number, line);
            continue;
        };
        if name == "lsattr:" || name == "attribute" {
            continue;
        }
        let setting = match (integer(first), truth(first)) {
            (Some(number), _) => Value::Int(number),
            (None, Some(yes)) => Value::Bool(yes),
            _ => Value::Text(first.to_owned()),
        };
        match kind {
            "sys" => facts.put(&format!("aix.sys0.{name}"), setting, origin),
            "aio" => facts.put(&format!("aix.aio0.{name}"), setting, origin),
            "proc" | "mem" | "inet" => facts.put(&format!("aix.{device}.{name}"), setting, origin),
            _ => facts.put_of(kind, device, name, setting, origin),
        }
        if let (Some(size), "sys", "realmem") = (integer(first), kind, name) {
            facts.put("hw.memory_bytes", size.saturating_mul(1 << 10), origin);
        }
    }
}

/// `/etc/security/limits`: one stanza for each user; -1 means no limit.
fn limits(collected: &Collected, facts: &mut Facts) {
    const PATH: &str = "/etc/security/limits";
    let Some(text) = collected.file(PATH) else {
        facts.put_unknown("limit.", &collected.why(PATH));
        return;
    };
    for stanza in super::stanza::read(text, &['*', '#'], PATH, facts) {
        for (key, said) in stanza.values {
            let (kind, item) = match key.strip_suffix("_hard") {
                Some(item) => ("hard", item),
                None => ("soft", key.as_str()),
            };
            facts.put(&format!("limit.{}.{kind}.{item}", stanza.name), value(&said), &format!("{PATH}:{}", stanza.line));
        }
    }
}

/// `lslpp -Lc` prints `package:fileset:level:state:…`; `lslpp -L` and `-l` print columns; `instfix
/// -i` prints fixes.
fn levels(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("lslpp") {
        let mut fileset = String::new();
        for (_, line) in telling(&output.text, &['#', '-']) {
            let parts: Vec<&str> = line.split(':').collect();
            let (name, level) = if parts.len() > 3 {
                (parts[1].to_owned(), parts[2])
            } else {
                let all: Vec<&str> = words(line).collect();
                let level = all.iter().position(|word| word.contains('.') && word.split('.').all(|part| integer(part).is_some()));
                match level {
                    Some(0) if !fileset.is_empty() => (std::mem::take(&mut fileset), all[0]),
                    Some(1) => (all[0].to_owned(), all[1]),
                    _ => {
                        // A long name is on a line of its own.
                        if let [name] = all.as_slice() {
                            (*name).clone_into(&mut fileset);
                        }
                        continue;
                    }
                }
            };
            if integer(level.split('.').next().unwrap_or_default()).is_some() {
                // The list has the root part and the usr part of a fileset; the first one counts.
                facts
                    .host
                    .entry(format!("aix.fileset.{name}"))
                    .or_insert_with(|| crate::facts::Fact { value: level.into(), origin: output.line.clone() });
            }
        }
    }
    for (_, output) in collected.outputs("instfix") {
        for (_, line) in telling(&output.text, &['#']) {
            // "    All filesets for IY12345 were found." or "Not all filesets for …"
            if let Some(id) = words(line).skip_while(|word| *word != "for").nth(1) {
                facts.put(&format!("aix.apar.{id}"), !line.starts_with("Not") && !line.contains("not found"), &output.line);
            }
        }
    }
}

/// `lsdev -Cc disk` lists the disks with description and state; `lspath` lists their paths.
fn disks(collected: &Collected, facts: &mut Facts) {
    for (_, output) in collected.outputs("lsdev") {
        for (_, line) in telling(&output.text, &['#']) {
            let mut all = words(line);
            let (Some(device), Some(state)) = (all.next(), all.next()) else { continue };
            if device.starts_with("hdisk") {
                let said = line.splitn(4, [' ', '\t']).last().unwrap_or_default().trim();
                facts.put_of("hdisk", device, "description", said, &output.line);
                facts.put_of("hdisk", device, "state", state, &output.line);
            }
            if device == "aio0" {
                facts.put("aix.aio0.state", state.to_ascii_lowercase(), &output.line);
            }
        }
    }
    let mut paths = std::collections::BTreeMap::new();
    for (_, output) in collected.outputs("lspath") {
        for (_, line) in lines(&output.text) {
            if let ["Enabled", disk, ..] = words(line).collect::<Vec<_>>().as_slice() {
                *paths.entry((*disk).to_owned()).or_insert(0_i64) += 1;
            }
        }
    }
    for (disk, count) in paths {
        facts.put_of("hdisk", &disk, "path_count", count, "lspath");
    }
}
