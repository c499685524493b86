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
/// Longest time until udev has examined the new disks.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// The program that has the disks below a map open without using them.
const CHECKER: &str = "multipathd";
/// Beginning of the uuid that partitions of a map have (kpartx of multipath-tools).
const PARTITION_UUID: &str = "part";

/// The LUN to bring up.
#[derive(Clone, Copy, Debug)]
pub struct LunOrder<'a> {
    /// The name of the target.
    pub target: &'a str,
    /// The number of the LUN.
    pub lun: u16,
    /// The numbers of the sessions that lead to it.
    pub sessions: &'a [u32],
    /// Commands in progress on each path.
    pub depth: u32,
    /// The designator that the LUN must have, as in [`Identity`](crate::Identity). `None` accepts
    /// any LUN.
    pub designator: Option<&'a str>,
}

/// A LUN as a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDevice {
    disks: Vec<Disk>,
    map: Option<Map>,
}

/// Waits until udev has examined the new disks, at most half a minute: udev has them open meanwhile.
pub fn settle(waiting: &dyn Waiting) {
    if host::has_program("udevadm") {
        // If udev does not run, the program reports that.
        let _ = run("udevadm", &["settle", &format!("--timeout={}", SETTLE_MAX.as_secs())], SETTLE_MAX * 2, waiting);
    }
}

impl KernelDevice {
    /// Makes the kernel search for a LUN over sessions. Waits for its disks, and for a multipath device if there are
    /// several.
    ///
    /// # Errors
    /// [`KernelError::NoDisk`], [`KernelError::NoMap`], [`KernelError::OtherLun`], [`KernelError::File`]. Disks that have
    /// appeared stay.
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
            // A session that other LUNs use too may allow less, which is then the limit.
            let _ = fs::write(disk.system().join("device/queue_depth"), order.depth.to_string());
        }
        settle(waiting);
        let map = match disks.as_slice() {
            [only] if !multipath::takes(only, waiting) => None,
            all => Some(multipath::wait_for(all, waiting)?),
        };
        Ok(Self { disks, map })
    }

    /// What exists now of a LUN over these sessions. `None` if nothing exists. `map` is the uuid of its multipath device, which
    /// may outlive the disks.
    #[must_use]
    pub fn find(lun: u16, sessions: &[u32], map: Option<&str>) -> Option<Self> {
        let disks = disks_of(lun, sessions);
        let above = disks.iter().find_map(|disk| multipath::above(&disk.name));
        let map = above.or_else(|| map.and_then(multipath::of_uuid));
        (!disks.is_empty() || map.is_some()).then_some(Self { disks, map })
    }

    /// The devices of these disks. Disks below one map are one device.
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

    /// Its path: `/dev/mapper/mpatha`, or `/dev/sda` if it has one path.
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

    /// Whether I/O to it fails at once while no path is up, as multipathd has set it.
    #[must_use]
    pub fn fails_at_once(&self) -> bool {
        self.map.as_ref().is_some_and(multipath::fails_at_once)
    }

    /// Whether a file of /dev is this device, one of its disks, or a partition of it.
    #[must_use]
    pub fn is_at(&self, file: &Path) -> bool {
        let place = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.path() == place || (place.parent() == Some(Path::new("/dev")) && self.names().contains(&name))
    }

    /// Partitions that do not begin at a multiple of `bytes`, with their starts in bytes.
    #[must_use]
    pub fn misaligned_partitions(&self, bytes: u64) -> Vec<(String, u64)> {
        self.disks.first().map(|disk| misaligned_partitions(&disk.name, bytes)).unwrap_or_default()
    }

    /// The mounts of its file system, or of the file system of a partition. A btrfs may be mounted by another of its
    /// devices.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        mounts_of(&self.names())
    }

    /// What uses it on this host: mounts, device-mapper and md, swap, processes that have it open.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        users_of(&self.names(), Some(CHECKER))
    }

    /// Removes the multipath device, but not its disks. No program may use it.
    ///
    /// # Errors
    /// [`KernelError::Failed`]: it is in use.
    pub fn flush(&self) -> Result<(), KernelError> {
        crate::attach::btrfs::forget(&self.path().display().to_string());
        self.map.as_ref().map_or(Ok(()), multipath::flush)
    }

    /// Makes the kernel forget its disks over some sessions, which continue. The kernel flushes the
    /// disks before that.
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

    /// Makes I/O that waits for a path fail now, and from then on.
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

/// Checks that a disk is this LUN, if the designators can be compared.
fn check_identity(disk: &Disk, designator: Option<&str>) -> Result<(), KernelError> {
    let said = fs::read_to_string(disk.system().join("device/wwid")).unwrap_or_default();
    let (found, expected) = (said.trim(), designator.unwrap_or_default());
    if are_one(found, expected) {
        return Ok(());
    }
    Err(KernelError::OtherLun { disk: disk.name.clone(), found: found.to_owned(), expected: expected.to_owned() })
}

/// The kernel and this crate write `naa.6001…` and `eui.…` in the same way. Designators of two kinds cannot be compared.
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
