//! A capture may come from anyone. Reading any capture ends, reports what it skipped, and needs
//! limited memory.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tune::collect::{CaptureError, capture, capture_bytes, redacted, site, text_facts};
use tune::facts::Facts;

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::default());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

/// The header of an entry: name, size in octal digits, type, target of a link.
fn header(name: &str, size: &str, kind: u8, link: &str) -> [u8; 512] {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0000644");
    block[124..124 + size.len()].copy_from_slice(size.as_bytes());
    block[156] = kind;
    block[157..157 + link.len()].copy_from_slice(link.as_bytes());
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn entry(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut all = header(name, &format!("{:011o}", bytes.len()), b'0', "").to_vec();
    all.extend_from_slice(bytes);
    all.resize(all.len().div_ceil(512) * 512, 0);
    all
}

const FSTAB: &[u8] = b"filer:/vol/a /u01 nfs rw,bg,hard,rsize=32768 0 0\n";

#[test]
fn entries_that_lead_out_are_named_and_skipped_and_the_rest_is_read() {
    let mut archive = entry("../../etc/fstab", FSTAB);
    archive.extend(entry("/etc/fstab", FSTAB));
    archive.extend(header("cap/files/etc/vfstab", "0", b'2', "/etc/shadow"));
    archive.extend(header("cap/files/etc/system", "0", b'3', ""));
    archive.extend(entry("cap/files/etc/fstab", FSTAB));
    archive.extend([0; 1024]);
    let (facts, _) = capture_bytes(&packed(&archive), "x.tar.gz").unwrap();
    assert_eq!(facts.value_of("mount", "/u01", "rsize"), Some(&32768.into()));
    for named in ["../../etc/fstab", "\"/etc/fstab\"", "cap/files/etc/vfstab", "cap/files/etc/system"] {
        assert!(facts.remarks.iter().any(|remark| remark.contains(named)), "{named} is not in {:?}", facts.remarks);
    }
}

#[test]
fn archives_that_grow_beyond_bounds_are_refused() {
    // Zeros compress by a factor of a thousand, text by at most a hundred.
    let zeros = packed(&vec![0; 64 << 20]);
    assert!(matches!(
        capture_bytes(&zeros, "zeros"),
        Err(CaptureError::Empty { .. } | CaptureError::Read { .. } | CaptureError::Other { .. } | CaptureError::Bomb { .. })
    ));
    let mut archive = entry("files/etc/fstab", FSTAB);
    archive.extend(header("huge", "00400000000", b'0', ""));
    archive.extend(vec![0; 64 << 20]);
    assert!(matches!(capture_bytes(&packed(&archive), "huge"), Err(CaptureError::Bomb { .. })));
    let many: Vec<u8> = (0..200_100).flat_map(|_| header("a", "0", b'0', "")).collect();
    assert!(matches!(capture_bytes(&many, "many"), Err(CaptureError::Bomb { .. })));
}

#[test]
fn an_archive_that_breaks_off_gives_what_was_read() {
    let mut archive = entry("files/etc/fstab", FSTAB);
    archive.extend(&entry("files/etc/sysctl.conf", &[b'#'; 2000])[..900]);
    let (facts, _) = capture_bytes(&archive, "cut").unwrap();
    assert!(facts.things["mount"].contains_key("/u01"));
    assert!(facts.remarks.iter().any(|remark| remark.contains("breaks off")), "{:?}", facts.remarks);
}

#[test]
fn formats_that_are_not_unpacked_are_named() {
    for (bytes, by) in [(&b"\xfd7zXZ\0...."[..], "xz"), (b"BZh91AY", "bzip2"), (b"PK\x03\x04....", "unzip")] {
        let fault = capture_bytes(bytes, "x").unwrap_err();
        assert!(matches!(&fault, CaptureError::Packed { by: named, .. } if *named == by), "{fault}");
    }
    assert!(matches!(capture_bytes(b"", "empty"), Err(CaptureError::Empty { .. })));
    assert!(matches!(capture_bytes(b"hello", "text"), Err(CaptureError::Other { .. })));
    // The error quotes no byte of the file.
    let text = "root:x:0:0:root:/root:/bin/bash\n".repeat(40);
    let error = capture_bytes(text.as_bytes(), "passwd").unwrap_err();
    let said = format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
    assert!(said.contains("neither a directory nor a tar archive") && !said.contains("root"), "{said}");
}

#[test]
fn links_of_a_folder_that_lead_out_and_things_that_are_no_files_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, cap) = (dir.path().join("outside"), dir.path().join("cap"));
    std::fs::create_dir_all(cap.join("etc/sysctl.d")).unwrap();
    std::fs::write(&outside, "vm.swappiness = 1\n").unwrap();
    std::fs::write(cap.join("etc/fstab"), FSTAB).unwrap();
    std::os::unix::fs::symlink(&outside, cap.join("etc/sysctl.conf")).unwrap();
    std::os::unix::fs::symlink("..", cap.join("etc/up")).unwrap();
    std::fs::write(cap.join("etc/sysctl.d/real.conf"), "vm.dirty_ratio = 5\n").unwrap();
    std::os::unix::fs::symlink("sysctl.d/real.conf", cap.join("etc/mnttab")).unwrap();
    // A pipe without a writer would block its reader for ever.
    let made = std::process::Command::new("mkfifo").arg(cap.join("etc/vfstab")).status().unwrap();
    assert!(made.success());
    let (facts, _) = capture(&cap).unwrap();
    assert_eq!(facts.value("persistent.sysctl.vm.swappiness"), None);
    // The link is in place of a file that is read later and may set anything.
    assert_eq!(facts.value("persistent.sysctl.vm.dirty_ratio"), None);
    assert!(facts.unknown["persistent.sysctl.vm.dirty_ratio"].contains("/etc/sysctl.conf"), "{:?}", facts.unknown);
    for named in ["etc/sysctl.conf", "etc/vfstab"] {
        assert!(facts.remarks.iter().any(|remark| remark.contains(named)), "{named} is not in {:?}", facts.remarks);
    }
}

/// Every name that a parser reads, with its system.
const NAMES: &[(&str, &str)] = &[
    ("Linux", "/etc/fstab"),
    ("Linux", "/proc/self/mountinfo"),
    ("Linux", "/proc/self/mountstats"),
    ("Linux", "/proc/mounts"),
    ("Linux", "/etc/sysctl.conf"),
    ("Linux", "/etc/modprobe.d/a.conf"),
    ("Linux", "/etc/security/limits.conf"),
    ("Linux", "/etc/iscsi/iscsid.conf"),
    ("Linux", "/etc/multipath.conf"),
    ("Linux", "/etc/os-release"),
    ("Linux", "/etc/redhat-release"),
    ("Linux", "/proc/meminfo"),
    ("Linux", "/proc/cmdline"),
    ("Linux", "/etc/oranfstab"),
    ("Linux", "/etc/netplan/a.yaml"),
    ("Linux", "/etc/network/interfaces"),
    ("Linux", "/proc/net/route"),
    ("Linux", "/etc/hosts"),
    ("Linux", "sysctl -a"),
    ("Linux", "ip address"),
    ("Linux", "ip route show"),
    ("Linux", "ethtool -k eth0"),
    ("Linux", "ethtool eth0"),
    ("Linux", "multipath -ll"),
    ("Linux", "iscsiadm -m session -P 3"),
    ("Linux", "iscsiadm -m node -o show"),
    ("Linux", "sfdisk -d /dev/sda"),
    ("Linux", "lsblk -P"),
    ("Linux", "rpm -qa"),
    ("Linux", "dpkg -l"),
    ("Linux", "mount"),
    ("Linux", "nfsstat -m"),
    ("Linux", "grep -H . /sys"),
    ("SunOS", "/etc/system"),
    ("SunOS", "/etc/vfstab"),
    ("SunOS", "/etc/release"),
    ("SunOS", "/etc/project"),
    ("SunOS", "/kernel/drv/ce.conf"),
    ("SunOS", "/etc/hostname.ce0"),
    ("SunOS", "ifconfig -a"),
    ("SunOS", "ndd -get /dev/tcp tcp_recv_hiwat"),
    ("SunOS", "mount -v"),
    ("SunOS", "ipadm show-prop"),
    ("SunOS", "modinfo"),
    ("SunOS", "ps -efL"),
    ("AIX", "lsattr -El hdisk0"),
    ("AIX", "vmo -L"),
    ("AIX", "no -a"),
    ("AIX", "/etc/filesystems"),
    ("AIX", "/etc/security/limits"),
    ("AIX", "mount"),
    ("AIX", "lslpp -Lc"),
    ("AIX", "oslevel -s"),
    ("AIX", "instfix -i"),
    ("AIX", "/etc/tunables/nextboot"),
    ("AIX", "lsdev -Cc disk"),
    ("AIX", "prtconf"),
    ("HP-UX", "kctune -v"),
    ("HP-UX", "kctune"),
    ("HP-UX", "/stand/system"),
    ("HP-UX", "/etc/rc.config.d/nddconf"),
    ("HP-UX", "/etc/rc.config.d/hpigelanconf"),
    ("HP-UX", "swlist -l product"),
    ("HP-UX", "ioscan -fnkC lan"),
    ("HP-UX", "netstat -in"),
    ("HP-UX", "lanadmin -x 0"),
    ("HP-UX", "vgdisplay -v"),
    ("HP-UX", "machinfo"),
    ("ONTAP", "options"),
    ("ONTAP", "vol options a"),
    ("ONTAP", "vol status -v"),
    ("ONTAP", "aggr status -r"),
    ("ONTAP", "ifconfig -a"),
    ("ONTAP", "/etc/rc"),
    ("ONTAP", "lun show -v"),
    ("ONTAP", "igroup show"),
    ("ONTAP", "version"),
    ("ONTAP", "volume show"),
    ("ONTAP", "vserver nfs show"),
    ("ONTAP", "network port show"),
    ("", "/pg_settings.csv"),
    ("", "/postgresql.conf"),
    ("", "/my.cnf"),
    ("", "mysql SHOW VARIABLES"),
    ("", "/initA.ora"),
    ("", "sqlplus show parameter"),
    ("", "sqlplus v$dnfs_channels"),
    ("", "/PG_VERSION"),
    ("x", "/nowhere"),
];

/// Texts that parsers look for, so that they continue after their first line.
const PIECES: &[&str] = &[
    "=",
    " = ",
    ":",
    "\n",
    "\n\t",
    " - ",
    " on ",
    " type ",
    " from ",
    "Flags:",
    "rw,vers=3,rsize=32768",
    "{",
    "}",
    "device {",
    "[",
    "]",
    "\"",
    "'",
    "\\040",
    ",",
    "|",
    "\t",
    "----- ----",
    "-",
    "mtu 9000",
    "set ",
    "nfs:nfs3_nra",
    "tunable ",
    "Tunable",
    "Current Value",
    "TRANSPORT_NAME[0]=tcp",
    "NDD_NAME[0]=a",
    "server: f",
    "path: 1",
    "export: /a mount: /b",
    "Aggregate a (online, raid_dp)",
    "data",
    "online",
    "Release 7.2",
    "inet 1.2.3.4/33",
    "name | setting | unit",
    "8kB",
    "99999999999999999999",
    "-9223372036854775808",
    "0x",
    "size=10G",
    "policy='x'",
    "dm-0 A,B",
    "1:0:0:1",
    "xprt: tcp 1 2 3 4 5 6 7 8 9 10 11",
    "device x mounted on /y with fstype nfs",
    "\u{fc}",
    "\r\n",
    "*",
    "#",
    "default",
    "dev eth0",
    "1.5G",
    "s9s_u5wos_08b Solaris 9",
    "5300-03",
    "-El",
    "/sys/block/a/b:c",
    "PostgreSQL 17.2",
];

fn look(system: &str, name: &str, bytes: &[u8]) -> Facts {
    let facts = text_facts(system, name, bytes);
    assert!(facts.remarks.len() <= 501, "remarks without end");
    facts
}

#[test]
fn every_parser_survives_every_piece_and_any_bytes() {
    sim::sweep(60, |_, mut random| {
        for (system, name) in NAMES {
            let mut text = Vec::new();
            for _ in 0..random.below(60) {
                match random.below(8) {
                    0 => {
                        let count = random.index(12);
                        text.extend(random.bytes(count));
                    }
                    1 => text.extend(random.below(100_000).to_string().bytes()),
                    2 => text.push(b'\n'),
                    3 => text.push(b' '),
                    _ => text.extend(random.pick(PIECES).unwrap().bytes()),
                }
            }
            look(system, name, &text);
        }
    });
}

#[test]
fn captures_with_bytes_changed_cut_and_doubled_are_read_or_refused() {
    let mut archive =
        entry("MANIFEST", b"millrace-capture 1\nhost a\nsystem Linux\nentry commands/sysctl-a.txt\t0\troot\tsysctl -a\n");
    archive.extend(entry("commands/sysctl-a.txt", b"vm.swappiness = 60\nnet.ipv4.tcp_rmem = 4096\t87380\t6291456\n"));
    archive.extend(entry("files/etc/fstab", FSTAB));
    archive.extend(entry("site.toml", b"[site]\nrac = true\n[mount.\"/u01\"]\nrole = \"data\"\n"));
    archive.extend([0; 1024]);
    let whole = packed(&archive);
    let (facts, info) = capture_bytes(&whole, "x").unwrap();
    assert_eq!((info.host.as_str(), info.system.as_str()), ("a", "Linux"));
    assert_eq!(facts.value("sysctl.net.ipv4.tcp_rmem.3"), Some(&6_291_456.into()));
    assert_eq!(facts.value_of("mount", "/u01", "role"), Some(&"data".into()));
    sim::sweep(400, |_, mut random| {
        let mut bytes = if random.chance(1, 2) { whole.clone() } else { archive.clone() };
        for _ in 0..=random.below(4) {
            let at = random.index(bytes.len());
            match random.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => {
                    let piece = bytes[at..].to_vec();
                    bytes.extend(piece.iter().take(2048));
                }
                _ => bytes[at] ^= 1 << random.below(8),
            }
        }
        // Both results are right. The call only has to return.
        let _ = capture_bytes(&bytes, "mutated");
    });
}

#[test]
fn wrong_encodings_and_binary_files_are_remarked() {
    let facts = look("Linux", "/etc/sysctl.conf", b"# caf\xe9\nvm.swappiness = 10\n");
    assert_eq!(facts.value("persistent.sysctl.vm.swappiness"), Some(&10.into()));
    assert!(
        facts.remarks.iter().any(|remark| remark.contains("/etc/sysctl.conf:1") && remark.contains("UTF-8")),
        "{:?}",
        facts.remarks
    );
    let facts = look("Linux", "/etc/sysctl.conf", b"\x7fELF\0\0\0");
    assert!(facts.remarks.iter().any(|remark| remark.contains("binary")), "{:?}", facts.remarks);
    assert!(facts.unknown.contains_key("sysctl."), "{:?}", facts.unknown);
}

#[test]
fn a_path_that_is_not_there_is_an_error() {
    assert!(matches!(capture(Path::new("/nonexistent/capture")), Err(CaptureError::Read { .. })));
}

#[test]
fn secrets_and_site_files_of_any_text_end_and_lines_stay() {
    const WORDS: &[&str] = &[
        "password",
        "=",
        ": ",
        " ",
        "\u{fc}",
        "psk",
        "://",
        "@",
        "user",
        "\"",
        "'",
        ",",
        "\t",
        "|",
        "x",
        "[site]\n",
        "[mount.\"/a\"]\n",
        "a = 1\n",
        "\n",
        "PASSWD",
        "chap",
    ];
    sim::sweep(2000, |_, mut random| {
        let text: String = (0..random.below(40)).map(|_| *random.pick(WORDS).unwrap()).collect();
        for origin in ["/etc/iscsi/iscsid.conf", "/etc/oranfstab", "sysctl -a"] {
            let kept = redacted(origin, &text);
            assert_eq!(kept.matches('\n').count(), text.matches('\n').count(), "{text:?} became {kept:?}");
        }
        site(&text, &mut Facts::default());
    });
}
