use super::*;

fn facts() -> Facts {
    let mut facts = Facts::default();
    facts.put("os.release", "5.9", "uname");
    facts.put("sysctl.vm.swappiness", 60, "sysctl -a");
    facts.put("sysctl.net.ipv4.tcp_rmem", "4096\t131072\t6291456", "sysctl -a");
    facts.put("user.root", false, "id");
    facts.put("package.nfs-utils", "2.6.2", "rpm -qa");
    facts.put_unknown("multipath.", "needs root");
    facts.put_unknown("lun", "no access");
    for (name, rsize, direct) in [("/u01", 65_536, true), ("/u02", 1_048_576, false)] {
        facts.put_of("mount", name, "rsize", rsize, "/proc/mounts");
        facts.put_of("mount", name, "forcedirectio", direct, "/proc/mounts");
    }
    facts.put_of("mount", "/u02", "source", "filer:/vol", "/proc/mounts");
    facts.things.insert("fc_host".to_owned(), std::collections::BTreeMap::new());
    facts
}

fn of(text: &str) -> Outcome {
    parse(text).unwrap().value(&facts(), Some(("mount", "/u02")))
}

fn yes(text: &str) {
    assert_eq!(of(text), Outcome::Known(Value::Bool(true)), "{text}");
}

fn no(text: &str) {
    assert_eq!(of(text), Outcome::Known(Value::Bool(false)), "{text}");
}

fn missing(text: &str) -> Vec<String> {
    match of(text) {
        Outcome::Unknown(missing) => missing,
        Outcome::Known(value) => panic!("{text} is {value:?}"),
    }
}

#[test]
fn precedence_is_or_and_not_comparison_sum_product() {
    yes("true or false and false");
    no("not true or false");
    yes("not 1 == 2");
    yes("1 + 2 * 3 == 7");
    yes("(1 + 2) * 3 == 9");
    yes("10 - 3 - 2 == 5");
    yes("-2 + 3 == 1 and 7 / 2 == 3 and 7 % 4 == 3");
}

#[test]
fn units_are_powers_of_1024() {
    yes("64KiB == 65536 and 2MiB == 2097152 and 1GiB == 1073741824 and 0x100000 == 1MiB");
}

#[test]
fn names_are_of_the_thing_at_hand_or_of_the_host() {
    yes("mount.rsize == 1MiB and mount.name == '/u02'");
    yes("sysctl.vm.swappiness == 60 and `package.nfs-utils` like '2.6*'");
    yes("any(mount, mount.rsize < each.rsize and each.name == '/u02')");
}

#[test]
fn what_was_not_collected_is_not_known() {
    assert_eq!(missing("sysctl.vm.overcommit_memory == 2"), ["sysctl.vm.overcommit_memory"]);
    assert_eq!(missing("multipath.defaults.features == '0'"), ["multipath.defaults.features: needs root"]);
    assert_eq!(missing("mount.wsize > 0"), ["mount.wsize"]);
    assert_eq!(missing("count(lun) > 0"), ["lun: no access"]);
    assert_eq!(missing("any(nic, nic.mtu > 1500)"), ["nic: none were looked for"]);
    no("any(fc_host, true)");
    yes("all(fc_host, false) and count(fc_host) == 0");
}

#[test]
fn three_values_join_as_kleene_says() {
    no("x.y and false");
    no("false and x.y");
    yes("x.y or true");
    yes("true or x.y");
    assert_eq!(missing("x.y and true"), ["x.y"]);
    assert_eq!(missing("false or x.y or not x.z"), ["x.y", "x.z"]);
    assert_eq!(missing("not x.y"), ["x.y"]);
    yes("any(mount, mount.source == 'filer:/vol')");
    no("all(mount, mount.forcedirectio)");
    assert_eq!(missing("any(mount, mount.source == 'else')"), ["mount /u01: source"]);
}

#[test]
fn comparing_text_with_a_number_gives_nothing() {
    let lines = missing("os.release == 5");
    assert_eq!(lines, ["os.release is 5.9, which cannot be compared with 5"]);
    assert!(!missing("os.release < '6'").is_empty());
    assert!(!missing("sysctl.vm.swappiness in ['60']").is_empty());
    assert!(!missing("sysctl.vm.swappiness and true").is_empty());
    assert!(!missing("1 / 0 == 1").is_empty());
    assert!(!missing("9223372036854775807 + 1 > 0").is_empty());
}

#[test]
fn functions_do_as_the_page_says() {
    yes("known(user.root) and not known(x.y)");
    yes("default(x.y, 3) == 3 and default(sysctl.vm.swappiness, 3) == 60");
    yes("version_at_least(os.release, '5.3') and version_at_least(os.release, '5.9.0')");
    no("version_at_least(os.release, '5.10')");
    yes(
        "version_at_least('6.1.0-13-amd64', '6.1') and version_at_least('B.11.31', '11.31') and version_at_least(170002, '170000')",
    );
    yes("contains(['a', 'b'], 'b') and contains('abc', 'bc') and not contains(['ab'], 'a')");
    yes("len(['a', 'b']) == 2 and lower('ABC') == 'abc'");
    yes("power_of_two(4096) and not power_of_two(3) and not power_of_two(0)");
    yes("word(sysctl.net.ipv4.tcp_rmem, 3) == 6291456 and word(sysctl.net.ipv4.tcp_rmem, 1) == 4KiB");
    yes("sysctl.net.ipv4.tcp_rmem.3 == 6291456 and not known(sysctl.net.ipv4.tcp_rmem.4) and not known(sysctl.vm.swappiness.1)");
    yes("sum(mount.rsize) == 1114112 and min(mount.rsize) == 64KiB and max(mount.rsize) == 1MiB");
    yes("min(3, 1, 2) == 1 and max(sysctl.vm.swappiness, 100) == 100");
    yes("count(mount) == 2 and count(mount, mount.rsize >= 1MiB) == 1");
    yes("sum(mount, default(mount.wsize, 8)) == 16");
}

#[test]
fn what_could_not_be_read_is_not_taken_for_unset() {
    yes("unset(x.y)");
    no("unset(user.root)");
    assert_eq!(missing("default(multipath.find, 1) == 1"), ["multipath.find: needs root"]);
    assert_eq!(missing("unset(multipath.find)"), ["multipath.find: needs root"]);
    assert_eq!(missing("default(multipath.find == 'strict', false)"), ["multipath.find: needs root"]);
    assert_eq!(missing("known(multipath.find)"), ["multipath.find: needs root"]);
    assert_eq!(missing("default(lower(multipath.find) in ['strict'], false)"), ["multipath.find: needs root"]);
}

#[test]
fn globs_fit_the_whole_text() {
    yes("'rhel7.9' like 'rhel*' and 'abc' like 'a?c' and 'aXbXc' like 'a*b*c' and '' like '*'");
    yes("'abc' not like 'b*' and 'abc' not like 'ab'");
    yes("'it''s' like 'it*s'");
}

#[test]
fn lists_are_searched() {
    yes("mount.name in ['/u01', '/u02'] and mount.name not in ['/u03']");
    no("mount.name in []");
}

#[test]
fn errors_name_the_place() {
    for (text, at, part) in [
        ("a.b ==", 7, "a value is wanted"),
        ("a.b = 1", 5, "`==`"),
        ("a.b == \"x\"", 8, "single quotes"),
        ("a.b && c.d", 5, "`and`"),
        ("1 < a.b < 3", 9, "follow"),
        ("nfs-utils", 1, "not a fact"),
        ("64kb == 1", 1, "unknown unit"),
        ("'open", 1, "closing"),
        ("frob(a.b)", 1, "no function is called frob"),
        ("known()", 1, "takes 1 to 1"),
        ("(a.b", 5, "`)`"),
        ("a.b c.d", 5, "the end is wanted"),
        ("any(mount.rsize, true)", 5, "kind"),
        ("99999999999999999999", 1, "too large"),
        ("ä.b", 1, "no meaning"),
        ("'ä' ==", 7, "a value is wanted"),
        ("", 1, "not the end"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.what.contains(part), "{text}: {error}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    assert!(parse(&format!("{}true{}", "(".repeat(40), ")".repeat(40))).is_ok());
    for deep in ["(", "not ", "-", "["] {
        assert!(parse(&deep.repeat(1500)).unwrap_err().what.contains("levels"), "{deep}");
    }
    assert!(parse(&format!("1{}", " + 1".repeat(1000))).unwrap_err().what.contains("levels"));
    assert!(parse(&format!("true{}", " and true".repeat(500))).is_ok());
    assert!(parse(&" ".repeat(9000)).unwrap_err().what.contains("bytes"));
}

#[test]
fn evaluation_ends_on_many_things() {
    let mut facts = Facts::default();
    for index in 0..2000 {
        facts.put_of("lun", &index.to_string(), "size", index, "test");
    }
    let expression = parse("any(lun, any(lun, lun.size < 0))").unwrap();
    assert!(
        matches!(expression.value(&facts, None), Outcome::Unknown(lines) if lines.len() == 1 && lines[0].contains("too much"))
    );
}

#[test]
fn what_was_looked_at_is_told() {
    let looked = |text: &str| -> Vec<String> {
        let seen = parse(text).unwrap().evaluate(&facts(), Some(("mount", "/u02"))).looked_at;
        seen.iter().map(ToString::to_string).collect()
    };
    assert_eq!(looked("sysctl.vm.swappiness <= 10 and x.y"), ["sysctl.vm.swappiness is 60"]);
    assert_eq!(looked("mount.rsize > 1 and mount.rsize > 2"), ["mount.rsize is 1 MiB"]);
    assert_eq!(looked("default(x.y, 1) == 2"), ["x.y is not known"]);
    assert_eq!(looked("unset(x.y)"), ["x.y is not known"]);
    assert_eq!(looked("any(mount, mount.forcedirectio)"), ["mount /u01: forcedirectio is true"]);
    assert_eq!(looked("all(mount, mount.rsize > 64KiB)"), ["mount /u01: rsize is 64 KiB"]);
    assert_eq!(looked("sum(mount.rsize) < 1"), ["sum(mount.rsize) is 1 MiB (1114112)"]);
    assert_eq!(looked("any(fc_host, true)"), ["count(fc_host) is 0"]);
}

#[test]
fn names_that_need_a_thing_are_told_apart() {
    let expression = parse("mount.rsize > 1 and any(nic, nic.mtu < lun.size) and each.name == 'x' and `a.b-c`").unwrap();
    assert_eq!(expression.host_names(Some("mount")), ["lun.size", "a.b-c"]);
    assert_eq!(expression.host_names(None), ["mount.rsize", "lun.size", "each.name", "a.b-c"]);
    assert_eq!(expression.kinds(), ["nic"]);
}

#[test]
fn no_text_brings_reader_or_evaluation_down() {
    const WORDS: [&str; 44] = [
        "(",
        ")",
        "[",
        "]",
        ",",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "and",
        "or",
        "not",
        "in",
        "like",
        "true",
        "'a*'",
        "'",
        "`",
        "0",
        "9223372036854775807",
        "64KiB",
        "0xff",
        "mount.rsize",
        "mount.name",
        "x.y",
        "`a-b`",
        "any",
        "all",
        "sum",
        "max",
        "count",
        "mount",
        "known",
        "default",
        "version_at_least",
        "word",
        "ä",
    ];
    let facts = facts();
    sim::sweep(2000, |_, mut rng| {
        let length = rng.index(14) + 1;
        let text = (0..length).filter_map(|_| rng.pick(&WORDS).copied()).collect::<Vec<_>>().join(" ");
        if let Ok(expression) = parse(&text) {
            let _ = expression.evaluate(&facts, Some(("mount", "/u01"))).looked_at.iter().map(ToString::to_string).count();
            let _ = expression.host_names(None).len() + expression.kinds().len();
        }
    });
}
