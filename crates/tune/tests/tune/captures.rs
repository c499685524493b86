//! Captures of the reports' hosts give the facts that the reports print, and no unexpected remarks.

use std::path::PathBuf;

use tune::collect::{CaptureInfo, capture};
use tune::facts::{Facts, Value};

fn read(name: &str) -> (Facts, CaptureInfo) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name);
    capture(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// The value of a fact by its name: `mount /u01: rsize` for an attribute of a thing.
fn of(facts: &Facts, name: &str) -> Option<Value> {
    match name.split_once(' ') {
        Some((kind, rest)) => {
            let (thing, attribute) = rest.rsplit_once(": ").unwrap();
            facts.value_of(kind, thing, attribute).cloned()
        }
        None => facts.value(name).cloned(),
    }
}

fn holds(name: &str, expected: &[(&str, Value)]) {
    let (facts, _) = read(name);
    let mut wrong = Vec::new();
    for (fact, value) in expected {
        let found = of(&facts, fact);
        if found.as_ref() != Some(value) {
            wrong.push(format!("{fact} is {found:?}, not {value:?}"));
        }
    }
    assert!(wrong.is_empty(), "{name}: {wrong:#?}\nremarks: {:#?}\nunknown: {:#?}", facts.remarks, facts.unknown);
}

#[test]
fn solaris_before_and_after_its_report() {
    holds(
        "tr-3322-tuned",
        &[
            ("os.family", "solaris".into()),
            ("os.release", "5.9".into()),
            ("os.word_bits", 64.into()),
            ("solaris.update", 5.into()),
            ("ontap7.option.nfs.tcp.recvwindowsize", 65536.into()),
            ("mount /oralog: forcedirectio", true.into()),
            ("mount /oraarch: forcedirectio", false.into()),
            ("mount /oradata: rsize", 32768.into()),
            ("mount /oradata: vers", "3".into()),
            ("mount /oradata: timeo", 600.into()),
            ("mount /oradata: server", "filer1-e4a".into()),
            ("nic ce0: mtu", 9000.into()),
            ("nic ce0: persistent_mtu", 9000.into()),
            ("ontap_if e4a: mtu", 9000.into()),
            ("solaris.driver.ce.accept-jumbo", 1.into()),
        ],
    );
    let (facts, info) = read("tr-3322-untuned");
    assert_eq!(info.system, "SunOS");
    assert_eq!(of(&facts, "mount /oralog: forcedirectio"), Some(false.into()));
}

#[test]
fn aix_before_and_after_its_report() {
    holds(
        "tr-3408-tuned",
        &[
            ("os.family", "aix".into()),
            ("os.release", "5.3".into()),
            ("aix.technology_level", 4.into()),
            ("os.word_bits", 64.into()),
            ("hw.memory_bytes", (4_194_304_i64 << 10).into()),
            ("mount /oradata: cio", true.into()),
            ("mount /oradata: timeo", 600.into()),
            ("hdisk hdisk5: queue_depth", 128.into()),
            ("hdisk hdisk5: max_transfer", 0x40000.into()),
            ("en en2: mtu", 9000.into()),
            ("aix.aio0.maxservers", 250.into()),
            ("aix.aio0.autoconfig", "available".into()),
            ("aix.apar.IY58143", true.into()),
            ("aix.fileset.NetApp.SAN_toolkit.sanlun", "1.3.0.0".into()),
            ("ontap_if e10: flowcontrol", "full".into()),
        ],
    );
    let (facts, _) = read("tr-3408-tuned");
    assert_eq!(of(&facts, "en en2: alias4"), None, "an empty value is not its description");
}

#[test]
fn rhel_4_before_and_after_its_report() {
    holds(
        "tr-3495-tuned",
        &[
            ("os.family", "linux".into()),
            ("os.distribution", "rhel".into()),
            ("os.distribution_version", "4.4".into()),
            ("os.release", "2.6.9-42.ELsmp".into()),
            ("sysctl.sunrpc.tcp_slot_table_entries", 128.into()),
            ("mount /data01: rsize", 32768.into()),
            ("mount /data01: vers", "3".into()),
            ("partition sdb1: start_sector", 64.into()),
            ("initscript.netfs.sysctl_first", true.into()),
            ("ontap7.option.iscsi.iswt.max_ios_per_session", 256.into()),
            ("ontap_aggregate aggr0: raid_size", 28.into()),
            ("ontap_if e0: iscsi", false.into()),
            ("ontap_volume data01: nosnap", true.into()),
        ],
    );
}

#[test]
fn rhel_5_before_and_after_its_report() {
    holds(
        "tr-3700-tuned",
        &[
            ("os.distribution_version", "5.1".into()),
            ("oracle.version", "11.1.0.6.0".into()),
            ("oracle.dnfs.enabled", true.into()),
            ("oracle.dnfs.channels", 8.into()),
            ("ontap7.fcp.cfmode", "SINGLE_IMAGE".into()),
            ("ontap7.version", "7.3".into()),
            ("pam.login.limits", true.into()),
            ("ulimit.oracle.nofile", 65536.into()),
            ("service.multipathd", "enabled".into()),
            ("nic eth2: mtu", 9000.into()),
            ("nic eth2: persistent_mtu", 9000.into()),
            ("nic eth2: rx_pause", false.into()),
            ("oranfstab_mount /oracle/data1: path_count", 4.into()),
            ("mount /oracle/data1: oranfstab", true.into()),
            ("mount /oracle/data1: role", "data".into()),
            ("ontap_aggregate aggr1: raid_size", 20.into()),
            ("initscript.netfs.sysctl_first", true.into()),
        ],
    );
}

#[test]
fn hpux_before_and_after_its_report() {
    holds(
        "tr-3557-tuned",
        &[
            ("os.family", "hpux".into()),
            ("os.release", "11.23".into()),
            ("hw.cpu_count", 2.into()),
            ("hw.memory_bytes", (6132_i64 << 20).into()),
            ("hpux.kctune.dbc_max_pct", 25.into()),
            ("hpux.kctune.max_async_ports", 27000.into()),
            ("hpux.bundle.HWEnable11i", "B.11.23.0712.070".into()),
            ("hpux.ndd.tcp.tcp_recv_hiwater_def", 16_777_216.into()),
            ("hpux.nfsconf.NUM_NFSIOD", 16.into()),
            ("lan lan1: driver", "igelan".into()),
            ("lan lan1: vmtu", 32160.into()),
            ("lan lan1: send_cko", true.into()),
            ("lan lan1: mtu", 9000.into()),
            ("mount /mnt/oradata1: forcedirectio", true.into()),
            ("mount /mnt/oradata1: intr", false.into()),
            ("mount /mnt/oradata1: server_address", "192.168.10.10".into()),
        ],
    );
    let (facts, _) = read("tr-3557-tuned");
    assert!(matches!(of(&facts, "hpux.patch"), Some(Value::List(patches)) if patches.contains(&"PHCO_32426".into())));
}

#[test]
fn no_capture_of_ours_makes_a_parser_stumble() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut stumbles = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let (facts, info) = read(&name);
        assert!(!info.host.is_empty() && !info.time.is_empty(), "{name}");
        stumbles.extend(
            facts.remarks.iter().filter(|remark| remark.contains("makes no sense")).map(|remark| format!("{name}: {remark}")),
        );
    }
    assert!(stumbles.is_empty(), "{stumbles:#?}");
}
