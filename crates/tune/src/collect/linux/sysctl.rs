//! Kernel settings of Linux: in force, and as `sysctl --system` would set them.

use std::collections::BTreeMap;

use crate::collect::collected::Collected;
use crate::collect::persistent::put_setting;
use crate::collect::text::{integer, odd, pair, telling, value, words};
use crate::facts::{Facts, Value};

/// Lines `key = value` of `sysctl`, with slashes or dots.
fn sysctl_lines<'a>(text: &'a str, origin: &str, facts: &mut Facts) -> Vec<(usize, String, &'a str)> {
    let mut found = Vec::new();
    for (number, line) in telling(text, &['#', ';']) {
        match pair(line, '=') {
            Some((key, value)) => {
                let key = key.trim_start_matches('-').trim();
                // The first separator says which of both forms it is.
                let key = match key.find(['.', '/']).map(|at| key.as_bytes()[at]) {
                    Some(b'/') => key.replace('.', "\u{0}").replace('/', ".").replace('\u{0}', "/"),
                    _ => key.to_owned(),
                };
                found.push((number, key, value));
            }
            // Takes a name out of a pattern of another line (sysctl.d(5)); patterns are not told apart here.
            None if line.starts_with('-') => {}
            // `sysctl -a` says so of what it may not read.
            None if line.starts_with("sysctl:") || line.contains("permission denied") => {}
            None => odd(facts, origin, number, line),
        }
    }
    found
}

pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    let mut running = BTreeMap::new();
    for (_, output) in collected.outputs("sysctl -a") {
        for (_, key, text) in sysctl_lines(&output.text, &output.line, facts) {
            put_sysctl("sysctl", &key, value(text), &output.line, facts);
            running.insert(key, value(text));
        }
    }
    for (path, text) in collected.files_under("/proc/sys/") {
        let key = path.trim_start_matches("/proc/sys/").replace('.', "\u{0}").replace('/', ".").replace('\u{0}', "/");
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
    for (key, copies) in persistent_sysctls(collected, facts) {
        let Some((value, origin)) = copies.last().cloned() else { continue };
        put_sysctl("persistent.sysctl", &key, value.clone(), &origin, facts);
        let Some(running) = running.get(&key) else { continue };
        let name = format!("sysctl {key}");
        put_setting(&name, running.clone(), value, &origin, facts);
        let mut files: Vec<Value> = Vec::new();
        let mut values: Vec<Value> = Vec::new();
        for (value, origin) in copies {
            let file = Value::from(origin.rsplit_once(':').map_or(origin.as_str(), |(file, _)| file));
            if !files.contains(&file) {
                files.push(file);
            }
            if !values.contains(&value) {
                values.push(value);
            }
        }
        facts.put_of("setting", &name, "files", Value::List(files), &origin);
        facts.put_of("setting", &name, "values", Value::List(values), &origin);
    }
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

/// What `sysctl --system` would set, each copy in the order read, the last one counts: files by name, those of /etc before those of
/// the same name elsewhere, the old file last.
fn persistent_sysctls(collected: &Collected, facts: &mut Facts) -> BTreeMap<String, Vec<(Value, String)>> {
    let mut files: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for folder in ["/usr/lib/sysctl.d/", "/run/sysctl.d/", "/etc/sysctl.d/"] {
        for (path, text) in collected.files_under(folder).filter(|(path, _)| path.ends_with(".conf")) {
            files.insert(path.rsplit('/').next().unwrap_or(path).to_owned(), (path, text));
        }
    }
    let old = collected.file("/etc/sysctl.conf").map(|text| ("/etc/sysctl.conf", text));
    let mut found: BTreeMap<String, Vec<(Value, String)>> = BTreeMap::new();
    for (path, text) in files.into_values().chain(old) {
        for (number, key, text) in sysctl_lines(text, path, facts) {
            let copies = found.entry(key).or_default();
            // Of many copies the last is what counts; a file with a thousand is no configuration.
            if copies.len() < 64 {
                copies.push((value(text), format!("{path}:{number}")));
            } else if let Some(last) = copies.last_mut() {
                *last = (value(text), format!("{path}:{number}"));
            }
        }
    }
    found
}
