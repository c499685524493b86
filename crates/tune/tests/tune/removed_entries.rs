//! Removing an entry from a capture adds no finding and lets no rule pass that did not pass before.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use results::audit::{Finding, Verdict};
use tune::collect::{LiveOptions, capture, write_capture};
use tune::judge::judge;
use tune::rules::RuleSet;

/// The site file, which sets facts. Without it other rules apply.
const SITE_FILE: &str = "site.toml";

const MANIFEST: &str = "MANIFEST";

/// What the MANIFEST says about a removed entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// The MANIFEST still lists it.
    Still,
    /// Its line is removed too, as if it had not been collected.
    NoMore,
}

fn put(root: &Path, path: &str, text: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
}

/// A host whose databases set each setting that rules use in several files. The last value is worse
/// or better than the others.
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

fn rules() -> RuleSet {
    RuleSet::folder(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../rules")).unwrap()
}

/// Verdicts by rule and subject.
fn verdicts(rules: &RuleSet, capture_at: &Path, is_meant: fn(&Finding) -> bool) -> BTreeMap<String, Verdict> {
    let Ok((facts, _)) = capture(capture_at) else { return BTreeMap::new() };
    let of = |finding: Finding| (format!("{} {}", finding.rule, finding.subject.unwrap_or_default()), finding.verdict);
    judge(rules, &facts).findings.into_iter().filter(is_meant).map(of).collect()
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

/// The entries of a capture by their paths.
fn entries(at: &Path) -> Vec<String> {
    let mut files = Vec::new();
    files_below(at, &mut files);
    let inner = |path: PathBuf| path.strip_prefix(at).unwrap().to_str().unwrap().to_owned();
    let mut entries: Vec<String> = files.into_iter().map(inner).filter(|path| path != MANIFEST && path != SITE_FILE).collect();
    entries.sort();
    entries
}

/// Removes each entry of a capture in turn and restores it. Lists the verdicts that became worse or
/// better.
///
/// `named` returns what the MANIFEST says about the entry with this number.
fn changed_by_removal(rules: &RuleSet, at: &Path, is_meant: fn(&Finding) -> bool, named: impl Fn(usize) -> Named) -> Vec<String> {
    let whole = verdicts(rules, at, is_meant);
    let manifest = fs::read_to_string(at.join(MANIFEST)).unwrap();
    let mut changed = Vec::new();
    for (number, entry) in entries(at).into_iter().enumerate() {
        let bytes = fs::read(at.join(&entry)).unwrap();
        fs::remove_file(at.join(&entry)).unwrap();
        if named(number) == Named::NoMore {
            let is_other = |line: &&str| !line.starts_with(&format!("entry {entry}\t"));
            let others: Vec<&str> = manifest.lines().filter(is_other).collect();
            assert_eq!(others.len() + 1, manifest.lines().count(), "{MANIFEST} does not name {entry}");
            fs::write(at.join(MANIFEST), others.join("\n")).unwrap();
        }
        for (judged, verdict) in verdicts(rules, at, is_meant) {
            let before = whole.get(&judged);
            if matches!(verdict, Verdict::Finding | Verdict::Passed) && before != Some(&verdict) {
                changed.push(format!("{}: {judged} is {verdict:?} without {entry}, {before:?} with it", at.display()));
            }
        }
        fs::write(at.join(MANIFEST), &manifest).unwrap();
        fs::write(at.join(&entry), bytes).unwrap();
    }
    changed
}

/// The same for copies of all captures of the reports, with one thread for each. `beside` names
/// files that are copied too and never removed.
fn changed_in_reports(beside: &[&str], named: impl Fn(usize) -> Named + Sync) -> Vec<String> {
    let (rules, scratch) = (rules(), tempfile::tempdir().unwrap());
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let captures: Vec<PathBuf> = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(captures.len(), 10);
    let of = |from: &Path| {
        let at = scratch.path().join(from.file_name().unwrap());
        for entry in entries(from).iter().map(String::as_str).chain(beside.iter().copied()) {
            fs::create_dir_all(at.join(entry).parent().unwrap()).unwrap();
            fs::copy(from.join(entry), at.join(entry)).unwrap();
        }
        changed_by_removal(&rules, &at, |_| true, &named)
    };
    thread::scope(|scope| {
        let running: Vec<_> = captures.iter().map(|from| scope.spawn(|| of(from))).collect();
        running.into_iter().flat_map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn no_entry_removed_from_a_report_s_capture_adds_a_finding_or_a_pass() {
    // The MANIFEST keeps the line of every second entry.
    let changed = changed_in_reports(&[MANIFEST, SITE_FILE], |number| if number % 2 == 0 { Named::Still } else { Named::NoMore });
    assert!(changed.is_empty(), "{changed:#?}");
}

#[test]
fn no_entry_removed_from_a_capture_without_a_site_file_adds_a_finding_or_a_pass() {
    let changed = changed_in_reports(&[MANIFEST], |number| if number % 2 == 0 { Named::NoMore } else { Named::Still });
    assert!(changed.is_empty(), "{changed:#?}");
}

#[test]
#[ignore = "nightly: each entry four times, 1,900 audits"]
fn no_entry_removed_with_or_without_its_line_of_the_manifest_adds_a_finding_or_a_pass() {
    for named in [Named::Still, Named::NoMore] {
        for beside in [&[MANIFEST, SITE_FILE][..], &[MANIFEST]] {
            let changed = changed_in_reports(beside, |_| named);
            assert!(changed.is_empty(), "{changed:#?}");
        }
    }
}

#[test]
fn no_entry_removed_from_a_database_s_host_adds_a_finding_or_a_pass() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    host(&root);
    let at = scratch.path().join("capture");
    write_capture(&at, &LiveOptions::below(&root)).unwrap();
    let rules = rules();
    let of_databases = |finding: &Finding| finding.rule.starts_with("postgres-") || finding.rule.starts_with("mysql-");
    let whole = verdicts(&rules, &at, of_databases);
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
    let changed = changed_by_removal(&rules, &at, of_databases, |_| Named::Still);
    assert!(changed.is_empty(), "{changed:#?}");
}
