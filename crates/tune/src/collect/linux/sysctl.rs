//! Kernel settings of Linux: the values in force, and those after a boot.

mod boot;

use std::collections::BTreeMap;

use crate::collect::collected::Collected;
use crate::collect::persistent::put_setting;
use crate::collect::text::{integer, pair, telling, value, words};
use crate::facts::{Fact, Facts, Value};
use boot::Boot;

pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    let mut running: BTreeMap<String, Fact> = BTreeMap::new();
    for (_, output) in collected.outputs("sysctl -a") {
        // `sysctl -a` reports settings that it may not read in lines without `=`.
        for (key, text) in telling(&output.text, &['#', ';']).filter_map(|(_, line)| pair(line, '=')) {
            put_sysctl("sysctl", key, value(text), &output.line, facts);
            running.insert(key.to_owned(), Fact { value: value(text), origin: output.line.clone() });
        }
    }
    for (path, text) in collected.files_under("/proc/sys/") {
        let key = boot::dotted(path.trim_start_matches("/proc/sys/"));
        put_sysctl("sysctl", &key, value(text), path, facts);
        running.insert(key, Fact { value: value(text), origin: path.to_owned() });
    }
    if running.is_empty() {
        facts.put_unknown("sysctl.", &collected.why("sysctl -a"));
    }
    for (path, reason) in collected.denied.iter().filter(|(path, _)| path.starts_with("/proc/sys/")) {
        facts.put_unknown(
            &format!("sysctl.{}", path.trim_start_matches("/proc/sys/").replace('/', ".")),
            &format!("{path}: {reason}"),
        );
    }
    let keys: Vec<&str> = running.keys().map(String::as_str).collect();
    let boot = Boot::read(collected, &keys, facts);
    if let Some(reason) = boot.unread() {
        facts.put_unknown("persistent.sysctl.", &reason);
    }
    for (key, copies) in &boot.copies {
        let now = running.get(key).filter(|now| !is_zeroed(key, now, &boot));
        put_persistent(key, copies, boot.why_unknown(key).as_deref(), now, facts);
    }
}

/// Pairs of settings below `vm`. Setting one of a pair makes the other 0. Source: kernel
/// documentation, admin-guide/sysctl/vm.
const VM_PAIRS: &[[&str; 2]] = &[
    ["dirty_bytes", "dirty_ratio"],
    ["dirty_background_bytes", "dirty_background_ratio"],
    ["overcommit_kbytes", "overcommit_ratio"],
];

/// The setting below `vm` that becomes 0 when this one is set.
pub(crate) fn other_of_pair(name: &str) -> Option<&'static str> {
    let [one, two] = VM_PAIRS.iter().find(|pair| pair.contains(&name))?;
    Some(if *one == name { two } else { one })
}

/// Whether a setting is 0 because the configuration also sets the other of its pair. This happens
/// at each boot.
fn is_zeroed(key: &str, now: &Fact, boot: &Boot) -> bool {
    let other = key.strip_prefix("vm.").and_then(other_of_pair);
    now.value == Value::Int(0) && other.is_some_and(|other| boot.copies.contains_key(&format!("vm.{other}")))
}

/// Notes the value that a setting has after a boot, with all copies in the order of reading; or
/// that the value is not known.
fn put_persistent(key: &str, copies: &[(Value, String)], unknown: Option<&str>, running: Option<&Fact>, facts: &mut Facts) {
    let Some((value, origin)) = copies.last().cloned() else { return };
    match unknown {
        Some(reason) => facts.put_unknown(&format!("persistent.sysctl.{key}"), reason),
        None => put_sysctl("persistent.sysctl", key, value.clone(), &origin, facts),
    }
    let Some(running) = running else { return };
    let name = format!("sysctl {key}");
    put_setting(&name, running, value, &origin, facts);
    if let Some(reason) = unknown {
        facts.put_unknown_of("setting", &name, "persistent", reason);
    }
    let mut files: Vec<Value> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    for (value, origin) in copies {
        let file = Value::from(origin.rsplit_once(':').map_or(origin.as_str(), |(file, _)| file));
        if !files.contains(&file) {
            files.push(file);
        }
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    facts.put_of("setting", &name, "files", Value::List(files), &origin);
    facts.put_of("setting", &name, "values", Value::List(values), &origin);
}

/// Notes a value. Several numbers are also noted one by one, counted from 1:
/// `sysctl.net.ipv4.tcp_rmem.3`.
fn put_sysctl(prefix: &str, key: &str, value: Value, origin: &str, facts: &mut Facts) {
    if let Value::Text(text) = &value {
        let parts: Option<Vec<i64>> = words(text).map(integer).collect();
        for (index, part) in parts.filter(|parts| parts.len() <= 8).into_iter().flatten().enumerate() {
            facts.put(&format!("{prefix}.{key}.{}", index + 1), part, origin);
        }
    }
    facts.put(&format!("{prefix}.{key}"), value, origin);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel parameters whose running value is compared with the value after a boot.
    fn compared(running: &[u8], file: &[u8]) -> Vec<String> {
        let mut collected = Collected::default();
        collected.take_command("sysctl -a", running, Some(0));
        collected.take_file("/etc/sysctl.d/90-db.conf", file);
        let mut found = Facts::default();
        facts(&collected, &mut found);
        found.things.get("setting").into_iter().flatten().map(|(name, _)| name.clone()).collect()
    }

    #[test]
    fn a_ratio_that_the_bytes_beside_it_set_to_0_is_not_compared() {
        let both = b"vm.dirty_ratio = 10\nvm.dirty_bytes = 536870912\n";
        assert_eq!(compared(b"vm.dirty_ratio = 0\nvm.dirty_bytes = 536870912\n", both), ["sysctl vm.dirty_bytes"]);
        assert_eq!(compared(b"vm.dirty_ratio = 0\nvm.dirty_bytes = 1\n", b"vm.dirty_ratio = 10\n"), ["sysctl vm.dirty_ratio"]);
    }
}
