//! Several LUNs as one file system: its data lie on all of them, it is there again after `detach`
//! and `attach`, and no failed `attach` leaves a LUN attached.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::attached::{Host, MountCopy};
use crate::support::target::Target;
use crate::support::{Scratch, await_until, find_program, skip, skip_unsupported, succeed};
use serde_json::Value;
use sim::Rng;

const MIB: usize = 1 << 20;

/// Returns `None`, after a message, if this host cannot have a btrfs on Millrace's block devices.
fn host(scratch: &Scratch) -> Option<Host> {
    let host = Host::new(scratch)?;
    let _ = Command::new("modprobe").args(["-q", "btrfs"]).status();
    if !fs::read_to_string("/proc/filesystems").unwrap().contains("\tbtrfs") {
        skip_unsupported("this kernel has no btrfs");
        return None;
    }
    if find_program("mkfs.btrfs").is_none() {
        skip("mkfs.btrfs is not installed");
        return None;
    }
    Some(host)
}

/// Creates the LUNs `db0`, `db1` and so on, and returns their URLs. The second has blocks of 4096 bytes.
fn luns(target: &Target, count: usize) -> Vec<String> {
    let create = |index: usize| {
        let options: &[&str] = if index == 1 { &["--block-size", "4096"] } else { &["--write-cache"] };
        target.url(0, target.create(&format!("db{index}"), "256MiB", options))
    };
    (0..count).map(create).collect()
}

/// `attach --json` of these LUNs.
fn attach(host: &Host, urls: &[String], options: &[&str]) -> Value {
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    host.attach(&[&urls, options].concat())
}

fn of_each(attached: &Value, key: &str) -> Vec<String> {
    let luns = attached["luns"].as_array().unwrap().iter();
    luns.map(|lun| lun[key].as_str().map_or_else(|| lun[key].to_string(), str::to_owned)).collect()
}

/// Whether the file system updates this file in place.
fn is_in_place(path: &Path) -> bool {
    let said = succeed(Command::new("lsattr").arg("-d").arg(path));
    said.split_whitespace().next().unwrap().contains('C')
}

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..bytes / 8).flat_map(|_| rng.below(u64::MAX).to_le_bytes()).collect()
}

#[test]
fn a_striped_file_system_lies_on_all_its_luns_and_is_there_again() {
    let scratch = Scratch::new("iscsi-striped");
    let Some(host) = host(&scratch) else { return };
    let target = Target::start(&scratch, &[]);
    let mut urls = luns(&target, 3);
    let place = scratch.folder("place");
    let at = place.to_str().unwrap();
    let attached = attach(&host, &urls, &["--mkfs", "btrfs", "--mount", at]);
    assert_eq!((&attached["mount"], of_each(&attached, "mount")), (&at.into(), vec![at.to_owned(); 3]), "{attached}");
    assert_eq!(of_each(&attached, "url"), urls);
    assert!(!attached["warnings"].to_string().contains("writes are slower"), "aligned: {attached}");
    let used = || (0..3).map(|index| target.listed(&format!("db{index}"))["used_bytes"].as_u64().unwrap()).collect::<Vec<_>>();
    let sync = || succeed(Command::new("sync").arg("--file-system").arg(&place));
    sync();
    let before = used();
    let data = random(1, 24 * MIB);
    fs::write(place.join("file"), &data).unwrap();
    sync();
    let grown: Vec<usize> = used().iter().zip(before).map(|(now, before)| (now - before) as usize / MIB).collect();
    println!("of 24 MiB there came to the LUNs: {grown:?} MiB");
    assert!(grown.iter().all(|mib| (7..=11).contains(mib)), "{grown:?}");
    assert!(is_in_place(&place.join("file")));

    let devices = of_each(&attached, "device");
    let mut sleeper = Command::new("sleep").arg("60").current_dir(&place).spawn().unwrap();
    let (busy, _) = host.refused(&["detach", &urls[2]]);
    assert!(
        busy.contains(&format!("process {} (sleep; its working directory is in {at}: cd elsewhere)", sleeper.id())),
        "{busy}"
    );
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let open = File::open(&devices[1]).unwrap();
    // A mkfs of another test, which runs in a mount namespace of its own, has a copy of the mount for a moment.
    let busy = await_until("a refusal without mkfs", Duration::from_secs(20), || {
        let (busy, _) = host.refused(&["detach", &devices[0]]);
        (!busy.contains("(mkfs.")).then_some(busy)
    });
    assert!(busy.contains(&format!("detach {}: it is used by process {} (", devices[1], std::process::id())), "{busy}");
    drop(open);
    let apart = MountCopy::make();
    let (busy, _) = host.refused(&["detach", &devices[0]]);
    assert!(busy.contains(&format!("a mount at {at} {}", apart.named())), "{busy}");
    drop(apart);
    assert!(host.list().iter().all(|lun| lun["mount"] == at && lun["state"] == "attached"), "{:?}", host.list());
    assert!(fs::read(place.join("file")).unwrap() == data, "still mounted");
    host.detach(&devices[1]);
    assert_eq!(host.left(), Vec::<String>::new());

    urls.reverse();
    attach(&host, &urls, &["--mount", at]);
    assert!(fs::read(place.join("file")).unwrap() == data);
    fs::write(place.join("new"), "x").unwrap();
    assert!(is_in_place(&place.join("new")));
    let second = scratch.folder("second");
    succeed(Command::new("mount").arg("--bind").arg(&place).arg(&second));
    let (busy, _) = host.refused(&["detach", at]);
    succeed(Command::new("umount").arg(&second));
    assert!(busy.contains(&format!("used by a mount at {}", second.display())), "{busy}");
    host.detach(at);
    assert_eq!(host.left(), Vec::<String>::new());
}

#[test]
fn a_striped_file_system_whose_processes_were_killed_is_taken_away() {
    let scratch = Scratch::new("iscsi-striped-killed");
    let Some(host) = host(&scratch) else { return };
    let target = Target::start(&scratch, &[]);
    let urls = luns(&target, 3);
    let place = scratch.folder("place");
    for killed in [1, 3] {
        let attached = attach(&host, &urls, &["--mkfs", "btrfs", "--force", "--mount", place.to_str().unwrap()]);
        fs::write(place.join("file"), random(2, MIB)).unwrap();
        for pid in of_each(&attached, "pid").iter().take(killed) {
            succeed(Command::new("kill").args(["-KILL", pid]));
        }
        await_until("the processes to end", Duration::from_secs(30), || {
            (host.list().iter().filter(|lun| lun["state"] == "dead").count() == killed).then_some(())
        });
        // One LUN's URL is enough when all processes are dead: then the file system cannot be read.
        host.detach(if killed == 1 { place.to_str().unwrap() } else { &urls[1] });
        assert_eq!(host.left(), Vec::<String>::new());
    }
    // Another LUN that is mounted and whose process is dead does not prevent a new file system.
    let (other, elsewhere) = (target.url(0, target.create("other", "64MiB", &[])), scratch.folder("elsewhere"));
    let dead = host.attach(&[&other, "--mkfs", "ext4", "--mount", elsewhere.to_str().unwrap()]);
    succeed(Command::new("kill").args(["-KILL", &dead["pid"].to_string()]));
    await_until("its process to end", Duration::from_secs(30), || {
        host.list().iter().any(|lun| lun["state"] == "dead").then_some(())
    });
    let new = ["new0", "new1"].map(|name| target.url(0, target.create(name, "256MiB", &[])));
    let attached = attach(&host, &new, &["--mkfs", "btrfs", "--mount", place.to_str().unwrap()]);
    succeed(Command::new("kill").args(["-KILL", &of_each(&attached, "pid")[1]]));
    let all = host.iscsi(&["detach", "--all"]);
    assert!(all.status.success(), "{all:?}");
    assert_eq!(host.left(), Vec::<String>::new());
}

#[test]
fn luns_that_are_not_one_file_system_are_refused_and_none_stays_attached() {
    let scratch = Scratch::new("iscsi-striped-wrong");
    let Some(host) = host(&scratch) else { return };
    let target = Target::with_portals(&scratch, 2, &[]);
    let urls = luns(&target, 4);
    let [one, two, three, other] = urls.iter().map(String::as_str).collect::<Vec<_>>()[..] else { unreachable!() };
    let place = scratch.folder("place");
    let at = place.to_str().unwrap();
    let refused = |urls: &[&str], options: &[&str], code: i32, what: &str| {
        let (said, found) = host.refused(&[&["attach"], urls, options].concat());
        assert!(said.contains(what) && found == Some(code), "{urls:?} {options:?}: {found:?} {said}");
        assert_eq!(host.left(), Vec::<String>::new());
        said
    };
    for kind in ["xfs", "ext4"] {
        let said = refused(&[one, two], &["--mkfs", kind, "--mount", at], 2, &format!("{kind} lies on one block device"));
        assert!(said.contains("--mkfs btrfs") && said.contains("vgcreate"), "{said}");
    }
    refused(&[one, two, one], &["--mkfs", "btrfs", "--mount", at], 2, "twice");
    refused(&[one, &target.url(1, 0)], &["--mkfs", "btrfs", "--mount", at], 2, "it is attached as");
    refused(&[one, &target.url(0, 9)], &["--mkfs", "btrfs", "--mount", at], 1, "/9: ");
    refused(&[one, "iscsi://127.0.0.1:1/iqn.2026-11.org.example:vol/0"], &["--mount", at], 2, "cannot be reached");
    refused(&[one, two], &["--mount", at], 2, &format!("mount the LUN {one}: it has no file system"));

    // Without --mount, `attach` makes the file system too, and its files are updated in place.
    attach(&host, &[one, two, three].map(str::to_owned), &["--mkfs", "btrfs"]);
    assert!(host.list().iter().all(|lun| lun["mount"].is_null()));
    host.detach("--all");
    attach(&host, &[three, one, two].map(str::to_owned), &["--mount", at]);
    assert!(is_in_place(&place));
    host.detach(at);
    assert_eq!(host.left(), Vec::<String>::new());

    refused(&[one, three], &["--mount", at], 2, "lies on 3 devices, and device 2 is missing");
    refused(&[two], &["--mount", at], 2, "lies on 3 devices, and devices 1, 3 are missing");
    refused(&[one, two, three, other], &["--mount", at], 2, &format!("the LUN {other}: it has no file system"));
    refused(&[other, one], &["--mkfs", "btrfs", "--mount", at], 2, &format!("the LUN {one} has btrfs"));
    attach(&host, &[other.to_owned()], &["--mkfs", "ext4"]);
    host.detach(other);
    refused(&[one, two, other], &["--mount", at], 2, &format!("the LUN {other} has ext4"));
    let alone = host.attach(&[other, "--mkfs", "btrfs", "--force", "--mount", at]);
    assert_eq!((&alone["mount"], is_in_place(&place)), (&at.into(), true), "one LUN, as ever: {alone}");
    host.detach(at);
    refused(&[one, two, other], &["--mount", at], 2, &format!("{other} is of "));
}

#[test]
fn several_luns_without_a_file_system_are_block_devices_that_are_taken_away_one_by_one() {
    let scratch = Scratch::new("iscsi-several");
    let Some(host) = Host::new(&scratch) else { return };
    let target = Target::start(&scratch, &[]);
    let urls = luns(&target, 2);
    let output = host.iscsi(&["attach", &urls[0], &urls[1]]);
    let lines: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    let listed: Vec<String> = host.list().iter().map(|lun| lun["device"].as_str().unwrap().to_owned()).collect();
    assert_eq!((lines.len(), &lines), (2, &listed));
    host.detach(&lines[0]);
    assert_eq!(host.list().len(), 1);
    host.detach(&urls[1]);
    assert_eq!(host.left(), Vec::<String>::new());
}
