//! iSCSI and Fibre Channel of Linux, and multipath maps.

use std::collections::BTreeMap;

use crate::collect::collected::Collected;
use crate::collect::text::{self, integer, lines, odd, pair, telling, value, words};
use crate::facts::{Facts, Value};

/// Notes all these facts.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    iscsid(collected, facts);
    for (rest, output) in collected.outputs("iscsiadm") {
        if rest.contains("session") {
            sessions(&output.text, &output.line, facts);
        }
    }
    for (rest, output) in collected.outputs("iscsiadm") {
        if rest.contains("node") {
            records(&output.text, &output.line, facts);
        }
    }
    for (path, text) in collected.files_under("/sys/class/iscsi_session/") {
        let Some((session, name)) = path.trim_start_matches("/sys/class/iscsi_session/").split_once('/') else { continue };
        let session = session.trim_start_matches("session");
        match (name, integer(text)) {
            ("recovery_tmo", Some(number)) => facts.put_of("iscsi_session", session, "replacement_timeout", number, path),
            ("targetname", _) => facts.put_of("iscsi_session", session, "target", text.trim(), path),
            _ => {}
        }
    }
    fibre(collected, facts);
    for (rest, output) in collected.outputs("multipath") {
        if rest.contains('l') {
            multipath_maps(&output.text, &output.line, facts);
        }
    }
}

/// `/etc/iscsi/iscsid.conf`. iscsid assigns line by line, so the last value of a key takes effect
/// (open-iscsi, idbm_recinfo_config).
fn iscsid(collected: &Collected, facts: &mut Facts) {
    const ISCSID: &str = "/etc/iscsi/iscsid.conf";
    let Some(text) = collected.file(ISCSID) else { return facts.put_unknown("iscsid.", &collected.why(ISCSID)) };
    let mut found = BTreeMap::new();
    for (number, line) in telling(text, &['#', ';']) {
        match pair(line, '=') {
            Some((key, setting)) => drop(found.insert(key, (value(setting), number))),
            None => odd(facts, ISCSID, number, line),
        }
    }
    for (key, (value, number)) in found {
        facts.put(&format!("iscsid.{key}"), value, &format!("{ISCSID}:{number}"));
    }
}

/// Output of `iscsiadm -m session -P 3`.
fn sessions(text: &str, origin: &str, facts: &mut Facts) {
    let (mut target, mut portal, mut session) = (String::new(), String::new(), None::<String>);
    let mut disks: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (_, line) in telling(text, &[]) {
        if let Some(disk) = line.strip_prefix("Attached scsi disk ")
            && let (Some(disk), Some(session)) = (words(disk).next(), &session)
        {
            disks.entry(session.clone()).or_default().push(disk.into());
            continue;
        }
        let Some((key, said)) = pair(line, ':') else { continue };
        match key {
            "Target" => {
                words(said).next().unwrap_or_default().clone_into(&mut target);
                session = None;
            }
            "Current Portal" => said.split(',').next().unwrap_or(said).clone_into(&mut portal),
            "SID" => {
                session = Some(said.to_owned());
                facts.put_of("iscsi_session", said, "target", target.as_str(), origin);
                facts.put_of("iscsi_session", said, "portal", portal.as_str(), origin);
            }
            _ => {
                let name = match key {
                    "Recovery Timeout" => "replacement_timeout".to_owned(),
                    "HeaderDigest"
                    | "DataDigest"
                    | "MaxRecvDataSegmentLength"
                    | "MaxXmitDataSegmentLength"
                    | "FirstBurstLength"
                    | "MaxBurstLength"
                    | "ImmediateData"
                    | "InitialR2T"
                    | "MaxOutstandingR2T" => snake(key),
                    _ => continue,
                };
                if let Some(session) = &session {
                    facts.put_of("iscsi_session", session, &name, value(said), origin);
                }
            }
        }
    }
    for (session, list) in disks {
        facts.put_of("iscsi_session", &session, "disks", Value::List(list), origin);
    }
}

/// `MaxBurstLength` becomes `max_burst_length`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut before = true;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !before {
            snake.push('_');
        }
        before = letter.is_ascii_uppercase();
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Output of `iscsiadm -m node -o show`: records with lines such as `node.session.cmds_max = 128`.
/// They apply to sessions with the same target.
fn records(text: &str, origin: &str, facts: &mut Facts) {
    const KEYS: &[(&str, &str)] = &[
        ("node.session.cmds_max", "cmds_max"),
        ("node.session.queue_depth", "queue_depth"),
        ("node.session.timeo.replacement_timeout", "replacement_timeout"),
        ("node.session.nr_sessions", "nr_sessions"),
        ("node.startup", "startup"),
    ];
    let mut target = String::new();
    for (_, line) in telling(text, &['#']) {
        let Some((key, said)) = pair(line, '=') else { continue };
        if key == "node.name" {
            said.clone_into(&mut target);
            continue;
        }
        let Some((_, name)) = KEYS.iter().find(|(known, _)| *known == key) else { continue };
        let sessions: Vec<String> =
            facts.things.get("iscsi_session").into_iter().flatten().map(|(session, _)| session.clone()).collect();
        for session in sessions {
            let same = facts.value_of("iscsi_session", &session, "target") == Some(&Value::Text(target.clone()));
            if same && facts.value_of("iscsi_session", &session, name).is_none() {
                facts.put_of("iscsi_session", &session, name, value(said), origin);
            }
        }
    }
}

fn fibre(collected: &Collected, facts: &mut Facts) {
    for (path, text) in collected.files_under("/sys/class/fc_host/") {
        let Some((host, name)) = path.trim_start_matches("/sys/class/fc_host/").split_once('/') else { continue };
        match name {
            "speed" => {
                if let Some(speed) = words(text).next().and_then(integer) {
                    facts.put_of("fc_host", host, "speed_gbit", speed, path);
                }
            }
            "port_state" | "symbolic_name" | "port_name" => facts.put_of("fc_host", host, name, text.trim(), path),
            "dev_loss_tmo" => facts.put_of("fc_host", host, name, value(text), path),
            "driver" => facts.put_of("fc_host", host, "driver", text.trim(), path),
            _ => {}
        }
    }
    let hosts: Vec<(String, String)> = facts
        .things
        .get("fc_host")
        .into_iter()
        .flatten()
        .map(|(host, attributes)| {
            let text = |name: &str| attributes.get(name).map(|fact| format!("{:?}", fact.value)).unwrap_or_default();
            (host.clone(), format!("{} {}", text("driver"), text("symbolic_name")))
        })
        .collect();
    for (host, said) in hosts {
        let said = said.to_ascii_lowercase();
        let (driver, depth) = if said.contains("ql") {
            ("qla2xxx", "module.qla2xxx.ql2xmaxqdepth")
        } else if said.contains("lpfc") || said.contains("emulex") {
            ("lpfc", "module.lpfc.lpfc_lun_queue_depth")
        } else {
            continue;
        };
        if facts.value_of("fc_host", &host, "driver").is_none() {
            facts.put_of("fc_host", &host, "driver", driver, "symbolic_name");
        }
        if let Some(fact) = facts.host.get(depth).cloned() {
            facts.put_of("fc_host", &host, "queue_depth", fact.value, &fact.origin);
        }
    }
}

/// Output of `multipath -ll` in its old and new format.
fn multipath_maps(text: &str, origin: &str, facts: &mut Facts) {
    let mut map: Option<(String, i64)> = None;
    for (_, line) in lines(text) {
        let head = words(line).find(|word| word.strip_prefix("dm-").is_some_and(|number| integer(number).is_some()));
        let margin = line.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if let Some(dm) = head.filter(|_| margin && !line.starts_with("size=")) {
            put_count(map.take(), origin, facts);
            let name = words(line).next().unwrap_or_default();
            facts.put_of("multipath_map", name, "dm", dm, origin);
            if let Some((vendor, product)) = line.split_once(dm).and_then(|(_, rest)| rest.trim().split_once(',')) {
                facts.put_of("multipath_map", name, "vendor", vendor.trim(), origin);
                facts.put_of("multipath_map", name, "product", product.trim(), origin);
            }
            map = Some((name.to_owned(), 0));
            continue;
        }
        let Some((name, count)) = &mut map else { continue };
        if line.starts_with("size=") || line.starts_with("[size=") {
            map_line(name, line, origin, facts);
        } else if let Some(policy) = between(line, "policy='", "'").or_else(|| between(line, "\\_ ", " [prio")) {
            // All path groups of a map have the same policy.
            if facts.value_of("multipath_map", name, "path_selector").is_none() {
                facts.put_of("multipath_map", name, "path_selector", policy, origin);
            }
        } else if words(line).any(|word| word.split(':').count() == 4 && word.split(':').all(|part| integer(part).is_some())) {
            *count += 1;
        }
    }
    put_count(map, origin, facts);
}

fn put_count(map: Option<(String, i64)>, origin: &str, facts: &mut Facts) {
    if let Some((name, count)) = map {
        facts.put_of("multipath_map", &name, "path_count", count, origin);
    }
}

fn map_line(name: &str, line: &str, origin: &str, facts: &mut Facts) {
    let field = |key: &str| between(line, &format!("{key}='"), "'").or_else(|| between(line, &format!("[{key}="), "]"));
    if let Some(features) = field("features") {
        facts.put_of("multipath_map", name, "features", features, origin);
    }
    if let Some(handler) = field("hwhandler") {
        facts.put_of("multipath_map", name, "hwhandler", handler, origin);
        facts.put_of("multipath_map", name, "alua", handler.contains("alua"), origin);
    }
    let size = between(line, "size=", " ").or_else(|| between(line, "[size=", "]"));
    if let Some(size) = size.and_then(text::bytes) {
        facts.put_of("multipath_map", name, "size", size, origin);
    }
}

fn between<'a>(line: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(begin)?;
    rest.split_once(end).map(|(inner, _)| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_both_forms_count_their_paths() {
        let text = "mpatha (3600a098) dm-0 NETAPP,LUN C-Mode\nsize=10G features='3 queue_if_no_path pg_init_retries 50' hwhandler='1 alua' wp=rw\n\
            |-+- policy='service-time 0' prio=50 status=active\n| |- 11:0:7:10 sdfi 130:0 active ready running\n| `- 11:0:1:1 sdb 8:16 active ready running\n\
            360a98000572d dm-2 NETAPP,LUN\n[size=50G][features=1 queue_if_no_path][hwhandler=0]\n\\_ round-robin 0 [prio=8][active]\n \\_ 3:0:0:1 sdc 8:32 [active][ready]\n";
        let mut facts = Facts::default();
        multipath_maps(text, "multipath -ll", &mut facts);
        let of = |map: &str, name: &str| facts.value_of("multipath_map", map, name).cloned();
        assert_eq!(of("mpatha", "path_count"), Some(2.into()));
        assert_eq!(of("mpatha", "alua"), Some(true.into()));
        assert_eq!(of("mpatha", "path_selector"), Some("service-time 0".into()));
        assert_eq!(of("360a98000572d", "path_count"), Some(1.into()));
        assert_eq!(of("360a98000572d", "features"), Some("1 queue_if_no_path".into()));
        assert_eq!(of("360a98000572d", "path_selector"), Some("round-robin 0".into()));
    }
}
