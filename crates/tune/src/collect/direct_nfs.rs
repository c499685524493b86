//! Mounts of Direct NFS: the output of `millrace nfs counters --json` (docs/counters.md) for each
//! user with such mounts.

use std::net::SocketAddr;

use serde::Deserialize;

use super::collected::Collected;
use crate::facts::{DIRECT_NFS_MOUNT as KIND, Facts, Value};

/// The command. In a capture, ` -- of uid N` follows it, because a user sees only its own mounts.
const COMMAND: &str = "millrace nfs counters --json";

/// The text before the reason if a user's counters could not be read.
const REFUSED: &str = "!\t";

/// Names of the processes of database servers.
const DATABASES: &[&str] = &["postgres", "postmaster", "mariadbd", "mysqld"];

/// Attributes that are options of the URL.
const OPTIONS: &[&str] = &[
    "close",
    "gather",
    "retain_bytes",
    "gone",
    "stable",
    "xprtsec",
    "fence_ms",
    "hard",
    "noac",
    "owner",
    "slots",
    "split_bytes",
    "writers",
];

/// One mount.
#[derive(Deserialize)]
struct Mount {
    #[serde(default)]
    paths: Vec<Path>,
    state: String,
    server: Option<String>,
    #[serde(default)]
    is_gone: bool,
    shared_memory: Option<SharedMemory>,
    #[serde(default)]
    processes: Vec<Process>,
    keeper: Option<u32>,
    #[serde(default)]
    calls_in_progress: Vec<Call>,
    retained_bytes: u64,
    retained_bytes_max: u64,
}

#[derive(Deserialize)]
struct Path {
    path: String,
    url: String,
    options: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Deserialize)]
struct SharedMemory {
    bytes: u64,
    bytes_free: u64,
}

#[derive(Deserialize)]
struct Process {
    command: String,
}

#[derive(Deserialize)]
struct Call {
    seconds: f64,
}

/// A user's counters, or why they could not be read, as an entry of a capture: the command line,
/// then its output.
#[must_use]
pub fn direct_nfs_text(uid: u32, counters: Result<String, String>) -> (String, String) {
    (format!("{COMMAND} -- of uid {uid}"), counters.unwrap_or_else(|reason| format!("{REFUSED}{reason}")))
}

/// Notes the mounts of all users whose counters were read.
pub(super) fn facts(collected: &Collected, facts: &mut Facts) {
    for (rest, output) in collected.outputs(COMMAND) {
        let user = rest.rsplit_once("uid ").map_or("", |(_, uid)| uid.trim());
        if let Some(reason) = output.text.strip_prefix(REFUSED) {
            facts.remark(format!("mounts of Direct NFS of uid {user} are not known: {}", reason.trim()));
            facts.put_unknown(KIND, reason.trim());
            continue;
        }
        match serde_json::from_str::<Vec<Mount>>(&output.text) {
            Ok(mounts) => {
                facts.looked_for(KIND);
                // The mount that was attached last comes first. A dead mount is only what a program
                // left over.
                let used = mounts.iter().filter(|mount| mount.state != "dead");
                used.for_each(|mount| mount.paths.iter().for_each(|path| put(mount, path, user, &output.line, facts)));
            }
            Err(fault) => facts.put_unknown(KIND, &format!("{}: {fault}", output.line)),
        }
    }
}

fn put(mount: &Mount, path: &Path, user: &str, origin: &str, facts: &mut Facts) {
    let is_there = |name: &str| facts.things.get(KIND).is_some_and(|things| things.contains_key(name));
    // Users of one host may have different mounts at the same path.
    let name = if is_there(&path.path) { format!("{} of uid {user}", path.path) } else { path.path.clone() };
    if is_there(&name) {
        return;
    }
    let (host, export) = split(&path.url);
    let mut put = |attribute: &str, value: Value| facts.put_of(KIND, &name, attribute, value, origin);
    put("path", path.path.as_str().into());
    put("server", host.into());
    put("export", export.into());
    put("uid", user.into());
    put("state", mount.state.as_str().into());
    put("process_count", number(mount.processes.len() as u64));
    if mount.processes.iter().any(|process| DATABASES.contains(&process.command.as_str())) {
        put("role", "data".into());
    }
    put("keeper", mount.keeper.is_some().into());
    put("export_gone", mount.is_gone.into());
    let longest = mount.calls_in_progress.iter().map(|call| call.seconds).fold(0.0, f64::max);
    put("waiting_s", Value::Int(longest as i64));
    put("retained_bytes", number(mount.retained_bytes));
    put("retained_bytes_max", number(mount.retained_bytes_max));
    if let Some(memory) = &mount.shared_memory {
        put("shm_bytes", number(memory.bytes));
        put("shm_bytes_free", number(memory.bytes_free));
    }
    let address = mount.server.as_deref().and_then(|server| server.parse::<SocketAddr>().ok()).map(|server| server.ip());
    if let Some(address) = address.or_else(|| host.parse().ok()) {
        put("loopback", address.is_loopback().into());
        put("server_address", address.to_string().into());
    }
    put_options(path, &name, origin, facts);
}

fn put_options(path: &Path, name: &str, origin: &str, facts: &mut Facts) {
    let Some(options) = &path.options else {
        let reason = "the library of an earlier version did not note the options of its mounts";
        return OPTIONS.iter().for_each(|option| facts.put_unknown_of(KIND, name, option, reason));
    };
    for (key, value) in options.iter().filter(|(key, _)| OPTIONS.contains(&key.as_str())) {
        match value {
            serde_json::Value::Bool(is_set) => facts.put_of(KIND, name, key, *is_set, origin),
            serde_json::Value::String(text) => facts.put_of(KIND, name, key, text.as_str(), origin),
            serde_json::Value::Number(count) => facts.put_of(KIND, name, key, number(count.as_u64().unwrap_or(u64::MAX)), origin),
            // A limit that the URL does not set is null.
            _ => {}
        }
    }
}

/// Host and export of a URL, without its options.
fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("nfs://").unwrap_or(url);
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let (hosts, _) = rest.split_once('/').unwrap_or((rest, ""));
    let export = rest.get(hosts.len()..).unwrap_or_default();
    let first = hosts.split(',').next().unwrap_or_default();
    let host = match first.strip_prefix('[').and_then(|six| six.split_once(']')) {
        Some((six, _)) => six,
        None => first.split_once(':').map_or(first, |(host, _)| host),
    };
    (host, export)
}

fn number(count: u64) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"[{"runtime_dir": "/dev/shm/millrace-999/1", "paths": [
        {"path": "/db", "url": "nfs://filer:3049/vol", "attached": "2026-11-23T21:40:03Z", "options": {"close": "nothing", "gather": true,
         "retain_bytes": 67108864, "gone": "wait", "xprtsec": "tls", "fence_ms": 1000, "hard": true, "slots": null, "later": {}}},
        {"path": "/old", "url": "nfs://[fd00::2],b/vol/x?local=10.0.0.1", "attached": "2026-11-23T21:40:03Z", "options": null}],
        "state": "in_use", "server": "10.0.0.5:3049", "is_gone": false, "shared_memory": {"bytes": 100, "bytes_free": 40},
        "processes": [{"pid": 811, "command": "postgres"}], "keeper": 820, "strays": [], "seconds": null,
        "calls_in_progress": [{"procedure": "COMMIT", "pid": 815, "seconds": 12.3, "since": "2026-11-23T21:40:03Z"}],
        "retained_bytes": 5, "retained_bytes_max": 67108864},
        {"paths": [{"path": "/dead", "url": "nfs://filer/vol"}], "state": "dead", "retained_bytes": 0, "retained_bytes_max": 0}]"#;

    fn of(texts: &[(&str, &str)]) -> Facts {
        let mut collected = Collected::default();
        texts
            .iter()
            .for_each(|(user, text)| collected.take_command(&format!("{COMMAND} -- of uid {user}"), text.as_bytes(), Some(0)));
        let mut found = Facts::default();
        facts(&collected, &mut found);
        found
    }

    #[test]
    fn a_mount_has_its_server_its_options_and_its_state_at_each_of_its_paths() {
        let facts = of(&[("999", TWO)]);
        let value = |mount: &str, name: &str| facts.value_of(KIND, mount, name).cloned();
        assert_eq!(facts.things[KIND].keys().collect::<Vec<_>>(), ["/db", "/old"], "{:?}", facts.unknown);
        for (name, wanted) in [
            ("server", Value::from("filer")),
            ("export", "/vol".into()),
            ("server_address", "10.0.0.5".into()),
            ("loopback", false.into()),
            ("close", "nothing".into()),
            ("hard", true.into()),
            ("fence_ms", 1000.into()),
            ("keeper", true.into()),
            ("process_count", 1.into()),
            ("waiting_s", 12.into()),
            ("shm_bytes_free", 40.into()),
            ("uid", "999".into()),
            ("role", "data".into()),
        ] {
            assert_eq!(value("/db", name), Some(wanted), "{name}");
        }
        assert_eq!((value("/db", "slots"), value("/old", "close")), (None, None));
        assert!(facts.why_unknown_of(KIND, "/old", "close").is_some_and(|why| why.contains("earlier version")));
        assert_eq!(split("nfs://[fd00::2],b/vol/x?local=10.0.0.1"), ("fd00::2", "/vol/x"));
    }

    #[test]
    fn two_users_may_have_a_mount_at_one_path_and_no_mount_is_known_to_be_none() {
        let facts = of(&[("999", TWO), ("1000", TWO), ("0", "[]")]);
        let names: Vec<_> = facts.things[KIND].keys().collect();
        assert_eq!(names, ["/db", "/db of uid 1000", "/old", "/old of uid 1000"]);
        assert!(of(&[("0", "[]")]).things[KIND].is_empty());
        assert!(!of(&[]).things.contains_key(KIND));
    }

    #[test]
    fn mounts_of_a_user_that_could_not_be_asked_are_unknown_with_the_reason() {
        let (line, text) = direct_nfs_text(7, Err("no answer within 5 s".to_owned()));
        let mut collected = Collected::default();
        collected.take_command(&line, text.as_bytes(), Some(0));
        let mut found = Facts::default();
        facts(&collected, &mut found);
        assert_eq!(found.unknown.get(KIND).map(String::as_str), Some("no answer within 5 s"));
        assert_eq!(found.remarks, ["mounts of Direct NFS of uid 7 are not known: no answer within 5 s"]);
    }

    #[test]
    fn an_answer_that_is_not_a_report_leaves_mounts_unknown() {
        assert!(of(&[("0", "millrace: cannot show counters")]).unknown.contains_key(KIND));
    }
}
