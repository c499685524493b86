//! The changes for findings: where each kind of setting is written, which changes contradict each
//! other, and which are only text.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::change::{Rules, finding, linux, write};
use results::audit::{Activation, Finding};
use tune::change::{Part, Plan, Root, manual_steps, plan, render};
use tune::facts::{Database, Facts, Server, ServerState};
use tune::rules::RuleSet;

/// A plan for one setting.
fn planned(root: &Path, facts: &Facts, subject: Option<&str>, setting: &str) -> Plan {
    let mut rules = Rules::default();
    rules.add("one", "", "live", setting, "");
    plan(&rules, facts, &[finding("one", subject)], &Root::new(root))
}

fn parts(plan: &Plan) -> &[Part] {
    &plan.groups[0].changes[0].parts
}

#[test]
fn groups_come_in_the_order_of_what_they_take_and_build_on_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = Rules::default();
    rules.add("late", "", "reboot", "{ kind = \"sysctl\", key = \"kernel.shmmni\", value = \"4096\" }", "needs = [\"b\", \"a\"]");
    rules.add("soon", "", "live", "{ kind = \"sysctl\", key = \"vm.swappiness\", value = \"1\" }", "needs = [\"a\"]");
    let findings = [finding("late", None), finding("soon", None)];
    let plan = plan(&rules, &linux(), &findings, &Root::new(folder.path()));
    let order: Vec<Activation> = plan.groups.iter().map(|group| group.activation).collect();
    assert_eq!(order, [Activation::Live, Activation::Reboot]);
    assert_eq!(plan.groups[1].needs, ["b", "a"]);
    let (first, second) = (&plan.groups[0].files[0].diff, &plan.groups[1].files[0].diff);
    assert!(first.starts_with("--- /dev/null\n+++ /etc/sysctl.d/60-millrace.conf\n"), "{first}");
    assert!(second.contains(" vm.swappiness = 1\n+# late\n+kernel.shmmni = 4096\n"), "{second}");
    let [all] = plan.files.as_slice() else { panic!("{:?}", plan.files) };
    assert!(all.diff.ends_with("+# soon\n+vm.swappiness = 1\n+# late\n+kernel.shmmni = 4096\n"), "{}", all.diff);
    assert_eq!(all.rules, ["soon", "late"]);
    let text = render(&plan);
    assert_eq!(text.matches("\n+++ /etc/").count(), 1, "one diff for each file: {text}");
    assert_eq!(order.len(), text.matches("== ").count());
}

#[test]
fn a_group_lists_the_steps_of_the_user_in_order_and_a_shared_note_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = Rules::default();
    let two = "{ kind = \"postgres\", key = \"max_wal_size\", value = \"8GB\" }, { kind = \"postgres\", key = \"min_wal_size\", value = \"1GB\" }";
    rules.add("wal", "", "reload", two, "needs = [\"make room\"]\nafter = [\"watch the disk\"]");
    rules.add("memory", "", "reload", "{ kind = \"postgres\", key = \"work_mem\", value = \"8MB\" }", "");
    let mut facts = linux();
    let of_server = server(&mut facts, "a", None);
    let findings = ["memory", "wal"].map(|rule| Finding { rule: rule.into(), ..of_server.clone() });
    let plan = plan(&rules, &facts, &findings, &Root::new(folder.path()));
    let text = render(&plan);
    // Three settings of a server whose files are not known get one common remark.
    assert_eq!(text.matches("which files of this host the server reads is not known").count(), 1, "{text}");
    let steps = manual_steps(&plan.groups[0]);
    let [before, run, after] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!((before.text.as_str(), after.text.as_str()), ("make room", "watch the disk"));
    assert_eq!(
        (run.text.as_str(), &run.rules[..]),
        ("run, in psql, as a superuser, of a", &["memory (a)".into(), "wal (a)".into()][..])
    );
    let (last, statements) = run.lines.split_last().unwrap();
    assert!(last == "SELECT pg_reload_conf();" && statements.len() == 3, "{run:?}");
    assert!(statements.iter().all(|line| line.starts_with("ALTER SYSTEM SET ")), "{run:?}");
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    let order = ["min_wal_size to", "steps left to you", "1. make room (wal; a)", "2. run, in psql", "3. watch the disk"];
    assert!(order.map(place).is_sorted(), "{text}");
}

#[test]
fn a_written_file_that_is_not_in_force_leaves_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = Rules::default();
    rules.add("late", "", "reboot", "{ kind = \"sysctl\", key = \"kernel.shmmni\", value = \"4096\" }", "");
    rules.add("soon", "", "live", "{ kind = \"sysctl\", key = \"vm.swappiness\", value = \"1\" }", "");
    let plan = plan(&rules, &linux(), &[finding("late", None), finding("soon", None)], &Root::new(folder.path()));
    let [live, reboot] = plan.groups.as_slice() else { panic!("{plan:?}") };
    assert!(manual_steps(live).is_empty());
    let steps = manual_steps(reboot);
    assert!(matches!(steps.as_slice(), [step] if step.text == "reboot the host" && step.rules == ["late"]), "{steps:?}");
}

#[test]
fn a_file_that_is_read_later_is_the_one_that_changes() {
    let folder = tempfile::tempdir().unwrap();
    let setting = "{ kind = \"sysctl\", key = \"vm.swappiness\", value = \"1\" }";
    write(folder.path(), "etc/sysctl.d/10-early.conf", "vm.swappiness = 30\n");
    let plan = planned(folder.path(), &linux(), None, setting);
    assert_eq!(plan.groups[0].files[0].path, "/etc/sysctl.d/60-millrace.conf");
    write(folder.path(), "etc/sysctl.conf", "kernel.sysrq = 1\nvm/swappiness = 40 \n");
    symlink("../sysctl.conf", folder.path().join("etc/sysctl.d/99-sysctl.conf")).unwrap();
    let plan = planned(folder.path(), &linux(), None, setting);
    let file = &plan.groups[0].files[0];
    assert_eq!((file.path.as_str(), file.real.as_str()), ("/etc/sysctl.conf", "/etc/sysctl.conf"));
    assert!(file.diff.contains("-vm/swappiness = 40 \n+vm.swappiness = 1\n"), "{}", file.diff);
    assert!(plan.groups[0].changes[0].remarks.iter().any(|remark| remark.contains("read after")));
}

#[test]
fn a_module_parameter_changes_where_modprobe_reads_it_last() {
    let folder = tempfile::tempdir().unwrap();
    let setting = "{ kind = \"modprobe\", key = \"sunrpc.tcp_slot_table_entries\", value = \"128\" }";
    let changed = || {
        let plan = planned(folder.path(), &linux(), None, setting);
        let group = &plan.groups[0];
        (group.files[0].path.clone(), group.files[0].diff.clone(), group.changes[0].remarks.join("; "))
    };
    assert_eq!(changed().0, "/etc/modprobe.d/60-millrace.conf");
    // A parameter of the same file, and in a file of the administrator that is read later.
    let others = "options sunrpc a=1 \\\n tcp_slot_table_entries=16 b=2\n";
    write(folder.path(), "etc/modprobe.d/sunrpc.conf", others);
    let (path, diff, remarks) = changed();
    assert_eq!(path, "/etc/modprobe.d/sunrpc.conf");
    assert!(diff.contains("-tcp_slot_table_entries=16\n+tcp_slot_table_entries=128\n"), "{diff}");
    assert!(remarks.contains("is read after /etc/modprobe.d/60-millrace.conf"), "{remarks}");
    // A file of a package that it masks counts no more; another one that is read later is not edited.
    write(folder.path(), "usr/lib/modprobe.d/sunrpc.conf", others);
    assert_eq!(changed().0, "/etc/modprobe.d/sunrpc.conf");
    write(folder.path(), "usr/lib/modprobe.d/zz.conf", others);
    write(folder.path(), "proc/cmdline", "quiet sunrpc.tcp_slot_table_entries=2\n");
    let (path, _, remarks) = changed();
    assert_eq!(path, "/etc/modprobe.d/zz.millrace.conf");
    assert!(remarks.contains("/usr/lib/modprobe.d/zz.conf, of a package") && remarks.contains("/proc/cmdline"), "{remarks}");
    // A file in /run is not of a package.
    write(folder.path(), "run/modprobe.d/zz.conf", others);
    let (_, _, remarks) = changed();
    assert!(remarks.contains("/run/modprobe.d/zz.conf, which a program made at run time, sets it too"), "{remarks}");
}

#[test]
fn two_rules_that_contradict_are_not_both_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = Rules::default();
    for (id, value) in [("a", "1"), ("b", "10"), ("c", "1")] {
        rules.add(id, "", "live", &format!("{{ kind = \"sysctl\", key = \"vm.swappiness\", value = {value:?} }}"), "");
    }
    let findings = [finding("c", None), finding("b", None), finding("a", None)];
    let plan = plan(&rules, &linux(), &findings, &Root::new(folder.path()));
    let done: Vec<&str> = plan.groups[0].changes.iter().map(|change| change.rule.as_str()).collect();
    assert_eq!(done, ["a", "c"]);
    assert!(
        plan.apart.len() == 1 && plan.apart[0].change.rule == "b" && plan.apart[0].why.starts_with("a says otherwise"),
        "{:?}",
        plan.apart
    );
}

#[test]
fn other_systems_and_storage_get_text_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "etc/fstab", "filer:/redo /redo nfs soft 0 0\n");
    for (family, setting, line) in [
        ("aix", "{ kind = \"aix-no\", key = \"rfc1323\", value = \"1\" }", "no -p -o rfc1323=1"),
        (
            "solaris",
            "{ kind = \"solaris-ndd\", key = \"tcp.tcp_recv_hiwat\", value = \"65535\" }",
            "ndd -set /dev/tcp tcp_recv_hiwat 65535",
        ),
        ("hpux", "{ kind = \"fstab-option\", key = \"hard\" }", "in /etc/fstab, mount /redo: option hard"),
        ("linux", "{ kind = \"ontap7\", key = \"nfs.tcp.enable\", value = \"on\" }", "options nfs.tcp.enable on"),
        (
            "linux",
            "{ kind = \"oracle\", key = \"disk_asynch_io\", value = \"true\" }",
            "ALTER SYSTEM SET disk_asynch_io=true SCOPE=SPFILE SID='*';",
        ),
    ] {
        let mut facts = Facts::default();
        facts.put("os.family", family, "a test");
        let plan = planned(folder.path(), &facts, Some("mount /redo"), setting);
        let [Part::Run(run)] = parts(&plan) else { panic!("{plan:?}") };
        assert_eq!(run.lines[0], line);
        assert!(plan.groups[0].files.is_empty());
    }
}

#[test]
fn postgres_is_a_drop_in_where_one_is_read_and_last_and_else_alter_system() {
    let folder = tempfile::tempdir().unwrap();
    let mut facts = linux();
    let setting = "{ kind = \"postgres\", key = \"shared_buffers\", value_of = \"1073741824\" }";
    let plan = planned(folder.path(), &facts, None, setting);
    let [Part::Run(run)] = parts(&plan) else { panic!("{plan:?}") };
    assert_eq!(run.lines, ["ALTER SYSTEM SET shared_buffers = '1GB';", "SELECT pg_reload_conf();"]);

    facts.put("postgres.config_file", "/etc/postgresql/17/main/postgresql.conf", "a test");
    facts.put("postgres.data_directory", "/data", "a test");
    write(folder.path(), "etc/postgresql/17/main/postgresql.conf", "#include_dir = 'x'\ninclude_dir = 'conf.d'\t# folder\n");
    write(folder.path(), "etc/postgresql/17/main/conf.d/a.conf", "");
    let plan = planned(folder.path(), &facts, None, setting);
    let file = &plan.groups[0].files[0];
    assert_eq!(file.path, "/etc/postgresql/17/main/conf.d/60-millrace.conf");
    assert!(file.diff.contains("+shared_buffers = '1GB'\n"), "{}", file.diff);

    let config = "etc/postgresql/17/main/postgresql.conf";
    write(folder.path(), config, "include_dir = 'conf.d'\nshared_buffers = 64MB\n");
    let plan = planned(folder.path(), &facts, None, setting);
    assert!(matches!(parts(&plan), [Part::Run(_)]), "{plan:?}");
    write(folder.path(), config, "shared_buffers = 64MB\ninclude_dir = 'conf.d'\n");

    write(folder.path(), "data/postgresql.auto.conf", "shared_buffers = '128MB'\n");
    let plan = planned(folder.path(), &facts, None, setting);
    assert!(matches!(parts(&plan), [Part::Run(_)]), "{plan:?}");
}

#[test]
fn mysql_is_a_drop_in_where_the_main_file_includes_a_directory_and_else_text() {
    let folder = tempfile::tempdir().unwrap();
    let setting = "{ kind = \"mysql\", key = \"innodb_doublewrite\", value = \"ON\" }";
    let is_text = |plan: &Plan, why: &str| {
        let change = &plan.groups[0].changes[0];
        assert!(matches!(&change.parts[..], [Part::Run(_)]), "{plan:?}");
        assert!(
            change.remarks.iter().any(|remark| remark.starts_with("no file is written: ") && remark.contains(why)),
            "{change:?}"
        );
    };
    // MariaDB's packages create this directory, but the main file was replaced by one that does not
    // include it.
    write(folder.path(), "etc/mysql/mariadb.conf.d/50-server.cnf", "[mysqld]\n");
    write(folder.path(), "etc/mysql/my.cnf", "[mysqld]\n");
    is_text(&planned(folder.path(), &linux(), None, setting), "/etc/my.cnf or /etc/mysql/my.cnf has no `!includedir`");
    write(folder.path(), "etc/mysql/conf.d/x.cnf", "[mysqld]\n");
    write(folder.path(), "etc/mysql/my.cnf", "!includedir /etc/mysql/conf.d/\n");
    let plan = planned(folder.path(), &linux(), None, setting);
    assert_eq!(plan.groups[0].files[0].path, "/etc/mysql/conf.d/zz-millrace.cnf");
    write(folder.path(), "etc/mysql/my.cnf", "!includedir /etc/mysql/conf.d/\n[mysqld]\ninnodb-doublewrite = 0\n");
    is_text(&planned(folder.path(), &linux(), None, setting), "sets it after the directory /etc/mysql/conf.d");
}

#[test]
fn what_cannot_be_written_is_said_in_words() {
    let folder = tempfile::tempdir().unwrap();
    for (setting, words) in [
        ("{ kind = \"sysctl\", key = \"vm/../../etc/passwd\", value = \"1\" }", "no name of a kernel setting"),
        ("{ kind = \"sysctl\", key = \"vm.swappiness\", value = \"1\\nkernel.core_pattern = |x\" }", "control character"),
        ("{ kind = \"fstab-option\", key = \"hard\" }", "no line in /etc/fstab"),
        ("{ kind = \"iscsid\", key = \"node.startup\", value = \"automatic\" }", "not there"),
        ("{ kind = \"multipath\", key = \"defaults.path_checker\", value = \"tur\" }", "not there"),
        ("{ kind = \"udev\", key = \"block/queue/scheduler\", value = \"none\\\"\" }", "quotation mark"),
        ("{ kind = \"limits\", key = \"oracle nofile\", value = \"1\" }", "not USER TYPE ITEM"),
    ] {
        let plan = planned(folder.path(), &linux(), Some("mount /gone"), setting);
        let [Part::ByHand { text }] = parts(&plan) else { panic!("{setting}: {plan:?}") };
        assert!(text.contains(words), "{text}");
        assert!(!plan.groups[0].changes[0].is_ours());
    }
}

#[test]
fn a_value_that_cannot_be_worked_out_and_a_rule_that_is_gone_are_left_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = Rules::default();
    rules.add("one", "", "live", "{ kind = \"sysctl\", key = \"kernel.shmmax\", value_of = \"oracle.sga_bytes\" }", "");
    let findings = [finding("one", None), finding("gone", Some("mount /redo"))];
    let plan = plan(&rules, &linux(), &findings, &Root::new(folder.path()));
    assert!(plan.is_empty());
    assert_eq!(plan.left.len(), 2);
    assert!(plan.left.iter().any(|left| left.contains("oracle.sga_bytes not known")), "{:?}", plan.left);
    assert!(plan.left.iter().any(|left| left.starts_with("gone (mount /redo)")), "{:?}", plan.left);
}

#[test]
fn module_parameters_and_block_queues_are_set_at_once_where_the_kernel_lets_them() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "sys/module/sunrpc/parameters/tcp_slot_table_entries", "2\n");
    write(folder.path(), "sys/block/sda/queue/scheduler", "none [mq-deadline]\n");
    let module = planned(
        folder.path(),
        &linux(),
        None,
        "{ kind = \"modprobe\", key = \"sunrpc.tcp_slot_table_entries\", value = \"128\" }",
    );
    assert!(matches!(parts(&module), [Part::Running { .. }, Part::File { .. }]), "{module:?}");
    let block = planned(
        folder.path(),
        &linux(),
        Some("block sda"),
        "{ kind = \"udev\", key = \"block/queue/scheduler\", value = \"none\" }",
    );
    let [Part::Running { path, value, .. }, Part::File { .. }] = parts(&block) else { panic!("{block:?}") };
    assert_eq!((path.as_str(), value.as_str()), ("/sys/block/sda/queue/scheduler", "none"));
    let diff = &block.groups[0].files[0].diff;
    assert!(
        diff.contains("+ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"sda\", ATTR{queue/scheduler}=\"none\"\n"),
        "{diff}"
    );
}

/// A PostgreSQL server with this configuration file, and a finding for it.
fn server(facts: &mut Facts, name: &str, config: Option<&str>) -> Finding {
    let mut own = Facts::default();
    own.put("postgres.work_mem", 4096, "a test");
    own.put("postgres.data_directory", format!("/{name}"), "a test");
    let (database, state) = (Database::Postgres, ServerState::Live);
    facts.put_server(Server { name: name.to_owned(), database, state, config: config.map(str::to_owned), facts: own });
    Finding { server: Some(name.to_owned()), ..finding("one", Some(name)) }
}

#[test]
fn each_server_gets_its_own_file_and_one_whose_file_is_not_known_gets_text_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = Rules::default();
    rules.add("one", "", "reload", "{ kind = \"postgres\", key = \"work_mem\", value = \"8MB\" }", "");
    let mut facts = linux();
    let mut findings = Vec::new();
    for name in ["a", "b"] {
        write(folder.path(), &format!("etc/{name}/postgresql.conf"), "include_dir = 'conf.d'\n");
        write(folder.path(), &format!("etc/{name}/conf.d/x.conf"), "");
        findings.push(server(&mut facts, name, Some(&format!("/etc/{name}/postgresql.conf"))));
    }
    findings.push(server(&mut facts, "c", None));
    let plan = plan(&rules, &facts, &findings, &Root::new(folder.path()));
    let files: Vec<&str> = plan.groups[0].files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["/etc/a/conf.d/60-millrace.conf", "/etc/b/conf.d/60-millrace.conf"]);
    let elsewhere = &plan.groups[0].changes[2];
    let [Part::Run(run)] = elsewhere.parts.as_slice() else { panic!("{elsewhere:?}") };
    assert!(run.place.ends_with(", of c") && elsewhere.remarks[0].contains("not known"), "{elsewhere:?}");
}

#[test]
fn two_servers_that_want_different_values_of_one_setting_of_the_host_are_not_both_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut facts = linux();
    let findings = [server(&mut facts, "a", None), server(&mut facts, "b", None)];
    facts.servers[1].facts.host.clear();
    facts.servers[1].facts.put("postgres.work_mem", 8192, "a test");
    let setting = "[[rule]]\nid = \"one\"\ntitle = \"T\"\nreason = \"R\"\nsources = [{ name = \"S\" }]\nstatus = \"valid\"\n\
        test = \"postgres.work_mem == 1\"\nseverity = \"low\"\nfires = [{}]\nsilent = [{}]\n[rule.fix]\nactivation = \"live\"\n\
        set = [{ kind = \"sysctl\", key = \"vm.nr_hugepages\", value_of = \"postgres.work_mem\" }]\n";
    let rules = RuleSet::from_texts([("a/tcp.toml", format!("schema = 1\nlayer = \"tcp\"\n{setting}").as_str())]).unwrap();
    let plan = plan(&rules, &facts, &findings, &Root::new(folder.path()));
    let [only] = plan.groups[0].changes.as_slice() else { panic!("{plan:?}") };
    assert_eq!((only.server.as_deref(), only.set.as_ref().map(|set| set.to.as_str())), (Some("a"), Some("4096")));
    assert!(plan.apart.len() == 1 && plan.apart[0].why.ends_with("for a"), "{:?}", plan.apart);
}

#[test]
fn a_value_that_no_file_changes_is_changed_where_it_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = Rules::default();
    for key in ["fsync", "synchronous_commit", "full_page_writes"] {
        rules.add(key, "", "reload", &format!("{{ kind = \"postgres\", key = \"{key}\", value = \"on\" }}"), "");
    }
    let mut facts = linux();
    facts.put("postgres.fsync", false, "its command line");
    facts.put("postgres.synchronous_commit", false, "ALTER DATABASE mill");
    facts.put("postgres.full_page_writes", false, "ALTER DATABASE mill");
    let findings = ["fsync", "full_page_writes", "synchronous_commit"].map(|rule| finding(rule, None));
    let plan = plan(&rules, &facts, &findings, &Root::new(folder.path()));
    assert_eq!(plan.apart, []);
    let [sessions, restart] = plan.groups.as_slice() else { panic!("{plan:?}") };
    let [_, Part::Run(run)] = [&sessions.changes[0].parts[0], &sessions.changes[1].parts[0]] else { panic!("{sessions:?}") };
    assert_eq!(run.lines, ["ALTER DATABASE mill RESET synchronous_commit;"]);
    assert_eq!(run.undo, ["ALTER DATABASE mill SET synchronous_commit = 'off';"]);
    assert_eq!(restart.activation, Activation::DbRestart);
    let [Part::ByHand { text }] = restart.changes[0].parts.as_slice() else { panic!("{restart:?}") };
    assert!(text.contains("on the server's command line") && text.contains("restart the server"), "{text}");
}

#[test]
fn what_alter_system_had_set_is_what_a_revert_sets_again() {
    let folder = tempfile::tempdir().unwrap();
    let setting = "{ kind = \"postgres\", key = \"max_wal_size\", value = \"8GB\" }";
    let undo = |facts: &Facts| {
        let plan = planned(folder.path(), facts, None, setting);
        let [Part::Run(run)] = parts(&plan) else { panic!("{plan:?}") };
        run.undo[0].clone()
    };
    let mut facts = linux();
    facts.put("postgres.max_wal_size", 256_i64 << 20, "/data/postgresql.auto.conf:3");
    assert_eq!(undo(&facts), "ALTER SYSTEM SET max_wal_size = '256MB';");
    // A value that waits for a restart is not in force, but it is in the file.
    facts.put("postgres.config_file", "/data/postgresql.conf", "a test");
    facts.put("postgres.data_directory", "/data", "a test");
    write(folder.path(), "data/postgresql.auto.conf", "work_mem = '1MB'\nmax_wal_size = '300''MB'\n");
    assert_eq!(undo(&facts), "ALTER SYSTEM SET max_wal_size = '300''MB';");
    let mut other = linux();
    other.put("postgres.max_wal_size", 256_i64 << 20, "/data/postgresql.conf:3");
    assert_eq!(undo(&other), "ALTER SYSTEM RESET max_wal_size;");
}

#[test]
fn of_a_server_that_does_not_run_the_line_to_edit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = Rules::default();
    rules.add("one", "", "reload", "{ kind = \"postgres\", key = \"fsync\", value = \"on\" }", "");
    rules.add("two", "", "reload", "{ kind = \"postgres\", key = \"max_wal_size\", value = \"8GB\" }", "");
    let mut facts = linux();
    let config = "/etc/postgresql/15/stopped/postgresql.conf";
    let of_server = server(&mut facts, "a", Some(config));
    facts.servers[0].state = ServerState::Stopped;
    facts.servers[0].facts.put("postgres.fsync", false, &format!("{config}:207"));
    let findings = ["one", "two"].map(|rule| Finding { rule: rule.into(), ..of_server.clone() });
    let text = render(&plan(&rules, &facts, &findings, &Root::new(folder.path())));
    assert!(text.contains(&format!("1. in {config}, line 207: fsync = 'on' (the server does not run;")), "{text}");
    assert!(text.contains(&format!("2. in {config}: max_wal_size = '8GB' (the server")), "{text}");
    assert!(!text.contains("ALTER SYSTEM"), "{text}");
}

#[test]
fn a_contest_about_one_kind_of_file_system_does_not_hold_up_a_change_on_another() {
    let folder = tempfile::tempdir().unwrap();
    let rules = tune::rules::built_in().unwrap();
    for (fstype, planned) in [("ext4", true), ("xfs", true), ("zfs", false), ("nfs4", false)] {
        let mut facts = linux();
        facts.put_of("mount", "/", "fstype", fstype, "/proc/mounts");
        let of_server = server(&mut facts, "a", Some("/etc/a/postgresql.conf"));
        facts.servers[0].facts.put("postgres.full_page_writes", false, "a test");
        let finding = Finding { rule: "postgres-full-page-writes-on".into(), ..of_server };
        let plan = plan(&rules, &facts, &[finding], &Root::new(folder.path()));
        assert_eq!((plan.groups.len(), plan.apart.len()), if planned { (1, 0) } else { (0, 1) }, "{fstype}: {plan:?}");
    }
}

#[test]
fn of_several_settings_of_a_rule_those_that_have_their_value_are_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let two = "{ kind = \"postgres\", key = \"autovacuum\", value = \"on\" }, { kind = \"postgres\", key = \"track_counts\", value = \"on\" }";
    let keys = |persistent: bool| {
        let mut facts = linux();
        facts.put("postgres.autovacuum", false, "a test");
        facts.put("postgres.track_counts", true, "a test");
        facts.put("persistent.postgres.track_counts", persistent, "a test");
        let plan = planned(folder.path(), &facts, None, two);
        plan.groups[0].changes.iter().map(|change| change.set.as_ref().unwrap().key.clone()).collect::<Vec<_>>()
    };
    assert_eq!(keys(true), ["autovacuum"]);
    assert_eq!(keys(false), ["autovacuum", "track_counts"]);
}
