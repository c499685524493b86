//! No secret leaves the host: planted secrets are in no capture of the program or of the script, in
//! no fact, and in no form of an audit.

use std::path::Path;
use std::process::Command;

use tune::collect::runner::{Ran, Runner};
use tune::collect::{Database, LiveOptions, Row, capture, database_text, live, write_capture};
use tune::facts::{Facts, Value};
use tune::judge::judge;
use tune::rules::RuleSet;

use crate::secret_corpus::{COUNT, MARK, files};

/// A runner whose commands print secrets.
struct Tells;

impl Runner for Tells {
    fn run(&self, line: &[&str]) -> Ran {
        let text = match line.join(" ").as_str() {
            "iscsiadm -m session -P 3" => format!(
                "Target: iqn.a (non-flash)\n\tCurrent Portal: 10.0.0.1:3260,1\n\t\tSID: 1\n\t\tusername: {MARK}\n\t\tpassword: {MARK}\n"
            ),
            "multipath -t" => format!(
                "devices {{\n\tdevice {{\n\t\tvendor \"NETAPP\"\n\t\tproduct \"LUN\"\n\t\treservation_key \"{MARK}\"\n\t}}\n}}\n"
            ),
            "modprobe -c" => format!("options nfs max_session_slots=64 key={MARK}\ninstall x {MARK}\n"),
            "systemd-analyze cat-config sysctl.d" => {
                format!("# /etc/sysctl.d/10-a.conf\n# {MARK}\nvm.swappiness = 1\nkernel.core_pattern=|/x {MARK}\n")
            }
            "multipath -l" => return Ran::Ended(1, Vec::new(), format!("cannot ask http://u:{MARK}@h/")),
            _ => return Ran::Not("there is no such command".to_owned()),
        };
        Ran::Ended(0, text.into_bytes(), String::new())
    }
}

fn plant(root: &Path) {
    for (path, text) in files() {
        let at = root.join(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, text).unwrap();
    }
}

fn host(root: &Path) -> LiveOptions {
    let row = |name: &str, value: &str| Row { name: name.to_owned(), value: value.to_owned(), ..Row::default() };
    let rows = [
        row("fsync", "on"),
        row("primary_conninfo", &format!("password='x {MARK}'")),
        row("archive_command", MARK),
        row("a.b", MARK),
    ];
    let mysql = [row("init_connect", MARK), row("version", "10.11.6-MariaDB"), row("wsrep_sst_auth", MARK)];
    let fetched = vec![
        database_text(Database::Postgres, "localhost:5432", &rows),
        database_text(Database::Mysql, "localhost:3306", &mysql),
    ];
    LiveOptions { runner: Box::new(Tells), time: Some("2026-11-21T20:00:00Z".to_owned()), fetched, ..LiveOptions::below(root) }
}

/// The facts and the judgement of an audit as text.
fn audit(facts: &Facts) -> String {
    let rules = RuleSet::folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules")).unwrap();
    format!("{facts:#?}\n{:#?}", judge(&rules, facts))
}

#[track_caller]
fn none_in(what: &str, text: &str) {
    let found = text.lines().find(|line| line.contains(MARK));
    assert!(found.is_none(), "{what}: {found:?}");
}

#[track_caller]
fn none_below(folder: &Path) {
    let found = Command::new("grep").args(["-ra", MARK]).arg(folder).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn the_corpus_has_as_many_secrets_as_it_says() {
    let all: String = files().into_iter().map(|(_, text)| text).collect();
    assert!((1..=COUNT).all(|number| all.contains(&format!("{MARK}{number:02}"))));
    const { assert!(COUNT >= 60) }
}

#[test]
fn no_secret_is_in_a_capture_or_an_audit_of_it_or_of_the_host_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (root, cap) = (dir.path().join("root"), dir.path().join("cap"));
    plant(&root);
    let options = host(&root);
    write_capture(&cap, &options).unwrap();
    none_below(&cap);
    let (captured, _) = capture(&cap).unwrap();
    let facts = live(&options);
    // The tree itself is a capture too, and it contains all secrets.
    for (what, facts) in [("capture", &captured), ("live", &facts), ("tree", &capture(&root).unwrap().0)] {
        none_in(what, &audit(facts));
        // Values that rules read are kept.
        assert_eq!(facts.value("persistent.sysctl.vm.swappiness"), Some(&1.into()), "{what}");
        assert_eq!(facts.value("iscsid.node.session.timeo.replacement_timeout"), Some(&120.into()), "{what}");
        assert_eq!(facts.value("persistent.module.nfs.max_session_slots"), Some(&64.into()), "{what}");
        assert_eq!(facts.value("multipath.device.product"), Some(&"LUN".into()), "{what}");
        assert_eq!(facts.value_of("mount", "/u02", "timeo"), Some(&600.into()), "{what}");
        assert_eq!(facts.value_of("mount", "/srv/pg", "hard"), Some(&false.into()), "{what}");
        assert_eq!(facts.value_of("mount", "/srv/x", "hard"), Some(&false.into()), "{what}");
        assert_eq!(facts.value("ulimit.oracle.nofile"), Some(&65536.into()), "{what}");
        assert_eq!(facts.value("pam.su.limits"), Some(&true.into()), "{what}");
    }
    // A removed value is not known; it does not become a text.
    assert!(facts.host.values().all(|fact| !matches!(&fact.value, Value::Text(text) if text.contains("[redacted]"))));
}

#[test]
fn the_script_leaves_out_what_the_program_leaves_out() {
    let dir = tempfile::tempdir().unwrap();
    let (root, cap, script) = (dir.path().join("root"), dir.path().join("cap"), dir.path().join("script"));
    plant(&root);
    write_capture(&cap, &LiveOptions::below(&root)).unwrap();
    let sh = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/collect/collect.sh");
    let ran = Command::new("sh").arg(sh).arg(&script).env("MILLRACE_ROOT", &root).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    none_below(&script);
    let (ours, _) = capture(&cap).unwrap();
    let (its, _) = capture(&script).unwrap();
    let names = ["persistent.", "iscsid.", "multipath.", "kernel.cmdline.", "limit.", "ulimit.", "pam."];
    let of = |facts: &Facts| {
        let all = facts.host.iter().filter(|(name, _)| names.iter().any(|begin| name.starts_with(begin)));
        all.map(|(name, fact)| (name.clone(), fact.value.clone())).collect::<Vec<_>>()
    };
    assert_eq!(of(&its), of(&ours));
    for kind in ["mount", "multipath_device", "oranfstab_path"] {
        let of = |facts: &Facts| {
            let mut things = facts.things.get(kind).cloned().unwrap_or_default();
            // The script queries the test host for its routes; the program does not.
            things.values_mut().for_each(|thing| drop(thing.remove("shares_link")));
            format!("{things:#?}")
        };
        assert_eq!(of(&its), of(&ours));
    }
}
