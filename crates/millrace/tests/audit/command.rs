//! `millrace audit` end to end: a small capture, the test's own rules, every output format,
//! waivers, baseline, difference, exit codes, and wrong input of every kind.

use std::path::PathBuf;
use std::process::Output;

use crate::support::{Scratch, millrace, text};
use results::audit::{Audit, Verdict};
use serde_json::Value;

/// Rules of each severity and each outcome for the capture below.
const RULES: &str = r#"
schema = 1
layer = "os-kernel"

[[rule]]
id = "test-swappiness-low"
title = "The kernel does not swap the database out"
test = "sysctl.vm.swappiness <= 10"
severity = "medium"
reason = "What is swapped out must be read back before it can be used."
effect = "No pause of seconds after a backup"
sources = [{ name = "A manual", section = "3", year = 2026 }]
status = "valid"
fires = [{ facts = { "sysctl.vm.swappiness" = 60 } }]
silent = [{ facts = { "sysctl.vm.swappiness" = 1 } }]
[rule.fix]
activation = "live"
set = [{ kind = "sysctl", key = "vm.swappiness", value = "10" }]

[[rule]]
id = "test-redo-hard"
title = "Mounts are hard"
each = "mount"
when = "mount.fstype == 'nfs'"
test = "not contains(mount.fstab_options, 'soft')"
severity = "critical"
reason = "A soft mount gives a write up that the server is slow to answer."
sources = [{ name = "nfs(5)" }]
status = "valid"
fires = [{ things = { mount = [{ name = "/a", fstype = "nfs", fstab_options = ["soft"] }] } }]
silent = [{ things = { mount = [{ name = "/a", fstype = "nfs", fstab_options = ["hard"] }] } }]

[[rule]]
id = "test-not-known"
title = "Something that the capture does not tell"
test = "sysctl.vm.nowhere == 1"
severity = "high"
reason = "Nobody knows."
sources = [{ name = "A manual" }]
status = "valid"
fires = [{ facts = { "sysctl.vm.nowhere" = 0 } }]
silent = [{ facts = { "sysctl.vm.nowhere" = 1 } }]

[[rule]]
id = "test-information"
title = "The port range begins high"
test = "sysctl.net.ipv4.ip_forward == 7"
severity = "info"
reason = "Good to know."
sources = [{ name = "A manual" }]
status = "valid"
fires = [{ facts = { "sysctl.net.ipv4.ip_forward" = 0 } }]
silent = [{ facts = { "sysctl.net.ipv4.ip_forward" = 7 } }]

[[rule]]
id = "test-well"
title = "Overcommit is left to the kernel"
test = "sysctl.vm.overcommit_memory == 0"
severity = "high"
reason = "It is well as it is."
sources = [{ name = "A manual" }]
status = "valid"
fires = [{ facts = { "sysctl.vm.overcommit_memory" = 1 } }]
silent = [{ facts = { "sysctl.vm.overcommit_memory" = 0 } }]
"#;

const MANIFEST: &str = "millrace-capture 1\nhost db1\nsystem Linux\ntime 2026-11-21T20:00:00Z\n\
    entry commands/sysctl-a.txt\t0\troot\tsysctl -a\nentry files/etc/fstab\t0\troot\t/etc/fstab\n";

/// A folder with a capture and the rules.
struct Place {
    scratch: Scratch,
}

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new("audit");
        let place = Self { scratch };
        place.capture("capture", 60, "rw,soft");
        place.write("rules/test/os-kernel.toml", RULES);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn capture(&self, name: &str, swappiness: u32, options: &str) {
        let sysctl = format!("vm.swappiness = {swappiness}\nvm.overcommit_memory = 0\nnet.ipv4.ip_forward = 0\n");
        self.write(&format!("{name}/MANIFEST"), MANIFEST);
        self.write(&format!("{name}/commands/sysctl-a.txt"), &sysctl);
        self.write(&format!("{name}/files/etc/fstab"), &format!("filer:/redo /redo nfs {options} 0 0\n"));
    }

    /// Audits the capture with the rules above and these arguments.
    fn audit(&self, more: &[&str]) -> Output {
        self.audit_of("capture", more)
    }

    fn audit_of(&self, capture: &str, more: &[&str]) -> Output {
        let mut command = millrace();
        command.arg("audit").arg("--facts").arg(self.path(capture)).arg("--rules").arg(self.path("rules"));
        command.args(more).current_dir(self.scratch.path()).output().unwrap()
    }

    fn stored(&self, capture: &str, name: &str) -> Audit {
        self.audit_of(capture, &["--format", "json", "--out", name]);
        serde_json::from_str(&std::fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    fn waiver(&self, name: &str, rule: &str, expires: &str) -> String {
        let entry = format!("schema = 1\n[[waiver]]\nrule = '{rule}'\nreason = 'until the move'\nexpires = {expires}\n");
        self.write(name, &entry).display().to_string()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("killed: {}", text(output)))
}

/// Asserts a refusal: exit code 2, nothing on stdout and no panic. Returns the output, in which the
/// caller looks for the cause.
fn refused(output: &Output) -> String {
    let said = text(output);
    assert_eq!(code(output), 2, "{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(output.stdout.is_empty(), "{said}");
    said
}

#[test]
fn a_finding_is_a_line_under_its_group_and_the_exit_code_is_1() {
    let place = Place::new();
    let output = place.audit(&[]);
    let said = text(&output);
    assert_eq!(code(&output), 1, "{said}");
    assert!(
        said.contains("Without a known fix\n  critical  mount /redo: soft is set in fstab_options [test-redo-hard]"),
        "{said}"
    );
    let now = "Now, without a restart\n  medium    vm.swappiness is 60; at most 10 expected [test-swappiness-low]";
    assert!(said.contains(now), "{said}");
    assert!(said.contains("2 findings: 1 critical, 1 medium; 1 for information."), "{said}");
    assert!(said.contains("1 check not known, for lack of facts: 1 os-kernel (-v lists them).\n  missing: vm.nowhere"), "{said}");
    assert!(!said.contains("Something that the capture does not tell"), "{said}");
    assert!(said.contains("Audit of db1 (") && said.contains("2026-11-21T20:00:00Z"), "{said}");
}

#[test]
fn verbose_says_found_reason_source_and_fix_and_lists_what_is_not_known() {
    let said = text(&Place::new().audit(&["-v"]));
    for words in [
        "found     sysctl.vm.swappiness is 60",
        "why       What is swapped out must be read back",
        "effect    No pause of seconds",
        "source    A manual, 3",
        "fix       ",
        "in force  at once",
        "unknown   not known: Something that the capture does not tell [test-not-known]",
        "missing   vm.nowhere",
    ] {
        assert!(said.contains(words), "{words:?} in {said}");
    }
}

#[test]
fn every_form_is_written_to_stdout_or_a_file_with_the_same_exit_code() {
    let place = Place::new();
    let first = [("json", "{"), ("sarif", "{"), ("junit", "<?xml"), ("html", "<!doctype html>"), ("text", "Audit of db1")];
    for (form, begin) in first {
        let output = place.audit(&["--format", form]);
        assert_eq!(code(&output), 1, "{form}");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(begin), "{form}: {}", text(&output));
        let to_file = place.audit(&["--format", form, "--out", "written"]);
        assert_eq!((code(&to_file), to_file.stdout.len()), (1, 0), "{form}");
        assert!(text(&to_file).starts_with("written: 2 findings: 1 critical, 1 medium"), "{}", text(&to_file));
        assert_eq!(std::fs::read(place.path("written")).unwrap(), output.stdout, "{form}");
    }
    assert_eq!(place.audit(&["--json"]).stdout, place.audit(&["--format", "json"]).stdout);
}

#[test]
fn sarif_names_the_file_and_the_line_that_a_value_was_read_from() {
    let output = Place::new().audit(&["--format", "sarif"]);
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let of = |rule: &str| results.iter().find(|result| result["ruleId"] == rule).unwrap();
    let place = &of("test-redo-hard")["locations"][0];
    assert_eq!(place["logicalLocations"][0]["fullyQualifiedName"], "mount /redo");
    let uri = place["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap_or_default();
    assert!(uri.ends_with("etc/fstab"), "{place}");
    assert_eq!(of("test-swappiness-low")["level"], "warning");
    assert_eq!(of("test-not-known")["kind"], "open");
    assert_eq!(of("test-information")["kind"], "informational");
    assert_eq!(log["runs"][0]["automationDetails"]["id"], "millrace-audit/db1/");
}

#[test]
fn a_measured_effect_is_shown_with_the_finding_of_its_rule_in_each_form() {
    let place = Place::new();
    let effects = |valid: bool| {
        let measured = serde_json::json!({ "percent": 7.5, "shown": true, "text": "+7.5 % (+5.0 to +10.0) orders per minute" });
        let effect = serde_json::json!({ "rule": "test-swappiness-low", "measured": measured });
        let all = serde_json::json!({ "schema": 1, "program": "p", "taken": "t", "valid": valid, "effects": [effect] });
        place.write("out/effects.json", &all.to_string());
    };
    effects(true);
    for form in ["text", "json", "sarif", "junit", "html"] {
        let said = text(&place.audit(&["--measured", "out", "--format", form]));
        assert!(said.contains("+7.5 % (+5.0 to +10.0) orders per minute"), "{form}: {said}");
    }
    let audit: Audit = serde_json::from_slice(&place.audit(&["--measured", "out", "--json"]).stdout).unwrap();
    let noted = audit.findings.iter().filter(|finding| finding.measured.is_some());
    assert_eq!(noted.map(|finding| finding.rule.as_str()).collect::<Vec<_>>(), ["test-swappiness-low"]);
    effects(false);
    assert!(refused(&place.audit(&["--measured", "out"])).contains("not valid"));
    assert!(refused(&place.audit(&["--measured", "nowhere"])).contains("hint: name the --out directory"));
}

#[test]
fn what_passed_is_kept_when_asked_for() {
    let place = Place::new();
    let verdicts = |more: &[&str]| -> Vec<Verdict> {
        let audit: Audit = serde_json::from_slice(&place.audit(more).stdout).unwrap();
        assert_eq!(audit.passed, 1);
        audit.findings.iter().map(|finding| finding.verdict).collect()
    };
    assert!(!verdicts(&["--json"]).contains(&Verdict::Passed));
    assert!(verdicts(&["--json", "--passed"]).contains(&Verdict::Passed));
}

#[test]
fn the_exit_code_follows_what_is_asked_to_fail_on_and_information_never_counts() {
    let place = Place::new();
    place.capture("medium", 60, "rw,hard");
    assert_eq!(code(&place.audit_of("medium", &[])), 1);
    assert_eq!(code(&place.audit_of("medium", &["--fail-on", "medium"])), 1);
    let light = place.audit_of("medium", &["--fail-on", "high"]);
    assert_eq!(code(&light), 0, "{}", text(&light));
    assert!(text(&light).contains("no finding; 1 below what was asked to fail on, 1 for information"), "{}", text(&light));
    place.capture("well", 1, "rw,hard");
    let well = place.audit_of("well", &[]);
    assert_eq!(code(&well), 0, "{}", text(&well));
    assert!(text(&well).contains("no finding; 1 for information"), "{}", text(&well));
    assert_eq!(code(&place.audit_of("well", &["--rule", "test-information"])), 0);
    assert_eq!(code(&place.audit_of("well", &["--rule", "test-not-known"])), 0, "what is not known is no finding");
}

#[test]
fn one_rule_alone_can_be_asked_for() {
    let output = Place::new().audit(&["--rule", "test-swappiness-low", "--json"]);
    let audit: Audit = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((audit.findings.len(), audit.passed, audit.not_applicable), (1, 0, 0));
    assert_eq!(audit.findings[0].rule, "test-swappiness-low");
}

#[test]
fn a_waiver_takes_its_finding_out_until_it_expires_and_then_is_named() {
    let place = Place::new();
    let holds = place.waiver("holds.toml", "test-redo-hard", "2999-12-31");
    let output = place.audit(&["--waivers", &holds, "--fail-on", "critical"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(text(&output).contains("1 waived"), "{}", text(&output));
    let expired = place.waiver("expired.toml", "test-redo-hard", "2020-01-31");
    let output = place.audit(&["--waivers", &expired]);
    assert_eq!(code(&output), 1);
    assert!(text(&output).contains("[test-redo-hard] (its waiver has expired)"), "{}", text(&output));
    assert!(text(&output).contains("note: the waiver of test-redo-hard expired on 2020-01-31"), "{}", text(&output));
}

#[test]
fn waivers_that_cannot_be_used_are_refused_with_a_cause_and_a_fix() {
    let place = Place::new();
    let said = |file: &str| refused(&place.audit(&["--waivers", file]));
    let unknown = said(&place.waiver("unknown.toml", "test-redo-hart", "2999-12-31"));
    assert!(
        unknown.contains("test-redo-hart, which does not exist") && unknown.contains("hint: did you mean test-redo-hard?"),
        "{unknown}"
    );
    let day = said(&place.waiver("day.toml", "test-redo-hard", "'next spring'"));
    assert!(day.contains("next spring, which is not a date"), "{day}");
    let form = said(&place.write("form.toml", "waivers = 3\n").display().to_string());
    assert!(form.contains("not a list of waivers") && form.contains("hint: schema = 1"), "{form}");
    std::fs::write(place.path("binary.toml"), [0xff, 0xfe, 0]).unwrap();
    assert!(said("binary.toml").contains("not UTF-8 text"));
    assert!(said("missing.toml").contains("read missing.toml"));
}

#[test]
fn what_the_baseline_has_does_not_count_and_what_is_new_does() {
    let place = Place::new();
    place.capture("medium", 60, "rw,hard");
    place.stored("medium", "before.json");
    let same = place.audit_of("medium", &["--baseline", "before.json"]);
    assert_eq!(code(&same), 0, "{}", text(&same));
    assert!(text(&same).contains("no new finding; 1 for information, 1 known from the baseline"), "{}", text(&same));
    let new = place.audit(&["--baseline", "before.json"]);
    assert_eq!(code(&new), 1);
    assert!(text(&new).contains("1 new finding: 1 critical"), "{}", text(&new));
    assert!(!text(&new).contains("test-swappiness-low"), "{}", text(&new));
}

#[test]
fn a_baseline_that_is_none_is_refused() {
    let place = Place::new();
    let said = |file: &str| refused(&place.audit(&["--baseline", file]));
    assert!(said("missing.json").contains("read missing.json"));
    place.write("none.json", "{\"schema\": 1}");
    let none = said("none.json");
    assert!(none.contains("none.json is not a stored audit") && none.contains("--format json"), "{none}");
    let mut newer = serde_json::to_value(place.stored("capture", "a.json")).unwrap();
    newer["schema"] = Value::from(99);
    place.write("newer.json", &newer.to_string());
    assert!(said("newer.json").contains("version 99"));
}

#[test]
fn a_difference_names_what_is_new_gone_and_changed() {
    let place = Place::new();
    place.capture("after", 80, "rw,hard");
    place.stored("capture", "a.json");
    place.stored("after", "b.json");
    let diff = |a: &str, b: &str, more: &[&str]| {
        millrace().args(["audit", "diff", a, b]).args(more).current_dir(place.scratch.path()).output().unwrap()
    };
    let better = diff("a.json", "b.json", &[]);
    assert_eq!(code(&better), 0, "{}", text(&better));
    assert!(
        text(&better).contains("gone\n- critical  soft is set in fstab_options [test-redo-hard@mount /redo]"),
        "{}",
        text(&better)
    );
    assert!(text(&better).contains("after:  medium: sysctl.vm.swappiness is 80"), "{}", text(&better));
    assert_eq!(code(&diff("b.json", "a.json", &[])), 1);
    let found: Value = serde_json::from_slice(&diff("b.json", "a.json", &["--json"]).stdout).unwrap();
    assert_eq!((found["new"][0]["name"].as_str(), found["schema"].as_u64()), (Some("test-redo-hard@mount /redo"), Some(1)));
    assert_eq!(code(&diff("a.json", "a.json", &[])), 0);
    let missing = refused(&diff("a.json", "missing.json", &[]));
    assert!(missing.contains("cannot compare two audits: cannot read missing.json") && missing.contains("hint: "), "{missing}");
}

#[test]
fn captures_that_cannot_be_used_are_refused() {
    let place = Place::new();
    let said = |capture: &str| refused(&place.audit_of(capture, &[]));
    let missing = said("nowhere");
    assert!(missing.contains("nowhere") && missing.contains("hint: "), "{missing}");
    std::fs::create_dir(place.path("empty")).unwrap();
    assert!(said("empty").contains("empty"));
    place.write("noise", "\u{0}\u{1}\u{2} no archive of any kind");
    assert!(said("noise").contains("noise"));
    // The capture has a file, but nothing that a rule asks for.
    place.write("foreign/MANIFEST", "millrace-capture 1\nhost x\nsystem Plan9\n");
    said("foreign");
}

#[test]
fn rules_that_cannot_be_used_are_refused() {
    let place = Place::new();
    let said = |rules: &str| {
        let mut command = millrace();
        command.args(["audit", "--facts"]).arg(place.path("capture")).arg("--rules").arg(place.path(rules));
        refused(&command.output().unwrap())
    };
    assert!(said("nowhere").contains("nowhere"));
    std::fs::create_dir(place.path("none")).unwrap();
    assert!(said("none").contains("none"));
    place.write("broken/test/a.toml", &RULES.replacen("severity = \"medium\"", "severity = \"awful\"", 1));
    let broken = said("broken");
    assert!(broken.contains("a.toml") && broken.contains("hint: correct the path or the file"), "{broken}");
    place.write("expression/test/a.toml", &RULES.replacen("<= 10", "<= <= 10", 1));
    assert!(said("expression").contains("test-swappiness-low"));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let place = Place::new();
    let unknown = refused(&place.audit(&["--rule", "test-swapiness-low"]));
    assert!(
        unknown.contains("find the rule test-swapiness-low: there is no such rule")
            && unknown.contains("hint: did you mean test-swappiness-low?"),
        "{unknown}"
    );
    let far = refused(&place.audit(&["--rule", "xyz"]));
    assert!(far.contains("name their rules"), "{far}");
    refused(&place.audit(&["--format", "pdf"]));
    refused(&place.audit(&["--fail-on", "info"]));
    refused(&place.audit(&["--json", "--format", "html"]));
    refused(&place.audit(&["--site", "missing.toml"]));
    place.write("bad-site.toml", "[site\nrac = true");
    let site = refused(&place.audit(&["--site", "bad-site.toml"]));
    assert!(site.contains("cannot use bad-site.toml") && site.contains("hint: "), "{site}");
    let unwritable = refused(&place.audit(&["--out", "no/such/folder/audit.txt"]));
    assert!(unwritable.contains("cannot write no/such/folder/audit.txt"), "{unwritable}");
    let dsn = refused(&place.audit(&["--db", "postgresql://host:port:port/"]));
    assert!(dsn.contains("hint: write postgresql://"), "{dsn}");
    let oracle = refused(&place.audit(&["--db", "oracle://scott:tiger@db1/orcl"]));
    assert!(oracle.contains("hint: ") && !oracle.contains("tiger"), "{oracle}");
    let gone = refused(&place.audit(&["--db", "postgresql://clerk:secret@127.0.0.1:1/mill?connect_timeout=1"]));
    assert!(gone.contains("cannot read the settings of a database") && !gone.contains("secret"), "{gone}");
}

#[test]
fn this_host_is_audited_with_the_built_in_rules() {
    let output = millrace().args(["audit", "--json"]).output().unwrap();
    assert!([0, 1].contains(&code(&output)), "{}", text(&output));
    let audit: Audit = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(audit.from, "live");
    assert!(audit.findings.len() + audit.passed > 0);
}

#[test]
fn what_collect_writes_is_what_audit_reads() {
    let place = Place::new();
    for out in ["this.tar.gz", "this"] {
        let output = millrace().args(["collect", "--out", out]).current_dir(place.scratch.path()).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output));
        let audit = place.audit_of(out, &["--json"]);
        let audit: Audit = serde_json::from_slice(&audit.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&audit)));
        assert!(audit.findings.iter().any(|finding| finding.rule == "test-swappiness-low") || audit.passed > 0, "{audit:?}");
    }
    let again =
        millrace().args(["collect", "--out", "no/such/folder/x.tar.gz"]).current_dir(place.scratch.path()).output().unwrap();
    refused(&again);
}

#[test]
fn help_names_the_exit_codes_and_shows_examples() {
    for words in [&["audit", "--help"][..], &["audit", "diff", "--help"], &["collect", "--help"]] {
        let output = millrace().args(words).output().unwrap();
        let said = text(&output);
        assert_eq!(code(&output), 0);
        assert!(said.contains("Exit codes: 0") && said.contains("Examples:"), "{said}");
    }
}
