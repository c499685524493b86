//! Parameters of kernel modules of Linux: in force, and as modprobe would set them.

use std::collections::BTreeMap;

use crate::collect::collected::Collected;
use crate::collect::persistent::put_setting;
use crate::collect::text::{telling, telling_value, unquoted, words};
use crate::facts::Facts;

pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    for (path, reason) in &collected.denied {
        if let Some((module, name)) = path.strip_prefix("/sys/module/").and_then(|rest| rest.split_once("/parameters/")) {
            facts.put_unknown(&format!("module.{module}.{name}"), &format!("{path}: {reason}"));
        }
    }
    for (path, text) in collected.files_under("/sys/module/") {
        let mut parts = path.trim_start_matches("/sys/module/").splitn(3, '/');
        if let (Some(module), Some("parameters"), Some(name)) = (parts.next(), parts.next(), parts.next()) {
            facts.put(&format!("module.{module}.{name}"), telling_value(text.trim()), path);
        } else if let Some((module, "version")) = path.trim_start_matches("/sys/module/").split_once('/') {
            facts.put(&format!("module_version.{module}"), text.trim(), path);
        }
    }
    let mut found = BTreeMap::new();
    let old = collected.file("/etc/modprobe.conf").map(|text| ("/etc/modprobe.conf", text));
    for (path, text) in old.into_iter().chain(collected.files_under("/etc/modprobe.d/")) {
        for (number, line) in telling(text, &['#']) {
            let mut line = words(line);
            if let (Some("options"), Some(module)) = (line.next(), line.next()) {
                for word in line {
                    let (key, setting) = word.split_once('=').unwrap_or((word, "1"));
                    found.insert(
                        format!("{}.{key}", module.replace('-', "_")),
                        (telling_value(unquoted(setting)), format!("{path}:{number}")),
                    );
                }
            }
        }
    }
    for (key, (value, origin)) in found {
        facts.put(&format!("persistent.module.{key}"), value.clone(), &origin);
        if let Some(running) = facts.value(&format!("module.{key}")).cloned() {
            put_setting(&format!("module {key}"), running, value, &origin, facts);
        }
    }
}
