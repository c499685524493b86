//! The audit and `postgres -C` read the same value from any configuration: random trees of files,
//! in every spelling that the server accepts.

use std::path::{Path, PathBuf};
use std::process::Command;

use sim::{Rng, skip, sweep_slow};
use tune::collect::{LiveOptions, live};
use tune::facts::{Facts, Value};

/// Settings that the audit reads, each with the factor of its unit in facts and with spellings of
/// values.
const SETTINGS: &[(&str, i64, &[&str])] = &[
    ("fsync", 1, SWITCHES),
    ("full_page_writes", 1, SWITCHES),
    ("data_sync_retry", 1, SWITCHES),
    ("synchronous_commit", 1, &["0", "1", "OFF", "on", "no", "'local'", "Remote_Write", "'false'", "TRUE", "remote_apply", "t"]),
    ("wal_sync_method", 1, &["FDATASYNC", "fsync", "'open_datasync'", "Open_Sync"]),
    ("wal_compression", 1, &["on", "0", "'lz4'", "ZSTD", "pglz", "yes", "no"]),
    ("huge_pages", 1, &["try", "off", "1", "'ON'"]),
    (
        "shared_buffers",
        8192,
        &["16384", "0x4000", "040000", "1GB", "'1.5GB'", "' 2 GB '", "'1e4'", "131072kB", "'0.001TB'", "2gb"],
    ),
    ("max_wal_size", 1 << 20, &["4096", "'1.5GB'", "2GB", "'3000 MB'", "1048577kB", "0x400"]),
    ("work_mem", 1 << 10, &["4MB", "8192", "'70000 B'", "'.5GB'", "64kB", "63"]),
    ("checkpoint_timeout", 1000, &["300", "15min", "'0.5h'", "'90.4s'", "'1.5 min'", "86401"]),
    ("wal_buffers", 8192, &["16MB", "'1.99MB'", "2048"]),
    ("max_connections", 1, &["100", "100.4", "0x64", "'1e2'", "144"]),
    ("random_page_cost", 1, &["1.1", "4", "'1.10'", ".5", "4.0", "'1e0'"]),
];

const SWITCHES: &[&str] = &[
    "on",
    "off",
    "t",
    "F",
    "of",
    "0",
    "1",
    "yes",
    "No",
    "'off'",
    "'o\\146f'",
    "'on'",
    "TRUE",
    "fa",
    "'tr'",
    "'o''n'",
    "o",
    "2",
    "' on'",
];

fn programs() -> Option<PathBuf> {
    let found = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin/postgres"));
    let found = found.filter(|path| path.is_file()).max();
    if found.is_none() {
        skip("PostgreSQL is not installed");
    }
    found
}

fn pick<'a>(rng: &mut Rng, items: &[&'a str]) -> &'a str {
    rng.pick(items).copied().unwrap_or_default()
}

/// A name in random case.
fn spelled(rng: &mut Rng, name: &str) -> String {
    match rng.below(4) {
        0 => name.to_uppercase(),
        1 => name.split('_').map(|part| format!("{}{}", part[..1].to_uppercase(), &part[1..])).collect::<Vec<_>>().join("_"),
        _ => name.to_owned(),
    }
}

/// A random line: a setting, an include, a comment, or sometimes nonsense.
fn line(rng: &mut Rng) -> String {
    let include =
        pick(rng, &["include_dir 'conf.d'", "include_dir = 'more.d'", "include 'x.conf'", "include_if_exists 'none.conf'"]);
    let include = include.split_once(|letter| " =".contains(letter)).map(|(word, rest)| (spelled(rng, word), rest));
    match rng.below(30) {
        0..=3 => include.map(|(word, rest)| format!("{word} {rest}")).unwrap_or_default(),
        4 => format!("#{}", include.map(|(word, rest)| format!("{word} {rest}")).unwrap_or_default()),
        5 => pick(rng, &["", "   ", "\t# comment", "# fsync = off"]).to_owned(),
        6 if rng.chance(1, 12) => {
            pick(rng, &["oops", "fsync = ", "a = b c", "include ''", "include 'none'", "x'y", "a = 'b"]).to_owned()
        }
        _ => {
            let (name, _, values) = *rng.pick(SETTINGS).unwrap();
            let value = pick(rng, values);
            let between = if value.starts_with('\'') { ["", " ", "=", " = "] } else { [" ", "\t", "=", " = "] };
            format!(
                "{}{}{}{value}{}",
                pick(rng, &["", " ", "\t"]),
                spelled(rng, name),
                pick(rng, &between),
                pick(rng, &["", " # x", "#x", "\r"])
            )
        }
    }
}

fn lines(rng: &mut Rng, count: u64) -> String {
    let count = rng.below(count + 1);
    let end = if rng.chance(1, 4) { "" } else { "\n" };
    (0..count).map(|_| line(rng)).collect::<Vec<_>>().join("\n") + end
}

/// A data directory with files that may include each other.
fn tree(data: &Path, rng: &mut Rng) {
    let put = |path: &str, text: String| {
        let at = data.join(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, text).unwrap();
    };
    put("PG_VERSION", "15\n".to_owned());
    put("postgresql.conf", lines(rng, 12));
    put("postgresql.auto.conf", if rng.chance(1, 3) { lines(rng, 2) } else { String::new() });
    // The includes of these files are looked for in their folder. Most are missing there, which
    // ends the chains.
    for (folder, names) in [
        ("", &["x.conf"][..]),
        ("conf.d/", &["10.conf", "9.conf", "a.conf", "Z.conf", ".h.conf", "b.CONF", "c.conf.bak"]),
        ("conf.d/more.d/", &["1.conf"]),
        ("more.d/", &["b.conf", "_.conf"]),
    ] {
        for name in names {
            if folder.is_empty() || rng.chance(1, 2) {
                put(&format!("{folder}{name}"), lines(rng, 3));
            }
        }
        std::fs::create_dir_all(data.join(folder)).unwrap();
    }
}

/// The value that the server reads, as facts have it, or the server's error.
fn asked(program: &Path, data: &Path, name: &str, one: i64) -> Result<Value, String> {
    let output = Command::new(program).args(["-C", name, "-D"]).arg(data).env("LC_ALL", "C").output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned();
    Ok(match (said.as_str(), said.parse::<i64>()) {
        (_, Ok(number)) if number > 0 => Value::Int(number * one),
        (_, Ok(number)) => Value::Int(number),
        ("on", _) => Value::Bool(true),
        ("off", _) => Value::Bool(false),
        _ => Value::Text(said),
    })
}

fn check(program: &Path, rng: &mut Rng) {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("etc/postgresql/15/main");
    std::fs::create_dir_all(&data).unwrap();
    tree(&data, rng);
    let facts = live(&LiveOptions::below(scratch.path()));
    let text = |path: &str| std::fs::read_to_string(data.join(path)).unwrap();
    for _ in 0..4 {
        let (name, one, _) = *rng.pick(SETTINGS).unwrap();
        match asked(program, &data, name, one) {
            Ok(wanted) => judge(&facts, name, &wanted, &|| text("postgresql.conf")),
            // After a syntax error in a file, nothing is known. A bad value that a later line
            // replaces only prevents a start.
            Err(complaint) => {
                let complaint = complaint.to_lowercase();
                let is_value = SETTINGS.iter().any(|(name, ..)| complaint.contains(&format!("\"{name}\"")));
                if !is_value {
                    assert_eq!(facts.value(&format!("postgres.{name}")), None, "{complaint}\n{}", text("postgresql.conf"));
                }
            }
        }
    }
}

fn judge(facts: &Facts, name: &str, wanted: &Value, shown: &dyn Fn() -> String) {
    let fact = format!("postgres.{name}");
    match facts.value(&fact) {
        Some(found) => assert_eq!(found, wanted, "{name}\n{}", shown()),
        // No file sets it, and the audit does not know its default.
        None => assert!(
            !facts.servers.iter().any(|server| server.facts.unknown.keys().any(|unknown| fact.starts_with(unknown.as_str()))),
            "{name} is {wanted:?}, and not known: {:?}\n{}",
            facts.servers,
            shown()
        ),
    }
}

#[test]
fn files_say_what_postgres_reads_in_them() {
    let Some(program) = programs() else { return };
    sweep_slow(50, |_, mut rng| check(&program, &mut rng));
}

#[test]
#[ignore = "nightly: a thousand configurations, a minute"]
fn files_say_what_postgres_reads_in_them_many_times() {
    let Some(program) = programs() else { return };
    sweep_slow(1000, |_, mut rng| check(&program, &mut rng));
}
