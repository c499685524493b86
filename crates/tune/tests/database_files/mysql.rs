//! The audit and `mariadbd --verbose --help` read the same values from any option files: random
//! trees, in every spelling that the server accepts.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sim::{Rng, skip, sweep_slow};
use tune::collect::{LiveOptions, live};
use tune::facts::Value;

/// Options that the audit reads, with shortened names and with spellings of values.
const OPTIONS: &[(&str, &[&str], &[&str])] = &[
    (
        "innodb_doublewrite",
        &[
            "innodb_doublewrite",
            "innodb-doubl",
            "InnoDB_DoubleWrite",
            "skip-innodb_doublewrite",
            "loose-innodb_doublewrite",
            "disable_innodb-doublewrite",
            "enable-innodb-doublewrite",
            "loose_skip_innodb_doublewrite",
            "SKIP-innodb_doublewrite",
        ],
        &["", "=0", "=1", "=OFF", "=on", "=no", "=FALSE", " = true # x", "='0'"],
    ),
    (
        "innodb_flush_log_at_trx_commit",
        &[
            "innodb_flush_log_at_trx_commit",
            "innodb-flush-log-at-trx",
            "INNODB_FLUSH_LOG_AT_TRX_COMMIT",
            "loose-innodb_flush_log_at_trx_commit",
            "innodb_flush_log_at",
        ],
        &["", "=0", "=1", "=2", "=3", "=5", "= 1\t# x", "=0#x", "=\"2\"", "=", "=x", "=0 ; x"],
    ),
    (
        "innodb_flush_method",
        &["innodb_flush_method", "innodb-flush-m"],
        &["=3", "=nosync", "=o_direct", "=O_D", "= fsync ", "=4", "='littl'"],
    ),
    ("sync_binlog", &["sync_binlog", "sync-b", "loose-sync-binlog"], &["=0", "=1", "=10K", "='1'", "=1k", "=1 # x"]),
    ("innodb_io_capacity", &["innodb_io_capacity", "innodb-io-capacity"], &["=200", "=2K", "=1M", "=5", "=2KB", "=1.5K"]),
    ("log_bin", &["log_bin", "log-bin", "skip-log-bin", "disable_log_bin"], &["", "=0", "=OFF", "=/x/bin"]),
];

const GROUPS: &[&str] = &[
    "[mysqld]",
    "[mysqld] # x",
    "[mysqld ]",
    "[MYSQLD]",
    "[server]",
    "[mariadb]",
    "[mariadb-10.11]",
    "[galera]",
    "[client-server]",
    "[mariadbd]",
    "[mariadb-10.6]",
    "[mysqld-5.7]",
    "[client]",
    "[mysqld_safe]",
    "[ mysqld]",
    "[mysqldump]",
];

fn program() -> Option<PathBuf> {
    let found = Some(PathBuf::from("/usr/sbin/mariadbd")).filter(|path| path.is_file());
    if found.is_none() {
        skip("MariaDB is not installed");
    }
    found
}

fn pick<'a>(rng: &mut Rng, items: &[&'a str]) -> &'a str {
    rng.pick(items).copied().unwrap_or_default()
}

/// The lines of one file. `root` is the folder of the tree, because the server finds includes by
/// absolute paths.
fn lines(rng: &mut Rng, root: &str, count: u64) -> String {
    let mut text = if rng.chance(1, 25) { String::new() } else { format!("{}\n", pick(rng, GROUPS)) };
    for _ in 0..=rng.below(count) {
        let line = match rng.below(16) {
            0..=2 => pick(rng, GROUPS).to_owned(),
            3 => format!("!includedir {root}/{}", pick(rng, &["a.d", "b.d/", "a.d/sub", "a.d "])),
            4 => format!("!include {root}/{}", pick(rng, &["x.cnf", "none.cnf", "a.d/1.cnf", "y"])),
            5 => pick(rng, &["", "# comment", "  ; comment", "!unknown x"]).to_owned(),
            6 if rng.chance(1, 8) => pick(rng, &["[mysqld", "!include ", "!includedir /none/x"]).to_owned(),
            _ => {
                let (_, names, values) = rng.pick(OPTIONS).unwrap();
                format!("{}{}{}", pick(rng, &["", "  "]), pick(rng, names), pick(rng, values))
            }
        };
        text.push_str(&line);
        text.push_str(pick(rng, &["\n", "\n", "\n", "\r\n"]));
    }
    if rng.chance(1, 8) { text.trim_end().to_owned() } else { text }
}

/// A tree with a file `etc/mysql/my.cnf` that includes others. Some of these include nothing and so
/// end every chain.
fn tree(root: &Path, rng: &mut Rng) {
    let at = root.join("etc/mysql");
    let base = at.display().to_string();
    for folder in ["a.d/sub", "b.d"] {
        std::fs::create_dir_all(at.join(folder)).unwrap();
    }
    // No file includes this one. It shows that the files belong to MariaDB.
    std::fs::write(at.join("mariadb.cnf"), "").unwrap();
    std::fs::write(root.join("etc/os-release"), "ID=debian\nVERSION_ID=\"12\"\n").unwrap();
    for name in [
        "my.cnf",
        "x.cnf",
        "y",
        "a.d/1.cnf",
        "a.d/10.cnf",
        "a.d/.h.cnf",
        "a.d/b.x.cnf",
        "a.d/C.CNF",
        "a.d/sub/1.cnf",
        "b.d/_.cnf",
        "b.d/a.cnf.bak",
    ] {
        if name == "my.cnf" || rng.chance(1, 2) {
            let text = lines(rng, &base, if name == "my.cnf" { 10 } else { 4 });
            std::fs::write(at.join(name), text).unwrap();
            let mode = if name != "my.cnf" && rng.chance(1, 8) { 0o666 } else { 0o644 };
            std::fs::set_permissions(at.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// The values that the server reads, by option; `None` if it does not start.
fn asked(program: &Path, config: &Path) -> Option<BTreeMap<String, String>> {
    let file = format!("--defaults-file={}", config.display());
    let output = Command::new(program).args([&file, "--user=mysql", "--verbose", "--help"]).env("LC_ALL", "C").output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || complaints.contains("[ERROR]") || complaints.contains("Fatal error") {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let table = text.lines().skip_while(|line| !line.starts_with("---------"));
    Some(
        table
            .filter_map(|line| line.split_once(' '))
            .map(|(name, said)| (name.replace('-', "_"), said.trim().to_owned()))
            .collect(),
    )
}

fn check(program: &Path, rng: &mut Rng) {
    let scratch = tempfile::tempdir().unwrap();
    tree(scratch.path(), rng);
    let config = scratch.path().join("etc/mysql/my.cnf");
    let wanted = asked(program, &config);
    // On the host that the audit reads, the tree is at `/`.
    let prefix = scratch.path().display().to_string();
    let moved = scratch.path().join("moved");
    copy(&scratch.path().join("etc"), &moved.join("etc"), &prefix);
    let facts = live(&LiveOptions::below(&moved));
    // Files that include each other twice exceed the audit's limit: ten levels in the server are a
    // million files.
    if facts
        .servers
        .iter()
        .flat_map(|server| server.facts.unknown.values())
        .any(|reason| reason.contains("more files than are read"))
    {
        return;
    }
    for (name, ..) in OPTIONS {
        let found = facts.value(&format!("mysql.{name}"));
        let said = wanted.as_ref().and_then(|wanted| wanted.get(*name));
        let shown = || texts(&scratch.path().join("etc/mysql"));
        let Some(said) = said else { continue };
        let value = match (*name, said.as_str()) {
            // The server prints a name for the log even if it writes no log.
            ("log_bin", said) => Value::Bool(!said.starts_with("(No default") && found != Some(&Value::Bool(false))),
            (_, "TRUE") => Value::Bool(true),
            (_, "FALSE") => Value::Bool(false),
            (_, said) => said.parse().map_or_else(|_| Value::from(said), Value::Int),
        };
        match found {
            Some(found) => assert_eq!(found, &value, "{name}\n{}", shown()),
            None => {
                let unknown = |facts: &tune::facts::Facts| {
                    facts.unknown.keys().any(|key| format!("mysql.{name}").starts_with(key.as_str()))
                };
                let of = facts.servers.iter().find(|server| unknown(&server.facts));
                // The prefix of several options is an error for the server. For the audit, the
                // value is then not known.
                assert!(
                    of.is_none(),
                    "{name} is {said}, and not known: {:?}\n{}",
                    of.map(|server| &server.facts.unknown),
                    shown()
                );
            }
        }
    }
    if wanted.is_none() {
        let known = |name: &str| facts.value(&format!("mysql.{name}")).is_some();
        let doubted = OPTIONS.iter().any(|(name, ..)| !known(name));
        assert!(doubted, "the server does not start\n{}", texts(&scratch.path().join("etc/mysql")));
    }
}

/// The texts of all files in a tree.
fn texts(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let text = |path: PathBuf| {
        if path.is_dir() { texts(&path) } else { format!("{}:\n{}\n", path.display(), std::fs::read_to_string(&path).unwrap()) }
    };
    entries.map(text).collect()
}

/// Copies a tree and removes its own path from the texts.
fn copy(from: &Path, to: &Path, prefix: &str) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to, prefix);
        } else {
            std::fs::write(&to, std::fs::read_to_string(&path).unwrap().replace(prefix, "")).unwrap();
            std::fs::set_permissions(&to, std::fs::metadata(&path).unwrap().permissions()).unwrap();
        }
    }
}

#[test]
fn files_say_what_mariadbd_reads_in_them() {
    let Some(program) = program() else { return };
    sweep_slow(50, |_, mut rng| check(&program, &mut rng));
}

#[test]
#[ignore = "nightly: a thousand configurations, two minutes"]
fn files_say_what_mariadbd_reads_in_them_many_times() {
    let Some(program) = program() else { return };
    sweep_slow(1000, |_, mut rng| check(&program, &mut rng));
}
