use super::*;

const GOOD: &str = r#"
schema = 1
layer = "tcp"

[[rule]]
id = "linux-window"
title = "The window is wide"
platforms = ["linux"]
test = "sysctl.a.b >= 64KiB"
severity = "low"
reason = "It fills the line."
sources = [{ name = "TR-3700" }]
status = "valid"
fires = [{ facts = { sysctl.a.b = 1 } }]
silent = [{ facts = { "sysctl.a.b" = 65536 } }]

[rule.fix]
activation = "live"
set = [{ kind = "sysctl", key = "a.b", value = "65536" }]
"#;

fn problems(text: &str) -> Vec<String> {
    match RuleSet::from_texts([("x/tcp.toml", text)]) {
        Ok(_) => Vec::new(),
        Err(RuleError::Rules(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(other) => panic!("{other}"),
    }
}

#[track_caller]
fn refused(from: &str, to: &str, wanted: &str) {
    assert!(GOOD.contains(from), "{from}");
    let told = problems(&GOOD.replacen(from, to, 1));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("x/tcp.toml: ") && told[0].contains(wanted), "{}", told[0]);
}

#[test]
fn a_good_rule_is_read() {
    let set = RuleSet::from_texts([("x/tcp.toml", GOOD)]).unwrap();
    let loaded = set.find("linux-window").unwrap();
    assert_eq!((loaded.layer.as_str(), loaded.file.as_str()), ("tcp", "x/tcp.toml"));
    assert_eq!(loaded.rule.fires[0].facts.get("sysctl.a.b"), Some(&crate::facts::Value::Int(1)));
    assert_eq!(loaded.rule.silent[0].facts.get("sysctl.a.b"), Some(&crate::facts::Value::Int(65_536)));
}

#[test]
fn unknown_keys_are_refused_with_file_and_rule() {
    refused("severity = ", "severty = \"low\"\nseverity = ", "rule linux-window: line 10: unknown field `severty`");
    refused("activation = ", "activate = 1\nactivation = ", "rule linux-window");
    refused("layer = \"tcp\"", "layer = \"tcp\"\nlayers = 1", "unknown field `layers`");
}

#[test]
fn a_template_speaks_of_facts_that_the_rule_looks_at() {
    let with = |finding: &str| format!("finding = \"{finding}\"\nplatforms = ");
    refused("platforms = ", &with("it is {sysctl.a.c}"), "rule linux-window: finding: placeholder sysctl.a.c is no fact");
    refused("platforms = ", &with("it is {sysctl.a.b"), "rule linux-window: finding: a `{` has no `}`");
    refused("platforms = ", &with("it is {sysctl.a.b:kg}"), "unknown unit \"kg\"");
    refused("platforms = ", &with("The window is wide"), "what is wrong, not what is wanted");
    assert!(problems(&GOOD.replacen("platforms = ", &with("it is {sysctl.a.b:bytes}"), 1)).is_empty());
}

#[test]
fn what_makes_no_sense_is_refused() {
    refused("schema = 1", "schema = 2", "schema 2 is not 1");
    refused("layer = \"tcp\"", "layer = \"tpc\"", "unknown layer \"tpc\"");
    refused("[\"linux\"]", "[\"linus\"]", "rule linux-window: unknown platform \"linus\"");
    refused("id = \"linux-window\"", "id = \"Linux window\"", "identity");
    refused("is wide\"", "is wide.\"", "full stop");
    refused(">= 64KiB", "=> 64KiB", "test: at character 12");
    refused("sysctl.a.b >= 64KiB", "mount.rsize > 1", "none is at hand");
    refused("fires = [{ facts = { sysctl.a.b = 1 } }]", "fires = []", "at least one case");
    refused("sources = [{ name = \"TR-3700\" }]", "sources = []", "no source");
    refused("\"It fills the line.\"", "\" \"", "no reason");
    refused("value = \"65536\"", "value = \"1\", value_of = \"1\"", "value and value_of");
    refused(", value = \"65536\"", "", "has no value");
    refused("value = \"65536\"", "value = \"1\\nkernel.x = 2\"", "no file of settings takes");
    refused("value = \"65536\"", "value_of = \"1 +\"", "value_of a.b: at character");
    refused("kind = \"sysctl\", key = \"a.b\"", "kind = \"limits\", key = \"a b\"", "USER TYPE ITEM");
}

#[test]
fn identities_are_unique_over_all_files() {
    let error = RuleSet::from_texts([("a.toml", GOOD), ("b.toml", GOOD)]).unwrap_err();
    assert_eq!(error.to_string(), "read the rules: b.toml: rule linux-window: another rule has this identity");
    let one = RuleSet::from_texts([("a.toml", GOOD)]).unwrap();
    assert!(one.clone().with(one).is_err());
}

#[test]
fn all_mistakes_are_told_at_once() {
    let bad = GOOD.replacen("\"low\"", "\"awful\"", 1);
    let error = RuleSet::from_texts([("a.toml", bad.as_str()), ("b.toml", "schema = 1")]).unwrap_err().to_string();
    assert!(error.contains("a.toml: rule linux-window: line 10") && error.contains("b.toml: "), "{error}");
}

#[test]
fn a_folder_is_read_with_all_below_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("deep/er")).unwrap();
    std::fs::write(folder.path().join("deep/er/tcp.toml"), GOOD).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no rules").unwrap();
    let set = RuleSet::folder(folder.path()).unwrap();
    assert_eq!(set.rules()[0].file, "deep/er/tcp.toml");
    std::fs::write(folder.path().join("bytes.toml"), [0xff, 0xfe]).unwrap();
    assert!(matches!(RuleSet::folder(folder.path()), Err(RuleError::Read { .. })));
    assert!(RuleSet::folder(&folder.path().join("none")).is_err());
}

#[test]
fn a_folder_that_holds_itself_ends() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
    assert!(matches!(RuleSet::folder(folder.path()), Err(RuleError::TooMuch { .. })));
}

#[test]
fn built_in_rules_are_good() {
    if let Err(error) = built_in() {
        panic!("{error}");
    }
}

#[test]
fn every_kind_that_a_rule_takes_each_of_is_known() {
    let built_in = built_in().unwrap();
    for kind in built_in.rules().iter().filter_map(|loaded| loaded.rule.each.as_deref()) {
        assert!(KINDS.contains(&kind), "{kind}");
    }
    assert!(KINDS.is_sorted());
}
