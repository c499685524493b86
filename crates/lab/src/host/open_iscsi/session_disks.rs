//! Disks of the sessions of a target, found in sysfs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::host::block_device::{DiskStats, parse_stats};
use crate::host::interrupt;
use crate::limits::SCSI_DISK_MAX;

const SESSIONS: &str = "/sys/class/iscsi_session";

/// A disk of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionDisk {
    /// `sda`.
    pub(super) name: String,
}

impl SessionDisk {
    pub(super) fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Its directory in sysfs.
    pub(super) fn system(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.name)
    }

    pub(super) fn stats(&self) -> Result<DiskStats, LabError> {
        let file = self.system().join("stat");
        fs::read_to_string(&file).map(|text| parse_stats(&text)).map_err(LabError::file("read", &file))
    }
}

/// Waits until each session of a target has its disk.
pub(super) fn wait_for(target: &str, count: usize) -> Result<Vec<SessionDisk>, LabError> {
    let ready = || {
        let disks = of(target);
        Ok((disks.len() == count && disks.iter().all(|disk| disk.path().exists())).then_some(disks))
    };
    interrupt::wait_for(SCSI_DISK_MAX, ready)?.ok_or_else(|| super::no_disk(target, of(target).len(), count))
}

/// Those that are there, in the order of their names.
pub(super) fn of(target: &str) -> Vec<SessionDisk> {
    disks_below(Path::new(SESSIONS), target)
}

/// `sessionN/targetname` names the target, `sessionN/device/targetH:C:T/H:C:T:L/block/NAME` its disks.
fn disks_below(sessions: &Path, target: &str) -> Vec<SessionDisk> {
    let is_of = |session: &PathBuf| fs::read_to_string(session.join("targetname")).is_ok_and(|name| name.trim() == target);
    let targets = entries(sessions).into_iter().filter(is_of).flat_map(|session| entries(&session.join("device")));
    let units = targets.filter(|entry| name_of(entry).starts_with("target")).flat_map(|target| entries(&target));
    let disks = units.flat_map(|unit| entries(&unit.join("block")));
    let mut disks: Vec<_> = disks.map(|disk| SessionDisk { name: name_of(&disk) }).collect();
    disks.sort_by(|one, other| (one.name.len(), &one.name).cmp(&(other.name.len(), &other.name)));
    disks
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_of_a_target_are_those_of_all_its_sessions_and_of_no_other_target() {
        let root = tempfile::tempdir().unwrap();
        for (session, target, unit, disk) in [
            ("session1", "iqn.a", "2:0:0:0", "sdb"),
            ("session2", "iqn.a", "3:0:0:0", "sda"),
            ("session3", "iqn.b", "4:0:0:0", "sdc"),
        ] {
            let directory = root.path().join(session);
            fs::create_dir_all(directory.join(format!("device/target{}/{unit}/block/{disk}", &unit[..5]))).unwrap();
            fs::write(directory.join("targetname"), format!("{target}\n")).unwrap();
        }
        fs::create_dir_all(root.path().join("session1/device/connection1:0/power")).unwrap();
        let names = |target: &str| disks_below(root.path(), target).into_iter().map(|disk| disk.name).collect::<Vec<_>>();
        assert_eq!((names("iqn.a"), names("iqn.b")), (vec!["sda".to_owned(), "sdb".to_owned()], vec!["sdc".to_owned()]));
        assert!(names("iqn").is_empty());
    }
}
