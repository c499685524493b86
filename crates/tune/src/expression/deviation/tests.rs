use crate::expression::parse;
use crate::facts::Facts;

fn told(text: &str) -> Option<String> {
    let mut facts = Facts::default();
    facts.put("postgres.shared_buffers", 134_217_728, "a");
    facts.put("postgres.fsync", false, "a");
    facts.put("postgres.mode", "off", "a");
    facts.put("hw.memory_bytes", 25_769_803_776, "a");
    facts.put("sysctl.vm.swappiness", 60, "a");
    facts.put("site.shared", false, "a");
    facts.put("os.release", "5.10.0", "a");
    facts.put_of("mount", "/u01", "rsize", 65_536, "a");
    parse(text).unwrap().deviation(&facts, None)
}

#[track_caller]
fn says(text: &str, wanted: &str) {
    assert_eq!(told(text).as_deref(), Some(wanted), "{text}");
}

#[test]
fn a_comparison_says_what_is_and_what_is_expected_in_human_units() {
    says("postgres.shared_buffers >= hw.memory_bytes / 8", "shared_buffers is 128 MiB; at least 3 GiB expected");
    says("hw.memory_bytes / 8 <= postgres.shared_buffers", "shared_buffers is 128 MiB; at least 3 GiB expected");
    says("sysctl.vm.swappiness <= 10", "vm.swappiness is 60; at most 10 expected");
    says("postgres.fsync == true", "fsync is off; on expected");
    says("postgres.shared_buffers * 8 >= hw.memory_bytes", "shared_buffers is 128 MiB; at least 3 GiB expected");
    says("site.shared", "shared: no; yes expected");
    says("lower(postgres.mode) in ['on', 'remote']", "mode is off; on or remote expected");
    says("postgres.shared_buffers >= hw.memory_bytes", "shared_buffers is 128 MiB; at least 24 GiB (memory) expected");
    says("default(postgres.other, 1) == 2", "other is 1; 2 expected");
}

#[test]
fn of_several_operands_of_default_the_one_that_is_used_is_named() {
    says("default(solaris.ndd.tcp.none, sysctl.vm.swappiness) <= 10", "vm.swappiness is 60; at most 10 expected");
    let nested = "default(word(sysctl.none, 3), default(aix.no.none, postgres.shared_buffers)) >= hw.memory_bytes / 8";
    says(nested, "shared_buffers is 128 MiB; at least 3 GiB expected");
    says("default(postgres.other, default(sysctl.none, 1)) == 2", "other is 1; 2 expected");
    says("default(site.unset, postgres.fsync)", "fsync is off; on expected");
    says("default(postgres.fsync, sysctl.vm.swappiness)", "fsync is off; on expected");
    says("default(site.unset, false)", "unset is not set; yes expected");
}

#[test]
fn of_an_and_the_part_that_fails_is_named() {
    says("hw.memory_bytes > 1GiB and postgres.fsync", "fsync is off; on expected");
    says("not (hw.memory_bytes < 1GiB or sysctl.vm.swappiness > 10)", "vm.swappiness is 60; at most 10 expected");
}

#[test]
fn of_an_or_about_one_value_all_that_would_do_is_named() {
    says("sysctl.vm.swappiness < 5 or sysctl.vm.swappiness > 90", "vm.swappiness is 60; less than 5 or more than 90 expected");
    assert_eq!(told("postgres.fsync or sysctl.vm.swappiness == 1"), None);
}

#[test]
fn a_thing_that_fails_is_named() {
    says("all(mount, mount.rsize >= 1MiB)", "mount /u01: rsize is 64 KiB; at least 1 MiB expected");
    says("version_at_least(os.release, '6.1')", "the kernel's release is 5.10.0; 6.1 or later expected");
    says("known(postgres.other)", "other is not set");
    says("contains(postgres.mode, 'hard')", "mode: off; hard expected");
    says("not contains(postgres.mode, 'off')", "off is set in mode");
}

#[test]
fn an_expression_that_says_too_little_has_none() {
    assert_eq!(told("postgres.shared_buffers % 8 == hw.memory_bytes % 2 + 1"), None);
    assert_eq!(told("false"), None);
    assert_eq!(told("not (postgres.mode == 'off' and sysctl.vm.swappiness == 60)"), None);
}
