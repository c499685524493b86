//! `millrace compare` on block devices: the tests use loop devices. They need root.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::compare::{Place, postgres_is_here};
use crate::support::{Scratch, is_root, skip_unsupported, succeed, text};
use results::compare::PathStatus;

/// A loop device on a sparse file. Dropping it detaches the device.
struct Loop {
    device: PathBuf,
    _scratch: Scratch,
}

impl Loop {
    fn new() -> Option<Self> {
        if !is_root() {
            skip_unsupported("only root makes loop devices");
            return None;
        }
        let scratch = Scratch::new("device");
        let file = scratch.path().join("disk");
        std::fs::File::create_new(&file).unwrap().set_len(9 << 30).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        if !output.status.success() {
            skip_unsupported(&text(&output));
            return None;
        }
        let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end());
        Some(Self { device, _scratch: scratch })
    }

    fn path(&self) -> String {
        format!("block={}", self.device.display())
    }

    /// What blkid finds on the device.
    fn content(&self) -> String {
        text(&Command::new("blkid").arg("-p").arg(&self.device).output().unwrap())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

/// A master boot record with one Linux partition of 32 MiB after the first MiB.
fn partition_table() -> [u8; 512] {
    let mut record = [0; 512];
    record[450] = 0x83;
    record[454..458].copy_from_slice(&2048_u32.to_le_bytes());
    record[458..462].copy_from_slice(&65_536_u32.to_le_bytes());
    record[510..].copy_from_slice(&[0x55, 0xaa]);
    record
}

/// Runs a comparison on the device, which must be refused, and returns its output.
fn refusal(place: &Place, device: &Loop, further: &[&str]) -> String {
    let path = device.path();
    let arguments = [&["--path", &path, "--quick"], further].concat();
    let output = place.compare(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(!place.out().exists(), "refused before anything is made");
    text(&output)
}

#[test]
fn a_device_that_carries_something_or_is_in_use_is_refused_and_left_as_it_is() {
    let Some(device) = Loop::new().filter(|_| postgres_is_here()) else { return };
    let place = Place::new();
    succeed(Command::new("mkfs.ext4").args(["-q", "-L", "payroll"]).arg(&device.device).arg("64m"));
    let before = device.content();
    let said = refusal(&place, &device, &[]);
    assert!(said.contains("it carries ext4 \"payroll\"") && said.contains("--overwrite-devices"), "{said}");

    let point = Scratch::new("device-point");
    succeed(Command::new("mount").arg(&device.device).arg(point.path()));
    let said = refusal(&place, &device, &["--overwrite-devices"]);
    succeed(Command::new("umount").arg(point.path()));
    assert!(said.contains("it is in use (mounted at") && said.contains("never taken"), "{said}");
    assert_eq!(device.content(), before);

    succeed(Command::new("wipefs").arg("-aq").arg(&device.device));
    std::fs::OpenOptions::new().write(true).open(&device.device).unwrap().write_all(&partition_table()).unwrap();
    let said = refusal(&place, &device, &[]);
    assert!(said.contains("it carries a partition table (dos)"), "{said}");

    let dry = place.compare(&["--path", &device.path(), "--quick", "--overwrite-devices", "--dry-run"]).output().unwrap();
    assert!(text(&dry).contains("block device of 9GiB, on which ext4 is made for each run"), "{}", text(&dry));
}

#[test]
#[ignore = "nightly: a comparison with a cluster of its own, half a minute"]
fn a_device_is_measured_proved_by_diskstats_and_empty_again_afterwards() {
    let Some(device) = Loop::new().filter(|_| postgres_is_here()) else { return };
    let place = Place::new();
    let path = device.path();
    let mut child = place.compare(&["--path", &path, "--quick", "--users", "2", "--warehouses", "1"]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    place.assert_nothing_left(pid);
    assert_eq!(device.content(), "", "our file system is gone");
    assert!(!mounted(&device.device));

    let record = place.record();
    let [result] = &record.paths[..] else { panic!("{:?}", record.paths) };
    let (proof, checks) = (result.proof.as_ref().unwrap(), result.checks.as_ref().unwrap());
    let carried = proof.carried.as_ref().unwrap();
    assert_eq!((result.status, checks.passed), (PathStatus::Measured, 12), "{result:?}");
    assert!(proof.passed && carried.source == "diskstats" && carried.written_bytes > 1 << 16, "{proof:?}");
}

fn mounted(device: &Path) -> bool {
    std::fs::read_to_string("/proc/mounts").unwrap().lines().any(|line| line.starts_with(&format!("{} ", device.display())))
}
