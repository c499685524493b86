//! Kernel settings of Linux: in force, and as they will be after a boot.

mod boot;

use std::collections::BTreeMap;

use crate::collect::collected::Collected;
use crate::collect::persistent::put_setting;
use crate::collect::text::{integer, pair, telling, value, words};
use crate::facts::{Facts, Value};
use boot::Boot;

pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    let mut running = BTreeMap::new();
    for (_, output) in collected.outputs("sysctl -a") {
        // `sysctl -a` reports what it may not read in lines without `=`.
        for (key, text) in telling(&output.text, &['#', ';']).filter_map(|(_, line)| pair(line, '=')) {
            put_sysctl("sysctl", key, value(text), &output.line, facts);
            running.insert(key.to_owned(), value(text));
        }
    }
    for (path, text) in collected.files_under("/proc/sys/") {
        let key = boot::dotted(path.trim_start_matches("/proc/sys/"));
        put_sysctl("sysctl", &key, value(text), path, facts);
        running.insert(key, value(text));
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
        put_persistent(key, copies, boot.why_unknown(key).as_deref(), running.get(key), facts);
    }
}

/// The value that a setting has after a boot, with all copies in the order of reading; or that it is not known.
fn put_persistent(key: &str, copies: &[(Value, String)], unknown: Option<&str>, running: Option<&Value>, facts: &mut Facts) {
    let Some((value, origin)) = copies.last().cloned() else { return };
    match unknown {
        Some(reason) => facts.put_unknown(&format!("persistent.sysctl.{key}"), reason),
        None => put_sysctl("persistent.sysctl", key, value.clone(), &origin, facts),
    }
    let Some(running) = running else { return };
    let name = format!("sysctl {key}");
    put_setting(&name, running.clone(), value, &origin, facts);
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

/// Notes a value; of several numbers each by its place as well, from 1: `sysctl.net.ipv4.tcp_rmem.3`.
fn put_sysctl(prefix: &str, key: &str, value: Value, origin: &str, facts: &mut Facts) {
    if let Value::Text(text) = &value {
        let parts: Option<Vec<i64>> = words(text).map(integer).collect();
        for (index, part) in parts.filter(|parts| parts.len() <= 8).into_iter().flatten().enumerate() {
            facts.put(&format!("{prefix}.{key}.{}", index + 1), part, origin);
        }
    }
    facts.put(&format!("{prefix}.{key}"), value, origin);
}
