//! A LUN as a block device of this host: its disks, one over each session, and the multipath device above them.

use super::error::KernelError;
use super::multipath::{self, Map};
use super::program::run;
use super::sessions::{self, Disk};
use super::waiting::{Waiting, until};
use crate::attach::Mount;
use crate::attach::partitions::{misaligned_partitions, partitions_of};
use crate::attach::users::{holders, mounts_of, users_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time until the kernel has shown the disks: it asks the target for them one after the other.
const DISK_MAX: Duration = Duration::from_secs(120);
/// Longest time until udev has looked at the new disks.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// Who has the disks below a map open without using them.
const CHECKER: &str = "multipathd";
/// Beginning of the uuid that partitions of a map have (kpartx of multipath-tools).
const PARTITION_UUID: &str = "part";

/// A LUN whose disks are to come.
#[derive(Clone, Copy, Debug)]
pub struct LunOrder<'a> {
    /// The name of the target.
    pub target: &'a str,
    /// The number of the LUN.
    pub lun: u16,
    /// The sessions that lead to it, by their numbers.
    pub sessions: &'a [u32],
    /// Commands under way on each path.
    pub depth: u32,
    /// Which LUN it has to be, as [`Identity`](crate::Identity) has it; none: whichever it is.
    pub designator: Option<&'a str>,
}

/// A LUN as a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDevice {
    disks: Vec<Disk>,
    map: Option<Map>,
}

/// Waits until udev has looked at the disks that have come, at most half a minute: meanwhile it has them open.
pub fn settle(waiting: &dyn Waiting) {
    if host::has_program("udevadm") {
        // Where no udev runs it says so.
        let _ = run("udevadm", &["settle", &format!("--timeout={}", SETTLE_MAX.as_secs())], SETTLE_MAX * 2, waiting);
    }
}

impl KernelDevice {
    /// Has the kernel look for a LUN over sessions, waits for its disks, and for a multipath device where there are several.
    ///
    /// # Errors
    /// [`KernelError::NoDisk`], [`KernelError::NoMap`], [`KernelError::OtherLun`], [`KernelError::File`]. Disks that have come stay.
    pub fn bring_up(order: &LunOrder<'_>, waiting: &dyn Waiting) -> Result<Self, KernelError> {
        for session in order.sessions {
            sessions::look_for(order.lun, *session)?;
        }
        let wanted = order.sessions.len();
        let ready = || {
            let disks = disks_of(order.lun, order.sessions);
            (disks.len() == wanted && disks.iter().all(|disk| disk.path().exists())).then_some(disks)
        };
        let disks = until(&format!("LUN {} of {}", order.lun, order.target), DISK_MAX, waiting, ready)?;
        let disks = disks.ok_or_else(|| KernelError::NoDisk {
            target: order.target.to_owned(),
            lun: order.lun,
            found: disks_of(order.lun, order.sessions).len(),
            wanted,
            seconds: DISK_MAX.as_secs(),
        })?;
        for disk in &disks {
            check_identity(disk, order.designator)?;
            // A session that other LUNs use too may allow less: then it is the limit.
            let _ = fs::write(disk.system().join("device/queue_depth"), order.depth.to_string());
        }
        settle(waiting);
        let map = match disks.as_slice() {
            [only] if !multipath::takes(only, waiting) => None,
            all => Some(multipath::wait_for(all, waiting)?),
        };
        Ok(Self { disks, map })
    }

    /// What is there now of a LUN over these sessions; none when nothing is. `map` is the uuid of its multipath device, which may outlive
    /// the disks.
    #[must_use]
    pub fn find(lun: u16, sessions: &[u32], map: Option<&str>) -> Option<Self> {
        let disks = disks_of(lun, sessions);
        let above = disks.iter().find_map(|disk| multipath::above(&disk.name));
        let map = above.or_else(|| map.and_then(multipath::of_uuid));
        (!disks.is_empty() || map.is_some()).then_some(Self { disks, map })
    }

    /// Devices of these disks: those below one map are one.
    pub(super) fn of_disks(all: Vec<Disk>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for disk in all {
            let map = multipath::above(&disk.name);
            match found.iter_mut().find(|device| map.is_some() && device.map == map) {
                Some(device) => device.disks.push(disk),
                None => found.push(Self { disks: vec![disk], map }),
            }
        }
        found
    }

    /// As in `/dev/mapper/mpatha`, or `/dev/sda` where there is one path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let disk = || self.disks.first().map(Disk::path);
        self.map.as_ref().map(Map::path).or_else(disk).unwrap_or_default()
    }

    /// Its disks, one over each session that has one.
    #[must_use]
    pub fn disks(&self) -> &[Disk] {
        &self.disks
    }

    /// The uuid of the multipath device.
    #[must_use]
    pub fn map(&self) -> Option<&str> {
        self.map.as_ref().map(|map| map.uuid.as_str())
    }

    /// Whether what is sent to it while no path is up fails at once, as multipathd has set it.
    #[must_use]
    pub fn fails_at_once(&self) -> bool {
        self.map.as_ref().is_some_and(multipath::fails_at_once)
    }

    /// Whether a file of /dev is it, one of its disks or a partition of it.
    #[must_use]
    pub fn is_at(&self, file: &Path) -> bool {
        let place = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.path() == place || (place.parent() == Some(Path::new("/dev")) && self.names().contains(&name))
    }

    /// Partitions that do not begin at a multiple of that many bytes, and where they do.
    #[must_use]
    pub fn misaligned_partitions(&self, bytes: u64) -> Vec<(String, u64)> {
        self.disks.first().map(|disk| misaligned_partitions(&disk.name, bytes)).unwrap_or_default()
    }

    /// Where its file system, or that of a partition, is mounted; of btrfs also by another of its devices.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        mounts_of(&self.names())
    }

    /// What of this host uses it: mounts, device-mapper and md, swap, processes that have it open.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        users_of(&self.names(), Some(CHECKER))
    }

    /// Takes the multipath device away, whose disks stay. Nobody may use it.
    ///
    /// # Errors
    /// [`KernelError::Failed`]: it is in use.
    pub fn flush(&self) -> Result<(), KernelError> {
        crate::attach::btrfs::forget(&self.path().display().to_string());
        self.map.as_ref().map_or(Ok(()), multipath::flush)
    }

    /// Has the kernel forget its disks over some sessions, which stay; it flushes them before.
    ///
    /// # Errors
    /// [`KernelError::File`].
    pub fn delete_disks(&self, sessions: &[u32]) -> Result<(), KernelError> {
        for disk in self.disks.iter().filter(|disk| sessions.contains(&disk.session)) {
            let file = disk.system().join("device/delete");
            match fs::write(&file, "1") {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(KernelError::File { action: "write", path: file, source: error });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What waits for a path fails now, and from then on.
    pub fn fail_without_path(&self) {
        self.map.iter().for_each(multipath::fail_without_path);
    }

    /// Removes what is left of the multipath device once its disks are gone.
    ///
    /// # Errors
    /// [`KernelError::Failed`]: it is in use.
    pub fn remove_map(&self) -> Result<(), KernelError> {
        self.map.as_ref().map_or(Ok(()), multipath::remove_unused)
    }

    /// Its disks, its multipath device, and their partitions, by their names in the kernel.
    fn names(&self) -> Vec<String> {
        let with_partitions = |disk: &Disk| std::iter::once(disk.name.clone()).chain(partitions_of(&disk.name));
        let mut names: Vec<String> = self.disks.iter().flat_map(with_partitions).collect();
        if let Some(map) = &self.map {
            let uuid =
                |device: &String| fs::read_to_string(Path::new("/sys/block").join(device).join("dm/uuid")).unwrap_or_default();
            names.push(map.device.clone());
            names.extend(holders(&map.device).into_iter().filter(|device| uuid(device).starts_with(PARTITION_UUID)));
        }
        names
    }
}

/// The disks of a LUN over sessions, in their order.
fn disks_of(lun: u16, of: &[u32]) -> Vec<Disk> {
    let disks = of.iter().flat_map(|session| sessions::disks_of(*session));
    disks.filter(|disk| disk.unit == sessions::unit_of(lun)).collect()
}

/// Whether a disk says that it is this LUN, where it says so in the same way.
fn check_identity(disk: &Disk, designator: Option<&str>) -> Result<(), KernelError> {
    let said = fs::read_to_string(disk.system().join("device/wwid")).unwrap_or_default();
    let (found, expected) = (said.trim(), designator.unwrap_or_default());
    if are_one(found, expected) {
        return Ok(());
    }
    Err(KernelError::OtherLun { disk: disk.name.clone(), found: found.to_owned(), expected: expected.to_owned() })
}

/// `naa.6001…` and `eui.…` are written the same by the kernel and here; designators of two kinds tell nothing of each other.
fn are_one(found: &str, expected: &str) -> bool {
    let kind = |designator: &str| designator.split('.').next().unwrap_or_default().to_owned();
    let comparable = kind(found) == kind(expected) && ["naa", "eui"].contains(&kind(found).as_str());
    !comparable || found.eq_ignore_ascii_case(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_the_lun_unless_a_designator_of_the_same_kind_differs() {
        assert!(are_one("naa.600140505f5f", "naa.600140505F5F") && !are_one("naa.600140505f5f", "naa.600140505f60"));
        assert!(are_one("t10.MILLRACE disk", "naa.6001") && are_one("", "naa.6001") && are_one("naa.6001", ""));
        assert!(are_one("t10.one", "t10.6f6e65"), "the kernel writes text, and not hexadecimal");
        assert!(!are_one("eui.01", "eui.02"));
    }

    #[test]
    fn nothing_is_found_of_a_lun_without_sessions() {
        assert_eq!(KernelDevice::find(0, &[], None), None);
        assert_eq!(KernelDevice::find(0, &[u32::MAX], Some("mpath-none")), None);
    }
}
