//! Collecting from a host, and the captures that are written: they contain no secrets and give the
//! same facts when read.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use tune::collect::runner::{Ran, Runner};
use tune::collect::{Database, LiveOptions, Row, capture, database_text, live, write_capture};
use tune::facts::{Facts, Value};

/// Recorded outputs by command line. Every other command is absent. The second field records the
/// commands that were run.
struct Recorded(Vec<(&'static str, &'static str)>, Mutex<Vec<String>>);

impl Runner for Recorded {
    fn run(&self, line: &[&str]) -> Ran {
        let line = line.join(" ");
        self.1.lock().unwrap().push(line.clone());
        match self.0.iter().find(|(known, _)| *known == line) {
            Some((_, text)) => Ran::Ended(0, text.as_bytes().to_vec(), String::new()),
            None => Ran::Not("there is no such command".to_owned()),
        }
    }
}

fn put(root: &Path, path: &str, text: &str) {
    let at = root.join(path);
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    std::fs::write(at, text).unwrap();
}

/// A host in a folder.
fn host(root: &Path) -> LiveOptions {
    put(root, "proc/sys/vm/swappiness", "60\n");
    put(root, "proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    put(root, "proc/sys/kernel/hostname", "db1\n");
    put(
        root,
        "proc/self/mountinfo",
        "40 22 0:50 / /u02 rw,relatime shared:1 - nfs 10.0.1.5:/vol/a rw,vers=3,rsize=65536,wsize=65536,hard,proto=tcp,timeo=600,retrans=2,sec=sys,mountaddr=10.0.1.5,local_lock=none,addr=10.0.1.5\n",
    );
    put(root, "etc/fstab", "10.0.1.5:/vol/a /u02 nfs rw,bg,hard 0 0\n//nas/x /x cifs user=a,password=hunter2 0 0\n");
    put(root, "etc/sysctl.d/10-a.conf", "vm.swappiness = 1\n");
    put(
        root,
        "etc/iscsi/iscsid.conf",
        "node.session.cmds_max = 128\nnode.session.auth.username = hunter2\nnode.session.auth.password = hunter2\n",
    );
    put(root, "etc/oranfstab", "server: f1\npath: 10.0.1.5\nexport: /vol/a mount: /u02\nmount_user: hunter2\n");
    put(root, "sys/class/net/eth1/mtu", "9000\n");
    put(root, "sys/class/net/eth1/device/vendor", "x");
    put(root, "sys/block/sdb/queue/scheduler", "[mq-deadline] none\n");
    put(root, "sys/block/sdb/device/vendor", "NETAPP  \n");
    put(root, "sys/block/sdb/sdb1/start", "2048\n");
    put(root, "sys/module/sunrpc/parameters/tcp_max_slot_table_entries", "65536\n");
    put(root, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    let recorded = vec![
        ("uname -a", "Linux db1 6.1.0-18-amd64 #1 SMP x86_64 GNU/Linux\n"),
        ("ip address", "3: eth1: <UP> mtu 9000 qdisc mq\n    inet 10.0.1.9/24 brd 10.0.1.255 scope global eth1\n"),
        ("ethtool -k eth1", "Features for eth1:\ntcp-segmentation-offload: on\n"),
    ];
    let mut options = LiveOptions::below(root);
    options.runner = Box::new(Recorded(recorded, Mutex::new(Vec::new())));
    options.time = Some("2026-11-21T20:00:00Z".to_owned());
    options.fetched.push(database_text(
        Database::Postgres,
        "localhost:5432",
        &[
            Row {
                name: "shared_buffers".to_owned(),
                value: "16384".to_owned(),
                unit: Some("8kB".to_owned()),
                pending_restart: Some(true),
                source: Some("/etc/postgresql/17/main/postgresql.conf:12".to_owned()),
                ..Row::default()
            },
            Row { name: "primary_conninfo".to_owned(), value: "host=a password=hunter2".to_owned(), ..Row::default() },
        ],
    ));
    options
}

fn check(facts: &Facts) {
    let expected: &[(&str, Value)] = &[
        ("os.family", "linux".into()),
        ("os.release", "6.1.0-18-amd64".into()),
        ("sysctl.vm.swappiness", 60.into()),
        ("sysctl.net.ipv4.tcp_rmem.3", 6_291_456.into()),
        ("persistent.sysctl.vm.swappiness", 1.into()),
        ("iscsid.node.session.cmds_max", 128.into()),
        ("module.sunrpc.tcp_max_slot_table_entries", 65536.into()),
        ("thp.enabled", "madvise".into()),
        ("postgres.shared_buffers", (128_i64 << 20).into()),
        ("postgres.pending_restart", Value::List(vec!["shared_buffers".into()])),
    ];
    for (name, value) in expected {
        assert_eq!(facts.value(name), Some(value), "{name}; remarks {:#?}", facts.remarks);
    }
    for (kind, thing, attribute, value) in [
        ("mount", "/u02", "rsize", Value::Int(65536)),
        ("mount", "/u02", "vers", "3".into()),
        ("mount", "/u02", "hard", true.into()),
        ("mount", "/u02", "oranfstab", true.into()),
        ("mount", "/u02", "bg", true.into()),
        ("nic", "eth1", "mtu", 9000.into()),
        ("nic", "eth1", "tso", true.into()),
        ("nic", "eth1", "storage", true.into()),
        ("block", "sdb", "scheduler", "mq-deadline".into()),
        ("block", "sdb", "vendor", "NETAPP".into()),
        ("partition", "sdb1", "start_sector", 2048.into()),
        ("setting", "sysctl vm.swappiness", "running", 60.into()),
        ("setting", "sysctl vm.swappiness", "persistent", 1.into()),
    ] {
        assert_eq!(facts.value_of(kind, thing, attribute), Some(&value), "{kind} {thing}: {attribute}");
    }
}

#[test]
fn a_host_below_a_folder_is_read_with_recorded_commands() {
    let dir = tempfile::tempdir().unwrap();
    check(&live(&host(dir.path())));
}

#[test]
fn captures_of_each_form_hold_the_same_facts_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let options = host(&dir.path().join("root"));
    for name in ["cap", "cap.tar", "cap.tar.gz"] {
        let path = dir.path().join(name);
        write_capture(&path, &options).unwrap();
        let (facts, info) = capture(&path).unwrap();
        assert_eq!((info.host.as_str(), info.system.as_str(), info.time.as_str()), ("db1", "Linux", "2026-11-21T20:00:00Z"));
        check(&facts);
        assert!(write_capture(&path, &options).is_err(), "{name} was overwritten");
    }
    let found = Command::new("grep").args(["-r", "hunter2"]).arg(dir.path().join("cap")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    let manifest = std::fs::read_to_string(dir.path().join("cap/MANIFEST")).unwrap();
    assert!(manifest.starts_with("millrace-capture 2\nhost db1\nsystem Linux\ntime 2026-11-21T20:00:00Z\n"), "{manifest}");
    let absent = manifest.lines().find(|line| line.ends_with("\tmultipath -l")).unwrap();
    assert!(absent.contains("\t127\t"), "{absent}");
    // Other programs can read the archive too.
    let listed = Command::new("tar").arg("tzf").arg(dir.path().join("cap.tar.gz")).output().unwrap();
    assert!(listed.status.success() && String::from_utf8_lossy(&listed.stdout).contains("cap/MANIFEST"));
}

fn collect_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/collect/collect.sh")
}

#[test]
fn the_script_is_plain_sh_as_old_systems_know_it() {
    assert!(Command::new("sh").arg("-n").arg(collect_script()).status().unwrap().success());
    let text = std::fs::read_to_string(collect_script()).unwrap();
    // The shell of old Solaris has none of these.
    let (before, awk) = text.split_once("\nredacting='\n").unwrap();
    let text = format!("{before}{}", awk.split_once("\n'\n").unwrap().1);
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    for newer in ["$(", "[[", "local ", "function ", "\nexport PATH=", "if ! ", "<<<", "&>"] {
        assert!(!code.contains(newer), "the script has {newer:?}");
    }
}

#[test]
fn the_script_gives_facts_and_leaves_out_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let (root, out) = (dir.path().join("root"), dir.path().join("cap"));
    let _ = host(&root);
    let ran = Command::new("sh").arg(collect_script()).arg(&out).env("MILLRACE_ROOT", &root).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let found = Command::new("grep").args(["-r", "hunter2"]).arg(&out).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    for path in [out.clone(), dir.path().join("cap.tar.gz")] {
        let (facts, info) = capture(&path).unwrap();
        assert_eq!(info.system, "Linux");
        assert_eq!(facts.value_of("mount", "/u02", "rsize"), Some(&65536.into()), "{:#?}", facts.remarks);
        assert_eq!(facts.value_of("block", "sdb", "scheduler"), Some(&"mq-deadline".into()));
        assert_eq!(facts.value("module.sunrpc.tcp_max_slot_table_entries"), Some(&65536.into()));
        assert_eq!(facts.value("iscsid.node.session.cmds_max"), Some(&128.into()));
        assert_eq!(facts.value("persistent.sysctl.vm.swappiness"), Some(&1.into()));
    }
}

#[test]
fn the_script_collects_the_files_of_each_system_and_refuses_one_that_it_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let homes = ["etc/oratab", "var/opt/oracle/oratab"];
    let files = ["etc/filesystems", "stand/system", "etc/vfstab", "etc/fstab", "u01/dbs/initDB.ora"];
    for path in homes.iter().chain(&files) {
        let at = root.join(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, "DB:/u01:N\n").unwrap();
    }
    // The same script is run under each of its names.
    let run = |name: &str| {
        let out = dir.path().join(name.trim_end_matches(".sh"));
        let script = collect_script().with_file_name(name);
        (Command::new("sh").arg(script).arg(&out).env("MILLRACE_ROOT", &root).output().unwrap(), out)
    };
    for (name, system, file) in [
        ("aix.sh", "AIX", "etc/filesystems"),
        ("hpux.sh", "HP-UX", "stand/system"),
        ("solaris.sh", "SunOS", "etc/vfstab"),
        ("linux.sh", "Linux", "etc/fstab"),
        ("collect.sh", "Linux", "etc/fstab"),
    ] {
        let (ran, out) = run(name);
        assert!(ran.status.success() && ran.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(capture(&out).unwrap().1.system, system);
        for file in [file, "u01/dbs/initDB.ora"] {
            assert!(out.join("files").join(file).exists(), "{name}: {file}");
        }
    }
    let out = dir.path().join("refused");
    std::fs::write(root.join("uname"), "#!/bin/sh\necho Plan9\n").unwrap();
    std::fs::set_permissions(root.join("uname"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", root.display());
    let ran = Command::new("sh").arg(collect_script()).arg(&out).env("PATH", path).output().unwrap();
    assert_eq!((ran.status.code(), out.exists()), (Some(2), false));
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("does not know the system Plan9; it collects on AIX, HP-UX, Linux and SunOS"), "{said}");
}

#[test]
fn an_init_ora_counts_on_a_host_and_in_both_collectors_captures_only_without_a_server_parameter_file() {
    const OPTIONS: &str = "oracle.filesystemio_options";
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    put(&root, "etc/oratab", "DB:/u01:N\n");
    // Each installation has an example, which no instance reads.
    put(&root, "u01/dbs/init.ora", "processes = 150\n");
    put(&root, "u01/dbs/initDB.ora", "filesystemio_options = none\n");
    let seen = |label: &str| {
        let options = LiveOptions::below(&root);
        let (own, script) = (dir.path().join(format!("own-{label}")), dir.path().join(format!("script-{label}")));
        write_capture(&own, &options).unwrap();
        let mut command = Command::new("sh");
        command.arg(collect_script()).arg(&script).env("MILLRACE_ROOT", &root).env("MILLRACE_SYSTEM", "Linux");
        assert!(command.output().unwrap().status.success());
        [live(&options), capture(&own).unwrap().0, capture(&script).unwrap().0]
    };
    for facts in seen("without") {
        assert_eq!(facts.value(OPTIONS), Some(&"none".into()), "{:?}", facts.unknown);
        assert_eq!((facts.value("oracle.processes"), facts.unknown.get("oracle.")), (None, None));
    }
    put(&root, "u01/dbs/spfileDB.ora", "C\"\0\0\0*.filesystemio_options='setall'\n\0\0\0");
    for facts in seen("with") {
        assert_eq!(facts.value(OPTIONS), None, "{:?}", facts.unknown);
        assert!(facts.unknown["oracle."].contains("/u01/dbs/spfileDB.ora"), "{:?}", facts.unknown);
        assert!(facts.remarks.iter().any(|remark| remark.contains("parameters of Oracle are not known")), "{:?}", facts.remarks);
    }
}

#[test]
fn the_interface_of_the_kernels_nfs_server_is_not_a_mount() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("proc")).unwrap();
    let mounts =
        "nfsd /proc/fs/nfsd nfsd rw,relatime 0 0\nfiler:/redo /redo nfs4 rw,vers=4.2,proto=tcp 0 0\n/dev/sda1 / ext4 rw 0 0\n";
    std::fs::write(folder.path().join("proc/mounts"), mounts).unwrap();
    let (facts, _) = tune::collect::capture(folder.path()).unwrap();
    let points: Vec<&String> = facts.things["mount"].keys().collect();
    assert_eq!(points, ["/", "/redo"]);
    let judged = tune::judge::judge(&tune::rules::built_in().unwrap(), &facts);
    let texts = judged.findings.iter().map(|finding| format!("{finding:?}")).chain(judged.remarks);
    assert!(!texts.into_iter().any(|text| text.contains("nfsd")));
}
