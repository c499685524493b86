//! Captures: any bytes as an archive, and as the input of each parser. Reading ends, within bounds, whatever it finds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tune::collect::{capture_bytes, redacted, site, text_facts};
use tune::facts::Facts;

/// Systems and names that choose a parser; the first byte of an input picks one.
const NAMES: &[(&str, &str)] = &[
    ("Linux", "/etc/fstab"),
    ("Linux", "/proc/self/mountinfo"),
    ("Linux", "/proc/self/mountstats"),
    ("Linux", "/etc/sysctl.conf"),
    ("Linux", "/etc/modprobe.d/a.conf"),
    ("Linux", "/etc/security/limits.conf"),
    ("Linux", "/etc/multipath.conf"),
    ("Linux", "/etc/netplan/a.yaml"),
    ("Linux", "/etc/oranfstab"),
    ("Linux", "sysctl -a"),
    ("Linux", "ip address"),
    ("Linux", "ethtool -k eth0"),
    ("Linux", "multipath -ll"),
    ("Linux", "iscsiadm -m session -P 3"),
    ("Linux", "sfdisk -d"),
    ("Linux", "lsblk -P"),
    ("Linux", "rpm -qa"),
    ("Linux", "mount"),
    ("Linux", "nfsstat -m"),
    ("Linux", "grep -H . /sys"),
    ("SunOS", "/etc/system"),
    ("SunOS", "/etc/vfstab"),
    ("SunOS", "/etc/release"),
    ("SunOS", "ifconfig -a"),
    ("SunOS", "mount -v"),
    ("AIX", "lsattr -El hdisk0"),
    ("AIX", "vmo -L"),
    ("AIX", "/etc/filesystems"),
    ("AIX", "mount"),
    ("AIX", "lslpp -Lc"),
    ("HP-UX", "kctune -v"),
    ("HP-UX", "/etc/rc.config.d/nddconf"),
    ("HP-UX", "/etc/rc.config.d/hpigelanconf"),
    ("HP-UX", "vgdisplay -v"),
    ("ONTAP", "options"),
    ("ONTAP", "vol status -v"),
    ("ONTAP", "ifconfig -a"),
    ("ONTAP", "lun show -v"),
    ("ONTAP", "volume show"),
    ("ONTAP", "vserver nfs show"),
    ("", "/pg_settings.csv"),
    ("", "/postgresql.conf"),
    ("", "/my.cnf"),
    ("", "/initA.ora"),
    ("", "sqlplus show parameter"),
    ("", "sqlplus v$dnfs_channels"),
];

fuzz_target!(|input: &[u8]| {
    let Some((first, rest)) = input.split_first() else { return };
    match usize::from(*first) {
        choice if choice < NAMES.len() => {
            let (system, name) = NAMES[choice];
            let facts = text_facts(system, name, rest);
            assert!(facts.remarks.len() <= 501);
        }
        choice if choice < 128 => {
            let text = String::from_utf8_lossy(rest);
            site(&text, &mut Facts::default());
            assert_eq!(redacted("/etc/iscsi/iscsid.conf", &text).matches('\n').count(), text.matches('\n').count());
        }
        _ => drop(capture_bytes(rest, "fuzzed")),
    }
});
