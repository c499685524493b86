//! Captures that other tools made: support archives, plain trees, loose files, incomplete captures.
//! What is missing is reported.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tune::collect::capture;
use tune::facts::Value;

fn put(root: &Path, path: &str, text: &str) {
    let at = root.join(path);
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    std::fs::write(at, text).unwrap();
}

#[test]
fn a_support_archive_is_read_by_the_names_of_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("sosreport-db1-2026");
    put(&top, "sos_commands/kernel/sysctl_-a", "vm.swappiness = 10\nkernel.sem = 250\t32000\t100\t128\n");
    put(&top, "sos_commands/host/uname_-a", "Linux db1 5.14.0-362.el9.x86_64 #1 SMP x86_64 GNU/Linux\n");
    put(&top, "sos_commands/networking/ethtool_-k_ens1", "Features for ens1:\ntcp-segmentation-offload: off\n");
    put(
        &top,
        "sos_commands/networking/ip_-d_address",
        "2: ens1: <UP> mtu 9000 qdisc mq state UP\n    inet 10.0.0.2/24 scope global ens1\n",
    );
    put(
        &top,
        "sos_commands/networking/ip_route_show_table_all",
        "default via 10.0.9.1 dev ens2\n10.0.0.0/24 dev ens1 proto kernel\n",
    );
    put(
        &top,
        "sos_commands/multipath/multipath_-v4_-ll",
        "mpatha (3600) dm-0 NETAPP,LUN C-Mode\nsize=10G features='0' hwhandler='1 alua' wp=rw\n`-+- policy='service-time 0' prio=50\n  `- 1:0:0:1 sdb 8:16 active ready running\n",
    );
    put(&top, "sos_commands/systemd/systemctl_list-unit-files", "multipathd.service enabled enabled\n");
    put(&top, "installed-rpms", "nfs-utils-2.5.4-20.el9.x86_64    Thu Nov  9 10:00:00 2023\n");
    put(&top, "etc/redhat-release", "Red Hat Enterprise Linux release 9.3 (Plow)\n");
    put(&top, "etc/fstab", "10.0.0.5:/vol/a /u02 nfs rw,hard,nconnect=8 0 0\n");
    put(&top, "proc/meminfo", "MemTotal:       16384000 kB\nHugepagesize:       2048 kB\n");
    put(&top, "proc/self/mountinfo", "40 22 0:50 / /u02 rw - nfs 10.0.0.5:/vol/a rw,vers=3,hard,nconnect=8,addr=10.0.0.5\n");
    put(&top, "var/log/messages", "nothing of interest\n");
    let packed = dir.path().join("sos.tar.gz");
    let made = std::process::Command::new("tar")
        .arg("czf")
        .arg(&packed)
        .arg("-C")
        .arg(dir.path())
        .arg("sosreport-db1-2026")
        .status()
        .unwrap();
    assert!(made.success());
    for path in [top, packed] {
        let (facts, info) = capture(&path).unwrap();
        assert_eq!((info.host.as_str(), info.system.as_str()), ("db1", "linux"));
        let expected: &[(&str, Value)] = &[
            ("os.distribution_version", "9.3".into()),
            ("os.release", "5.14.0-362.el9.x86_64".into()),
            ("sysctl.kernel.sem.4", 128.into()),
            ("package.nfs-utils", "2.5.4-20.el9".into()),
            ("service.multipathd", "enabled".into()),
            ("hw.huge_page_bytes", (2 << 20).into()),
        ];
        for (name, value) in expected {
            assert_eq!(facts.value(name), Some(value), "{name}");
        }
        assert_eq!(facts.value_of("nic", "ens1", "tso"), Some(&false.into()));
        assert_eq!(facts.value_of("nic", "ens1", "storage"), Some(&true.into()));
        assert_eq!(facts.value_of("mount", "/u02", "nconnect"), Some(&8.into()));
        assert_eq!(facts.value_of("multipath_map", "mpatha", "path_count"), Some(&1.into()));
        assert!(facts.unknown.contains_key("iscsid."), "{:?}", facts.unknown);
    }
}

#[test]
fn loose_files_of_databases_are_recognised_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "postgresql.conf", "shared_buffers = 128MB\nwal_sync_method = fdatasync\n");
    put(dir.path(), "postgresql.auto.conf", "");
    put(
        dir.path(),
        "pg_settings.csv",
        "name,setting,unit,pending_restart\nmax_wal_size,1024,MB,f\nserver_version_num,170002,,f\n",
    );
    put(dir.path(), "my.cnf", "[mysqld]\ninnodb_flush_method = O_DIRECT\n");
    put(dir.path(), "dpkg-query-W.txt", "mariadb-server\t1:10.11.6\n");
    put(dir.path(), "initPROD.ora", "filesystemio_options=setall\nsga_target=16G\n");
    put(dir.path(), "oranfstab", "server: f\npath: 10.0.0.5\nexport: /vol/a mount: /u02\n");
    let (facts, _) = capture(dir.path()).unwrap();
    assert_eq!(facts.value("postgres.version"), Some(&170_002.into()));
    assert_eq!(facts.value("postgres.max_wal_size"), Some(&(1_i64 << 30).into()));
    assert_eq!(facts.value("postgres.wal_sync_method"), Some(&"fdatasync".into()));
    assert_eq!(facts.value("mysql.innodb_flush_method"), Some(&"O_DIRECT".into()));
    assert_eq!(facts.value("oracle.sga_bytes"), Some(&(16_i64 << 30).into()));
    assert!(facts.things.contains_key("oranfstab_path"));
    assert!(facts.unknown.contains_key("os."), "nothing here says which system it is");
}

#[test]
fn what_a_capture_could_not_get_is_unknown_for_the_reason_it_gives() {
    let dir = tempfile::tempdir().unwrap();
    put(
        dir.path(),
        "MANIFEST",
        "millrace-capture 1\nhost db1\nsystem Linux\ntime 2026-11-21T20:00:00Z\n\
         entry files/etc/iscsi/iscsid.conf\t126\tpg\t/etc/iscsi/iscsid.conf\nentry commands/multipath-l.txt\t1\tpg\tmultipath -l\n\
         entry commands/ethtool-k-eth0.txt\t127\tpg\tethtool -k eth0\nentry files/etc/fstab\t0\tpg\t/etc/fstab\nentry files/gone\t0\tpg\t/etc/sysctl.conf\n",
    );
    put(dir.path(), "files/etc/iscsi/iscsid.conf", "permission denied\n");
    put(dir.path(), "commands/multipath-l.txt", "");
    put(dir.path(), "commands/ethtool-k-eth0.txt", "there is no such command\n");
    put(dir.path(), "files/etc/fstab", "f:/a /u nfs rw 0 0\n");
    let (facts, _) = capture(dir.path()).unwrap();
    assert_eq!(facts.value("user.root"), Some(&false.into()));
    for (name, said) in [
        ("iscsid.", "permission denied"),
        ("multipath_map", "exit code 1"),
        ("nic.tso", "no such command"),
        ("sysctl.", "not collected"),
    ] {
        assert!(facts.unknown.get(name).is_some_and(|reason| reason.contains(said)), "{name}: {:#?}", facts.unknown);
    }
    assert_eq!(facts.value("iscsid.permission"), None, "a reason is no setting");
}

#[test]
fn facts_that_contradict_are_remarked_and_the_first_stays() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "commands/sysctl-a.txt", "vm.swappiness = 60\n");
    put(dir.path(), "files/proc/sys/vm/swappiness", "10\n");
    let (facts, _) = capture(dir.path()).unwrap();
    assert_eq!(facts.value("sysctl.vm.swappiness"), Some(&60.into()));
    assert!(
        facts.remarks.iter().any(|remark| remark.contains("sysctl.vm.swappiness is 60") || remark.contains("Int(60)")),
        "{:?}",
        facts.remarks
    );
}

#[test]
fn an_unknown_system_gives_what_can_be_had_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.tar.gz");
    let mut to = GzEncoder::new(Vec::new(), Compression::default());
    to.write_all(&[0; 1024]).unwrap();
    std::fs::write(&path, to.finish().unwrap()).unwrap();
    assert!(capture(&path).is_err(), "an archive of nothing");
    put(dir.path(), "cap/MANIFEST", "millrace-capture 1\nhost x\nsystem Plan9\n");
    put(dir.path(), "cap/files/home/pg/postgresql.conf", "fsync = on\n");
    put(dir.path(), "cap/files/home/pg/postgresql.auto.conf", "fsync = off\n");
    let (facts, info) = capture(&dir.path().join("cap")).unwrap();
    assert_eq!(info.system, "Plan9");
    assert_eq!(facts.value("postgres.fsync"), Some(&false.into()));
    assert!(facts.unknown.contains_key("os."));
}
