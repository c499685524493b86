//! Resource limits of users on Linux (limits.conf(5)), and the services that apply them
//! (pam_limits).

use std::collections::BTreeMap;

use crate::collect::collected::Collected;
use crate::collect::text::{odd, telling, value, words};
use crate::facts::{Facts, Value};

pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    let mut found = BTreeMap::new();
    if collected.file("/etc/security/limits.conf").is_none() && collected.files_under("/etc/security/limits.d/").next().is_none()
    {
        facts.put_unknown("limit.", &collected.why("/etc/security/limits.conf"));
    }
    let main = collected.file("/etc/security/limits.conf").map(|text| ("/etc/security/limits.conf", text));
    for (path, text) in main.into_iter().chain(collected.files_under("/etc/security/limits.d/")) {
        for (number, line) in telling(text, &['#']) {
            let line = line.split('#').next().unwrap_or(line);
            let all: Vec<&str> = words(line).collect();
            let [user, kind, item, amount] = all.as_slice() else {
                odd(facts, path, number, line);
                continue;
            };
            // The largest number, so that a rule can require a minimum.
            let amount = match *amount {
                "unlimited" | "infinity" | "-1" => Value::Int(i64::MAX),
                amount => value(amount),
            };
            let user = if *user == "*" { "default" } else { user };
            let kinds: &[&str] = match *kind {
                "-" => &["soft", "hard"],
                "soft" => &["soft"],
                "hard" => &["hard"],
                _ => {
                    odd(facts, path, number, line);
                    continue;
                }
            };
            for kind in kinds {
                found.insert(format!("limit.{user}.{kind}.{item}"), (amount.clone(), format!("{path}:{number}")));
            }
        }
    }
    for (name, (value, origin)) in found {
        facts.put(&name, value, &origin);
    }
    for (path, text) in collected.files_under("/etc/pam.d/") {
        let service = path.trim_start_matches("/etc/pam.d/");
        let has = telling(text, &['#']).any(|(_, line)| line.contains("pam_limits.so"));
        facts.put(&format!("pam.{service}.limits"), has, path);
    }
}
