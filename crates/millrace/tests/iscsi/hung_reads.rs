//! A READ that hangs in the host because the disk does not answer. It can be aborted, and does not stop other commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::attached::Host;
use crate::support::scsi::{Client, Who, cdb16};
use crate::support::target::Target;
use crate::support::{Scratch, await_until, succeed};
use iscsi_proto::initiator::Transfer;
use iscsi_proto::pdu::{Itt, TaskFunction};

/// Blocks that are in the page cache while the disk is stopped. Those at 0 are not in it.
const CACHED: u64 = 16 << 11;

/// A process that is stopped until this is dropped.
struct Stopped(u32);

impl Stopped {
    fn new(pid: u32) -> Self {
        succeed(Command::new("kill").args(["-STOP", &pid.to_string()]));
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.0.to_string()]).status();
    }
}

/// Number of threads of this process that wait for a disk.
fn waiting_for_disk(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let state = |path: PathBuf| std::fs::read_to_string(path.join("stat")).unwrap_or_default();
    tasks.filter(|task| state(task.path()).rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))).count()
}

/// Sends a READ that will hang, and waits until it hangs.
fn hung_read(client: &mut Client, target: &Target, lun: u16, lba: u64) -> Itt {
    let before = waiting_for_disk(target.pid());
    let itt = client.send(lun, &cdb16(0x88, false, lba, 8), Transfer::Read(4096)).unwrap();
    await_until("the READ to hang", Duration::from_secs(20), || (waiting_for_disk(target.pid()) > before).then_some(()));
    itt
}

fn drop_from_memory(dir: &Path) {
    for file in std::fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        succeed(Command::new("dd").args([&format!("if={}", path.display()), "iflag=nocache", "count=0", "status=none"]));
    }
}

#[test]
fn a_read_that_hangs_is_aborted_and_delays_neither_the_lun_nor_a_registration_nor_a_reset_nor_a_login() {
    let (below, above) = (Scratch::new("hung-disk"), Scratch::new("hung-reads"));
    let Some(host) = Host::new(&below) else { return };
    let disk = Target::start(&below, &[]);
    let device = disk.create("disk", "256MiB", &[]);
    let mount = above.folder("export");
    host.attach(&[&disk.url(0, device), "--mkfs", "ext4", "--mount", mount.to_str().unwrap()]);
    let target = Target::start(&above, &[]);
    let lun = target.create("db", "32MiB", &[]);
    let login =
        |name: &str| Client::ready(target.portal(0), &target.iqn(), &Who::named(&format!("iqn.2026-11.test:{name}")), lun);
    let (mut one, mut other) = (login("one"), login("other"));
    for lba in [0, CACHED] {
        assert!(one.write(lun, lba, &vec![7; 1 << 20], true).unwrap().is_good());
    }
    drop_from_memory(&mount.join(".millrace-luns"));
    let is_served = |client: &mut Client| client.read(lun, CACHED, 8).unwrap().is_good();
    assert!(is_served(&mut other));
    {
        let _stopped = Stopped::new(disk.pid());
        let read = hung_read(&mut one, &target, lun, 0);
        assert!(is_served(&mut other) && is_served(&mut one));
        assert_eq!(one.manage(TaskFunction::AbortTask, lun, Some(read)).unwrap(), 0);
        assert!(is_served(&mut other) && is_served(&mut one));
        hung_read(&mut one, &target, lun, 512);
        assert!(other.reserve_out(lun, 0, 0, (0, 7), false).is_good(), "REGISTER waits for writes only");
        assert!(is_served(&mut other) && is_served(&mut one));
        assert_eq!(other.manage(TaskFunction::LogicalUnitReset, lun, None).unwrap(), 0);
        for client in [&mut one, &mut other] {
            assert_eq!(client.take_attentions(lun), [(6, 0x29, 0x03)]);
            assert!(is_served(client));
        }
        hung_read(&mut one, &target, lun, 1024);
        assert!(is_served(&mut login("one")), "a login that replaces the session");
    }
    assert!(other.read(lun, 0, 8).unwrap().data == [7; 4096]);
    drop((one, other, target));
    host.detach("--all");
}
