//! What is taken out of a capture adds no finding about a database, and turns no finding into a pass.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use results::audit::{Finding, Verdict};
use tune::collect::{LiveOptions, capture, write_capture};
use tune::judge::judge;
use tune::rules::RuleSet;

fn put(root: &Path, path: &str, text: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
}

/// A host whose databases have each setting that rules ask for in several files: the last one is worse, or better.
fn host(root: &Path) {
    put(root, "etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
    let data = "data_directory = '/var/lib/postgresql/15/main'\n";
    let main =
        "fsync = on\nfull_page_writes = off\ninclude_dir 'conf.d'\ninclude_if_exists 'none.conf'\nsynchronous_commit = off\n";
    put(root, "etc/postgresql/15/main/postgresql.conf", &format!("{data}{main}"));
    put(root, "etc/postgresql/15/main/conf.d/10-a.conf", "fsync = off\nfull_page_writes = on\ninclude '/srv/more'\n");
    put(root, "etc/postgresql/15/main/conf.d/20-b.conf", "data_sync_retry = on\n");
    put(root, "srv/more", "zero_damaged_pages = on\n");
    put(root, "var/lib/postgresql/15/main/PG_VERSION", "15\n");
    put(root, "var/lib/postgresql/15/main/postgresql.auto.conf", "autovacuum = off\nsynchronous_commit = local\n");
    put(root, "etc/mysql/my.cnf", "[mysqld]\nsync_binlog=0\nlog_bin\n!includedir /etc/mysql/mariadb.conf.d/\n");
    put(root, "etc/mysql/mariadb.conf.d/50-server.cnf", "[mysqld]\ninnodb_doublewrite=0\nsync_binlog=1\n");
    put(
        root,
        "etc/mysql/mariadb.conf.d/60-x.cnf",
        "[mysqld]\ninnodb_doublewrite=1\ninnodb_flush_log_at_trx_commit=0\n!include /srv/my.inc\n",
    );
    put(root, "srv/my.inc", "[mysqld]\ninnodb_flush_method=nosync\n");
    let ignored = "etc/mysql/mariadb.conf.d/70-ignored.cnf";
    put(root, ignored, "[mysqld]\ninnodb_flush_log_at_trx_commit=1\ninnodb_doublewrite=0\n");
    fs::set_permissions(root.join(ignored), fs::Permissions::from_mode(0o666)).unwrap();
}

/// Verdicts on the databases, by rule and server.
fn verdicts(rules: &RuleSet, capture_at: &Path) -> BTreeMap<String, Verdict> {
    let Ok((facts, _)) = capture(capture_at) else { return BTreeMap::new() };
    let of = |finding: Finding| (format!("{} {}", finding.rule, finding.server.unwrap_or_default()), finding.verdict);
    let judged = judge(rules, &facts).findings.into_iter();
    judged.filter(|finding| finding.rule.starts_with("postgres-") || finding.rule.starts_with("mysql-")).map(of).collect()
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

#[test]
fn what_is_taken_out_of_a_capture_adds_no_finding_of_a_database_and_makes_none_pass() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    host(&root);
    let at = scratch.path().join("capture");
    write_capture(&at, &LiveOptions::below(&root)).unwrap();
    let rules = RuleSet::folder(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../rules")).unwrap();
    let whole = verdicts(&rules, &at);
    let found = |rule: &str, verdict: Verdict| {
        let is = whole.iter().any(|(name, is)| name.starts_with(&format!("{rule} ")) && *is == verdict);
        assert!(is, "{rule} is not {verdict:?}: {whole:#?}");
    };
    for rule in ["postgres-fsync-on", "postgres-data-sync-retry-off", "postgres-damage-is-not-hidden", "postgres-autovacuum-on"] {
        found(rule, Verdict::Finding);
    }
    for rule in ["mysql-log-flushed-at-commit", "mysql-flush-method-safe"] {
        found(rule, Verdict::Finding);
    }
    for rule in [
        "postgres-full-page-writes-on",
        "postgres-synchronous-commit-on",
        "mysql-doublewrite-on",
        "mysql-binlog-flushed-at-commit",
    ] {
        found(rule, Verdict::Passed);
    }
    let mut entries = Vec::new();
    files_below(&at, &mut entries);
    for entry in entries.iter().filter(|entry| !entry.ends_with("MANIFEST")) {
        let bytes = fs::read(entry).unwrap();
        fs::remove_file(entry).unwrap();
        for (name, verdict) in verdicts(&rules, &at) {
            let before = whole.get(&name);
            assert!(verdict != Verdict::Finding || before == Some(&Verdict::Finding), "{name} without {}", entry.display());
            assert!(verdict != Verdict::Passed || before == Some(&Verdict::Passed), "{name} passes without {}", entry.display());
        }
        fs::write(entry, bytes).unwrap();
    }
}
