//! Rules that once were wrong about the hosts of the reports, each with the case that showed it.

use std::path::PathBuf;

use results::audit::{Finding, Verdict};
use tune::collect::capture;
use tune::facts::{Fact, Facts, Value};
use tune::judge::{judge, setting_value};
use tune::rules::RuleSet;

fn rules() -> RuleSet {
    RuleSet::folder(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../rules")).unwrap()
}

fn read(name: &str) -> Facts {
    capture(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name)).unwrap().0
}

/// Replaces a value of the capture.
fn change(facts: &mut Facts, name: &str, value: impl Into<Value>) {
    facts.host.insert(name.to_owned(), Fact { value: value.into(), origin: "a test".to_owned() });
}

fn change_of(facts: &mut Facts, kind: &str, name: &str, attribute: &str, value: impl Into<Value>) {
    let thing = facts.things.get_mut(kind).unwrap().get_mut(name).unwrap();
    thing.insert(attribute.to_owned(), Fact { value: value.into(), origin: "a test".to_owned() });
}

fn of(rule: &str, facts: &Facts) -> Vec<Finding> {
    judge(&rules(), facts).findings.into_iter().filter(|finding| finding.rule == rule).collect()
}

fn verdicts(rule: &str, facts: &Facts) -> Vec<Verdict> {
    of(rule, facts).into_iter().map(|finding| finding.verdict).collect()
}

#[test]
fn snapshots_by_the_clock_of_the_storage_are_those_of_volumes_without_nosnap() {
    const RULE: &str = "cross-snapshots-with-backup";
    let mut facts = read("tr-3322-tuned");
    facts.host.remove("site.storage_snapshots");
    change(&mut facts, "site.snapshots_with_backup", false);
    assert_eq!(verdicts(RULE, &facts), [], "nosnap is on for each volume of the database");
    change_of(&mut facts, "ontap_volume", "oradata", "nosnap", false);
    assert_eq!(verdicts(RULE, &facts), [Verdict::Finding]);
}

#[test]
fn where_no_mount_is_known_to_have_logs_nothing_is_known_of_their_volume() {
    const RULE: &str = "cross-logs-on-own-volume";
    let facts = read("tr-3495-tuned");
    assert_eq!(verdicts(RULE, &facts), [Verdict::Unknown]);
    let mut postgres = Facts::default();
    postgres.put("os.family", "linux", "a test");
    postgres.put("postgres.data_directory", "/srv/pg", "a test");
    for (attribute, value) in [("fstype", "nfs"), ("source", "filer1:/vol/pg"), ("role", "data")] {
        postgres.put_of("mount", "/srv/pg", attribute, value, "a test");
    }
    assert_eq!(verdicts(RULE, &postgres), []);
    assert_eq!(verdicts("cross-log-in-another-snapshot", &postgres), []);
}

#[test]
fn nfs_of_aix_has_a_buffer_of_its_own_and_titles_name_it() {
    const RULES: [&str; 2] = ["cross-receive-window-holds-a-transfer", "cross-send-buffer-fills-server-window"];
    let mut facts = read("tr-3408-tuned");
    for rule in RULES {
        assert_eq!(verdicts(rule, &facts), [Verdict::Passed], "{rule}");
    }
    change(&mut facts, "aix.nfso.nfs_tcp_socketsize", 16_384);
    for rule in RULES {
        let title = &of(rule, &facts)[0].title;
        assert!(
            title.starts_with("nfso.nfs_tcp_socketsize is 16 KiB;") || title.starts_with("nfs_tcp_socketsize is 16 KiB;"),
            "{title}"
        );
    }
}

#[test]
fn a_database_that_asks_for_direct_io_does_so_for_redo_logs_without_local_locks() {
    const RULE: &str = "solaris-redo-direct-io";
    let mut facts = read("tr-3322-tuned");
    for option in ["forcedirectio", "llock"] {
        change_of(&mut facts, "mount", "/oralog", option, false);
    }
    assert_eq!(verdicts(RULE, &facts), [Verdict::Passed]);
    change(&mut facts, "oracle.filesystemio_options", "asynch");
    assert_eq!(verdicts(RULE, &facts), [Verdict::Finding]);
}

#[test]
fn paths_in_a_subnet_each_need_no_local_address() {
    const RULE: &str = "oracle-oranfstab-local-beside-path";
    let mut facts = read("tr-3700-tuned");
    facts.host.remove("site.one_subnet_per_storage_link");
    assert_eq!(verdicts(RULE, &facts), [Verdict::Passed; 8]);
    change_of(&mut facts, "oranfstab_path", "scotty-1#1", "shares_link", true);
    assert!(verdicts(RULE, &facts).contains(&Verdict::Finding));
}

#[test]
fn no_transfer_is_asked_for_that_is_larger_than_the_client_can() {
    let mut facts = read("tr-3495-tuned");
    change(&mut facts, "ontap7.option.nfs.tcp.xfersize", 65_536);
    assert_eq!(verdicts("cross-transfer-uses-server-limit", &facts), [Verdict::Passed]);
    facts.host.remove("ontap7.option.nfs.tcp.xfersize");
    facts.unknown.clear();
    let rules = rules();
    let loaded = rules.rules().iter().find(|loaded| loaded.rule.id == "linux-nfs-transfer-size").unwrap();
    assert_eq!(verdicts(&loaded.rule.id, &facts), [Verdict::Passed]);
    let value = |facts: &Facts| setting_value(&loaded.rule.fix.as_ref().unwrap().settings[0], facts, Some(("mount", "/data01")));
    assert_eq!(value(&facts).as_deref(), Some("32768"));
    facts.host.remove("nfs.client_transfer_max");
    assert_eq!(value(&facts).as_deref(), Some("262144"));

    let mut unix = read("tr-3557-tuned");
    unix.host.remove("ontap7.option.nfs.tcp.xfersize");
    unix.unknown.clear();
    assert_eq!(verdicts("hpux-mount-options-today", &unix), [Verdict::Passed; 4]);
}

#[test]
fn options_of_file_systems_are_asked_of_volumes_with_files_and_beside_rhel_4_they_are_contested() {
    let facts = read("tr-3495-tuned");
    for rule in ["ontap7-no-access-times", "ontap7-snapshots-not-visible"] {
        let found = of(rule, &facts);
        let things: Vec<Option<&str>> = found.iter().map(Finding::thing).collect();
        assert_eq!(things, [Some("ontap_volume data01")], "{rule}");
        let contested =
            |found: &[Finding]| found.iter().all(|finding| finding.standing.iter().any(|line| line.contains("TR-3495")));
        assert!(contested(&found), "{found:?}");
        assert!(!contested(&of(rule, &read("tr-3322-untuned"))), "{rule}");
    }
}
