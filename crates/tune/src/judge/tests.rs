use results::audit::{AdviceGroup, Status};

use super::platforms_and_roles::{platforms, roles};
use super::*;
use crate::facts::{Database, Server, ServerState};

fn set(rules: &str) -> RuleSet {
    RuleSet::from_texts([("a/tcp.toml", format!("schema = 1\nlayer = \"tcp\"\n{rules}").as_str())]).unwrap()
}

/// A rule with these lines and the lines that every rule needs.
fn rule(id: &str, lines: &str) -> String {
    format!(
        "[[rule]]\nid = \"{id}\"\ntitle = \"T\"\nreason = \"R\"\nsources = [{{ name = \"TR-3700\", section = \"2.2\", year = 2009 }}]\n\
         status = \"valid\"\nfires = [{{}}]\nsilent = [{{}}]\n{lines}\n"
    )
}

fn linux() -> Facts {
    let mut facts = Facts::default();
    facts.put("os.family", "linux", "uname");
    facts.put("sysctl.a.b", 1, "sysctl -a");
    facts
}

fn verdicts(judgement: &Judgement) -> Vec<(&str, Option<&str>, Verdict)> {
    judgement.findings.iter().map(|found| (found.rule.as_str(), found.subject.as_deref(), found.verdict)).collect()
}

#[test]
fn a_missing_fact_leaves_out_by_when_and_is_unknown_by_test() {
    let rules = [
        rule("by-when", "when = \"sysctl.c.d == 1\"\ntest = \"false\"\nseverity = \"high\""),
        rule("by-test", "test = \"sysctl.c.d == 1\"\nseverity = \"high\""),
        rule("number", "test = \"sysctl.a.b\"\nseverity = \"low\""),
    ];
    let judgement = judge(&set(&rules.concat()), &linux());
    assert_eq!(judgement.not_applicable, 1);
    assert_eq!(verdicts(&judgement), [("by-test", None, Verdict::Unknown), ("number", None, Verdict::Unknown)]);
    assert_eq!(judgement.findings[0].missing, ["sysctl.c.d"]);
    assert_eq!(judgement.findings[1].missing, ["the test gives 1, neither yes nor no"]);
}

#[test]
fn the_title_says_how_it_came_out_and_the_rules_own_stays_beside_it() {
    let rules = [
        rule("a", "finding = \"a.b is {sysctl.a.b}: bad\"\ntest = \"sysctl.a.b > 2\"\nseverity = \"low\""),
        rule("b", "test = \"sysctl.a.b > 2\"\nseverity = \"low\""),
        rule("c", "test = \"sysctl.a.b * sysctl.a.b > 2\"\nseverity = \"low\""),
        rule("d", "test = \"sysctl.c.d\"\nseverity = \"low\""),
        rule("e", "test = \"true\"\nseverity = \"low\""),
    ];
    let judgement = judge(&set(&rules.concat()), &linux());
    let titles: Vec<&str> = judgement.findings.iter().map(|found| found.title.as_str()).collect();
    assert_eq!(titles, ["a.b is 1: bad", "a.b is 1; more than 2 expected", "not met: T", "not known: T", "T"]);
    assert!(judgement.findings.iter().all(|found| found.rule_title.as_deref() == Some("T")));
}

#[test]
fn worst_comes_first_and_findings_before_the_unknown() {
    let rules = [
        rule("a", "test = \"x.y\"\nseverity = \"critical\""),
        rule("b", "test = \"false\"\nseverity = \"low\""),
        rule("c", "test = \"true\"\nseverity = \"critical\""),
        rule("e", "test = \"false\"\nseverity = \"critical\""),
        rule("d", "test = \"false\"\nseverity = \"critical\""),
    ];
    let judgement = judge(&set(&rules.concat()), &linux());
    let order: Vec<&str> = judgement.findings.iter().map(|found| found.rule.as_str()).collect();
    assert_eq!(order, ["d", "e", "b", "a", "c"]);
}

#[test]
fn each_thing_is_judged_and_named() {
    let rules = rule(
        "mounts",
        "each = \"mount\"\nwhen = \"mount.fstype == 'nfs'\"\ntest = \"mount.rsize >= 64KiB\"\nseverity = \"low\"\n\
         standing = [{ kind = \"reversed-by\", by = \"nfs(5)\", says = \"leave it\" }]\n\
         [rule.fix]\nactivation = \"remount\"\nneeds = [\"stop the database\", \"unmount it\"]\nby_hand = \"mount it again\"\nafter = [\"start the database\"]\n\
         set = [{ kind = \"fstab-option\", key = \"rsize\", value_of = \"max(mount.rsize, 64KiB)\" }]",
    );
    let mut facts = linux();
    for (name, fstype, rsize) in [("/a", "nfs", 1024), ("/b", "nfs", 65_536), ("/c", "xfs", 0)] {
        facts.put_of("mount", name, "fstype", fstype, "/proc/mounts");
        facts.put_of("mount", name, "rsize", rsize, "/proc/mounts");
    }
    let judgement = judge(&set(&rules), &facts);
    assert_eq!(
        verdicts(&judgement),
        [("mounts", Some("mount /a"), Verdict::Finding), ("mounts", Some("mount /b"), Verdict::Passed)]
    );
    let found = &judgement.findings[0];
    assert_eq!(found.found, ["mount.rsize is 1 KiB"]);
    assert_eq!(found.sources, ["TR-3700, 2.2 (2009)"]);
    assert_eq!(found.standing, ["reversed by nfs(5): leave it"]);
    let mount = "mount option rsize=65536 in /etc/fstab";
    let fix = ["first stop the database", "then unmount it", mount, "mount it again", "afterwards start the database"];
    assert_eq!(found.fix, fix);
    assert_eq!((found.status, found.layer.as_str()), (Status::Valid, "tcp"));
    assert!(judgement.findings[1].fix.is_empty());
    assert_eq!(judgement.not_applicable, 0);
}

#[test]
fn things_that_could_not_be_looked_for_are_unknown() {
    let mut facts = linux();
    facts.put_unknown("lun", "needs root");
    let rules = [
        rule("luns", "each = \"lun\"\ntest = \"lun.size > 0\"\nseverity = \"low\""),
        rule("nics", "each = \"nic\"\ntest = \"nic.mtu > 0\"\nseverity = \"low\""),
    ];
    let judgement = judge(&set(&rules.concat()), &facts);
    assert_eq!(verdicts(&judgement), [("luns", None, Verdict::Unknown)]);
    assert_eq!(judgement.findings[0].missing, ["lun: needs root"]);
    assert_eq!(judgement.not_applicable, 1);
}

#[test]
fn platforms_are_those_that_facts_are_of() {
    let mut facts = linux();
    assert_eq!(Vec::from_iter(platforms(&facts)), ["linux"]);
    facts.put("postgres.version", 170_002, "pg_settings");
    facts.put("mysql.version", "10.11.6", "SHOW VARIABLES");
    assert_eq!(Vec::from_iter(platforms(&facts)), ["linux", "mariadb", "mysql", "postgres"]);
    facts.put("mysql.flavor", "mariadb", "SHOW VARIABLES");
    assert_eq!(Vec::from_iter(platforms(&facts)), ["linux", "mariadb", "postgres"]);
    let rules = rule("solaris", "platforms = [\"solaris\", \"oracle\"]\ntest = \"false\"\nseverity = \"low\"");
    assert!(judge(&set(&rules), &facts).findings.is_empty());
    facts.put("oracle.version", "19", "v$version");
    assert_eq!(judge(&set(&rules), &facts).findings.len(), 1);
    assert_eq!(judge(&set(&rules), &Facts::default()).remarks.len(), 1);
}

#[test]
fn roles_are_given_or_seen() {
    let mut facts = linux();
    assert!(roles(&facts).is_empty());
    facts.put_of("mount", "/a", "fstype", "nfs4", "/proc/mounts");
    facts.put("site.rac", false, "site.toml");
    facts.put("site.role", Value::List(vec!["fc-client".into()]), "site.toml");
    assert_eq!(Vec::from_iter(roles(&facts)), ["fc-client", "nfs-client", "single-instance"]);
    let rules = rule("rac", "roles = [\"rac\"]\ntest = \"false\"\nseverity = \"low\"");
    assert_eq!(judge(&set(&rules), &facts).not_applicable, 1);
}

#[test]
fn what_the_command_line_sets_takes_a_restart_and_is_set_right_there() {
    let fix = "[rule.fix]\nactivation = \"reload\"\nset = [{ kind = \"postgres\", key = \"fsync\", value = \"on\" }]";
    let rules = rule("fsync", &format!("test = \"postgres.fsync\"\nseverity = \"critical\"\n{fix}"));
    let judged = |origin: &str| {
        let mut facts = linux();
        facts.put("postgres.fsync", false, origin);
        judge(&set(&rules), &facts).findings.remove(0)
    };
    let found = judged("its command line");
    assert_eq!((found.activation, found.group), (Some(Activation::DbRestart), Some(AdviceGroup::Restart)));
    assert!(found.fix[0].starts_with("fsync is set on the server's command line"), "{:?}", found.fix);
    let found = judged("ALTER DATABASE mill");
    assert_eq!((found.activation, found.group), (Some(Activation::Reload), Some(AdviceGroup::Now)));
    assert!(found.fix[0].ends_with("ALTER DATABASE mill RESET fsync"), "{:?}", found.fix);
    assert_eq!(judged("/data/postgresql.conf:3").fix, ["fsync = on by ALTER SYSTEM or in postgresql.conf"]);
}

#[test]
fn a_setting_whose_value_is_not_known_says_so() {
    let rules = rule(
        "buffers",
        "test = \"false\"\nseverity = \"low\"\n[rule.fix]\nactivation = \"live\"\nloses_durability = true\n\
         set = [{ kind = \"sysctl\", key = \"a.b\", value_of = \"hw.memory_bytes / 4\" }]",
    );
    let judgement = judge(&set(&rules), &linux());
    assert_eq!(
        judgement.findings[0].fix,
        [
            "careful: this may lose data that was acknowledged",
            "sysctl a.b = (its value needs facts that are not known), running and in /etc/sysctl.d"
        ]
    );
}

#[test]
fn a_finding_says_what_was_found() {
    let rules = rule("window", "test = \"sysctl.a.b >= 2 and sysctl.c.d == 1\"\nseverity = \"low\"");
    assert_eq!(judge(&set(&rules), &linux()).findings[0].found, ["sysctl.a.b is 1"]);
}

fn put_server(facts: &mut Facts, name: &str, database: Database, state: ServerState, known: &[(&str, Value)]) {
    let mut own = Facts::default();
    for (fact, value) in known {
        own.put(fact, value.clone(), "a server");
    }
    facts.put_server(Server { name: name.to_owned(), database, state, config: None, facts: own });
}

#[test]
fn a_rule_of_a_database_is_asked_of_each_server_and_one_of_the_host_once() {
    let mut facts = linux();
    facts.put("hw.memory_bytes", 8, "x");
    facts.put_of("mount", "/a", "slots", 16, "x");
    for (name, fsync) in [("first", true), ("second", false)] {
        let known = [("postgres.fsync", fsync.into()), ("postgres.max_connections", 20.into())];
        put_server(&mut facts, name, Database::Postgres, ServerState::Live, &known);
    }
    let rules = [
        rule("fsync", "platforms = [\"postgres\"]\ntest = \"postgres.fsync\"\nseverity = \"critical\""),
        rule("host", "platforms = [\"postgres\"]\ntest = \"sysctl.a.b == 2\"\nseverity = \"high\""),
        rule("mounts", "each = \"mount\"\ntest = \"postgres.max_connections <= mount.slots\"\nseverity = \"low\""),
    ];
    let judgement = judge(&set(&rules.concat()), &facts);
    assert_eq!(
        verdicts(&judgement),
        [
            ("fsync", Some("second"), Verdict::Finding),
            ("host", None, Verdict::Finding),
            ("mounts", Some("mount /a of first"), Verdict::Finding),
            ("mounts", Some("mount /a of second"), Verdict::Finding),
            ("fsync", Some("first"), Verdict::Passed),
        ]
    );
    assert_eq!(judgement.findings[2].thing(), Some("mount /a"));
}

#[test]
fn memory_of_live_servers_is_counted_together_and_a_stopped_one_is_no_argument_against_them() {
    let mut facts = linux();
    let of = |name: &'static str, bytes: i64| [(name, Value::Int(bytes))];
    put_server(&mut facts, "pg", Database::Postgres, ServerState::Live, &of("postgres.shared_buffers", 3));
    put_server(&mut facts, "my", Database::Mysql, ServerState::Live, &of("mysql.pool", 3));
    put_server(&mut facts, "old", Database::Mysql, ServerState::Stopped, &of("mysql.pool", 99));
    let sum = "default(postgres.shared_buffers, 0) + default(mysql.pool, 0)";
    let rules = rule("sum", &format!("test = \"{sum} == 6\"\nseverity = \"critical\""));
    let judgement = judge(&set(&rules), &facts);
    assert_eq!(verdicts(&judgement), [("sum", Some("old"), Verdict::Finding), ("sum", Some("pg"), Verdict::Passed)]);
}

#[test]
fn beside_a_server_that_was_asked_a_stopped_one_is_judged_by_what_its_files_tell_of_its_data() {
    let rules = [
        rule("fsync", "platforms = [\"postgres\"]\ntest = \"postgres.fsync\"\nseverity = \"critical\""),
        rule("pages", "platforms = [\"postgres\"]\ntest = \"postgres.full_page_writes\"\nseverity = \"critical\""),
        rule("speed", "platforms = [\"postgres\"]\ntest = \"postgres.fsync\"\nseverity = \"high\""),
        rule("mysql", "platforms = [\"mysql\"]\ntest = \"mysql.pool == 1\"\nseverity = \"high\""),
    ];
    let mut facts = linux();
    put_server(&mut facts, "old", Database::Postgres, ServerState::Stopped, &[("postgres.fsync", false.into())]);
    let alone = judge(&set(&rules.concat()), &facts);
    let of = |rule, verdict| (rule, Some("old"), verdict);
    let (finding, unknown) = (Verdict::Finding, Verdict::Unknown);
    assert_eq!(verdicts(&alone), [of("fsync", finding), of("speed", finding), of("pages", unknown)]);

    put_server(&mut facts, "my", Database::Mysql, ServerState::Live, &[("mysql.pool", 1.into())]);
    let beside = judge(&set(&rules.concat()), &facts);
    assert_eq!(verdicts(&beside), [of("fsync", finding), ("mysql", Some("my"), Verdict::Passed)]);
    assert!(!alone.remarks.iter().any(|remark| remark.contains("alone")), "{:?}", alone.remarks);
    assert_eq!(beside.remarks.len(), 2, "{:?}", beside.remarks);
    assert!(beside.remarks[0].contains("old does not run: only the critical rules about its data"), "{:?}", beside.remarks);
    assert!(
        beside.remarks[1].contains("old was not asked") && beside.remarks[1].ends_with("left out: 1"),
        "{:?}",
        beside.remarks
    );
}

#[test]
fn settings_of_a_server_are_judged_as_its_own() {
    let mut facts = linux();
    facts.put_of("setting", "sysctl a.b", "running", 1, "x");
    put_server(&mut facts, "pg", Database::Postgres, ServerState::Live, &[]);
    facts.servers[0].facts.put_of("setting", "postgres fsync", "running", 2, "x");
    let rules = rule("settings", "each = \"setting\"\ntest = \"setting.running == 2\"\nseverity = \"low\"");
    let judgement = judge(&set(&rules), &facts);
    assert_eq!(
        verdicts(&judgement),
        [
            ("settings", Some("setting sysctl a.b"), Verdict::Finding),
            ("settings", Some("setting postgres fsync of pg"), Verdict::Passed)
        ]
    );
}
