//! Without a site file, an audit has the same findings, except for a dozen facts that only the user
//! knows. It also says what it does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use results::audit::{Severity, Verdict};
use tune::collect::{LiveOptions, capture, live, write_capture};
use tune::facts::{Facts, Value};
use tune::judge::{Judgement, judge};
use tune::rules::RuleSet;

/// Facts that only the user knows, and the rules that have no finding on the captures without them.
const POLICY: [(&str, &[&str]); 12] = [
    ("site.asm", &["oracle-asm-data-over-all-controllers", "oracle-asm-fra-group", "oracle-asm-log-group"]),
    ("site.cpu_busy_percent", &["cross-cpu-headroom"]),
    ("site.diagnostics_apart", &["solaris-diagnostics-apart"]),
    ("site.home_snapshot_before_patch", &["solaris-home-snapshot-before-patch"]),
    ("site.jumbo_frames", &["ontap7-storage-mtu"]),
    ("site.log_space_watched", &["cross-log-space-watched"]),
    ("site.nic_driver_current", &["solaris-nic-driver-current"]),
    ("site.redo_members_on_two_controllers", &["storage-redo-members-on-two-controllers"]),
    ("site.separate_storage_network", &["cross-storage-network-apart"]),
    ("site.snapshots_with_backup", &["cross-snapshots-with-backup"]),
    ("site.volumes_share_all_disks", &["ontap7-few-large-volumes"]),
    // Only Oracle's control file names its redo logs.
    ("mount.role", &["cross-logs-on-own-volume", "solaris-redo-direct-io"]),
];

/// Findings that exist only without the site file. If nothing says that a mount contains redo logs
/// and no datafiles, the rule for datafiles asks for direct I/O.
const IN_PLACE: [(&str, &str, &str); 1] = [("tr-3322-untuned", "solaris-data-direct-io", "mount /oralog")];

fn rules() -> RuleSet {
    RuleSet::folder(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../rules")).unwrap_or_else(|error| panic!("{error}"))
}

fn stored(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name)
}

fn judged(rules: &RuleSet, at: &Path) -> Judgement {
    let (facts, _) = capture(at).unwrap_or_else(|error| panic!("{error}"));
    judge(rules, &facts)
}

/// The judgement of the same capture without its site file.
fn without_site(rules: &RuleSet, name: &str) -> Judgement {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("capture");
    assert!(Command::new("cp").arg("-r").arg(stored(name)).arg(&at).status().unwrap().success());
    fs::remove_file(at.join("site.toml")).unwrap();
    judged(rules, &at)
}

/// Rules and subjects of the findings.
fn found(judgement: &Judgement) -> BTreeSet<(&str, &str)> {
    let found = judgement.findings.iter().filter(|finding| finding.verdict == Verdict::Finding);
    found.map(|finding| (finding.rule.as_str(), finding.subject.as_deref().unwrap_or_default())).collect()
}

#[test]
fn without_a_site_file_the_captures_give_the_same_findings_but_for_a_dozen_policy_facts() {
    let rules = rules();
    let policy: BTreeMap<&str, &str> = POLICY.iter().flat_map(|(fact, of)| of.iter().map(|rule| (*rule, *fact))).collect();
    let (mut wrong, mut lost_rules) = (Vec::new(), BTreeSet::new());
    let mut count = 0;
    for entry in fs::read_dir(stored("")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let (with, without) = (judged(&rules, &stored(&name)), without_site(&rules, &name));
        for (rule, subject) in found(&with).difference(&found(&without)) {
            lost_rules.insert((*rule).to_owned());
            if !policy.contains_key(rule) {
                wrong.push(format!("{name}: {rule} {subject} is lost"));
            }
        }
        for (rule, subject) in found(&without).difference(&found(&with)) {
            if !IN_PLACE.contains(&(name.as_str(), rule, subject)) {
                wrong.push(format!("{name}: {rule} {subject} is found without the site file alone"));
            }
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(count, 10);
    // Each listed rule loses its findings without its fact, and each one uses its fact.
    for (rule, fact) in policy {
        assert!(lost_rules.contains(rule), "{rule} does not need {fact}");
        let loaded = rules.find(rule).unwrap();
        let asked = format!("{} {}", loaded.rule.test, loaded.rule.when.as_deref().unwrap_or_default());
        assert!(asked.contains(fact), "{rule} does not ask for {fact}: {asked}");
    }
}

#[test]
fn hpux_names_direct_io_first_without_a_site_file_and_says_what_it_does_not_know() {
    let judgement = without_site(&rules(), "tr-3557-untuned");
    let first: Vec<(&str, Option<&str>, Severity)> = judgement
        .findings
        .iter()
        .take(4)
        .map(|finding| (finding.rule.as_str(), finding.subject.as_deref(), finding.severity))
        .collect();
    let points = ["mount /mnt/oradata1", "mount /mnt/oradata2", "mount /mnt/oralog1", "mount /mnt/oralog2"];
    assert_eq!(first, points.map(|point| ("hpux-database-mounts-direct-io", Some(point), Severity::High)));
    let remarks = judgement.remarks.join("\n");
    assert!(remarks.contains("nothing says what holds the redo logs of Oracle"), "{remarks}");
}

fn put(root: &Path, path: &str, text: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
}

const DATA: &str = "var/lib/postgresql/15/main";

/// A host with PostgreSQL on NFS, whose log and a tablespace are on other mounts through links, and
/// MariaDB with its log and binary log on other mounts.
fn host(root: &Path) {
    put(root, "etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
    let mount = |number: u32, point: &str, address: &str, path: &str| {
        format!(
            "{number} 22 0:50 / {point} rw,relatime - nfs {address}:{path} rw,vers=3,rsize=65536,wsize=65536,hard,proto=tcp,timeo=600,addr={address}\n"
        )
    };
    let mounts = [
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n".to_owned(),
        mount(40, "/var/lib/postgresql", "10.0.1.5", "/vol/pg"),
        mount(41, "/mnt/wal", "10.0.1.5", "/vol/wal"),
        mount(42, "/mnt/fast", "10.0.2.5", "/vol/fast"),
        mount(43, "/srv/maria", "10.0.1.5", "/vol/maria"),
        mount(44, "/srv/redo", "10.0.1.5", "/vol/redo"),
        mount(45, "/srv/binlog", "10.0.1.5", "/vol/binlog"),
        mount(46, "/home", "10.0.1.5", "/vol/home"),
    ];
    put(root, "proc/self/mountinfo", &mounts.concat());
    put(
        root,
        "proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\neth0 00000000 0100000A 0003 0 0 0 00000000 0 0 0\neth1 0001000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\neth2 0002000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\neth3 0003000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n",
    );
    for nic in ["eth0", "eth1", "eth2", "eth3"] {
        put(root, &format!("sys/class/net/{nic}/mtu"), "1500\n");
    }
    put(root, "etc/postgresql/15/main/postgresql.conf", &format!("data_directory = '/{DATA}'\n"));
    put(root, &format!("{DATA}/PG_VERSION"), "15\n");
    put(root, &format!("{DATA}/postgresql.auto.conf"), "\n");
    fs::create_dir_all(root.join(DATA).join("pg_tblspc")).unwrap();
    for folder in ["mnt/wal/15", "mnt/fast/ts", "srv/maria/data", "srv/redo", "srv/binlog", "var/lib"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    symlink("/mnt/wal/15", root.join(DATA).join("pg_wal")).unwrap();
    symlink("/mnt/fast/ts", root.join(DATA).join("pg_tblspc/16384")).unwrap();
    symlink("../../srv/maria/data", root.join("var/lib/mysql")).unwrap();
    let options = "[mysqld]\ndatadir = /var/lib/mysql\ninnodb_log_group_home_dir = /srv/redo\nlog_bin = /srv/binlog/b\n";
    put(root, "etc/mysql/my.cnf", options);
}

fn roles(facts: &Facts) -> BTreeMap<&str, String> {
    let role = |point: &str| match facts.value_of("mount", point, "role") {
        Some(Value::Text(role)) => Some(role.clone()),
        _ => None,
    };
    facts.things["mount"].keys().filter_map(|point| Some((point.as_str(), role(point)?))).collect()
}

fn check(facts: &Facts) {
    let expected = [
        ("/mnt/fast", "data"),
        ("/mnt/wal", "redo"),
        ("/srv/binlog", "redo"),
        ("/srv/maria", "data"),
        ("/srv/redo", "redo"),
        ("/var/lib/postgresql", "data"),
    ];
    assert_eq!(roles(facts), expected.map(|(point, role)| (point, role.to_owned())).into());
    for (nic, expected) in [("eth0", false), ("eth1", true), ("eth2", true), ("eth3", false)] {
        assert_eq!(facts.value_of("nic", nic, "storage"), Some(&expected.into()), "{nic}");
    }
    let remarks = judge(&rules(), facts).remarks.join("\n");
    assert!(remarks.contains("nothing says what the NFS mounts /home hold"), "{remarks}");
}

#[test]
fn links_of_data_directories_give_mounts_their_roles_on_a_host_and_in_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    host(&root);
    let options = LiveOptions::below(&root);
    check(&live(&options));
    let at = folder.path().join("capture");
    write_capture(&at, &options).unwrap();
    check(&capture(&at).unwrap().0);
}

#[test]
fn the_script_follows_the_links_of_data_directories() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    host(&root);
    let at = folder.path().join("capture");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dist/collect/collect.sh");
    let ran =
        Command::new("sh").arg(script).arg(&at).env("MILLRACE_ROOT", &root).env("MILLRACE_SYSTEM", "Linux").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let (facts, _) = capture(&at).unwrap();
    let roles = roles(&facts);
    for (point, expected) in [("/mnt/wal", "redo"), ("/mnt/fast", "data"), ("/srv/maria", "data"), ("/srv/redo", "redo")] {
        assert_eq!(roles.get(point).map(String::as_str), Some(expected), "{point} of {roles:?}");
    }
}
