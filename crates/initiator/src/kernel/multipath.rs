//! dm-multipath above disks: multipathd makes the device, multipath(8) and dmsetup(8) remove it.

use super::daemons::MULTIPATHD;
use super::error::KernelError;
use super::program::{expect, run};
use super::sessions::Disk;
use super::waiting::{Nobody, Waiting, until};
use crate::attach::users::holders;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Beginning of the uuid that dm-multipath's devices have.
const UUID: &str = "mpath-";
/// Longest time until multipathd has made its device: 35 s in an emulated guest of a busy host.
const MAP_MAX: Duration = Duration::from_secs(120);
/// Time after which multipathd is asked for a device that it has not made by itself. It is asked again each time this
/// has passed.
const ASK_AFTER: Duration = Duration::from_secs(10);
/// Longest time of one command.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// Longest time until programs have closed a map: udev may read it for a moment, and a program whose I/O failed needs a little
/// longer.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// A multipath device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// `dm-0`.
    pub(super) device: String,
    /// `mpatha`.
    pub(super) name: String,
    /// `mpath-36001…`, which has the WWID of the LUN.
    pub(super) uuid: String,
}

impl Map {
    /// Its path.
    pub(super) fn path(&self) -> PathBuf {
        Path::new("/dev/mapper").join(&self.name)
    }

    /// Whether this map still exists. Another map may have its name.
    fn is_there(&self) -> bool {
        map_at(Path::new("/sys/block"), &self.device).as_ref() == Some(self)
    }
}

/// The map of this uuid.
pub(super) fn of_uuid(uuid: &str) -> Option<Map> {
    let blocks = Path::new("/sys/block");
    let names =
        fs::read_dir(blocks).into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("dm-")).filter_map(|name| map_at(blocks, &name)).find(|map| map.uuid == uuid)
}

/// The map above a disk.
pub(super) fn above(disk: &str) -> Option<Map> {
    holders(disk).iter().find_map(|holder| map_at(Path::new("/sys/block"), holder))
}

/// Reads `dm/uuid` and `dm/name` of a device.
fn map_at(blocks: &Path, device: &str) -> Option<Map> {
    let fact = |fact: &str| fs::read_to_string(blocks.join(device).join("dm").join(fact)).unwrap_or_default().trim().to_owned();
    let (name, uuid) = (fact("name"), fact("uuid"));
    (uuid.starts_with(UUID) && !name.is_empty()).then(|| Map { device: device.to_owned(), name, uuid })
}

/// Whether multipathd uses a disk although it is the only path.
pub(super) fn takes(disk: &Disk, waiting: &dyn Waiting) -> bool {
    let asks = MULTIPATHD.listens() && host::has_program("multipath");
    let path = disk.path().display().to_string();
    let words = ["-c", path.as_str()];
    asks && run("multipath", &words, COMMAND_MAX, waiting).is_ok_and(|ended| ended.code == Some(0))
}

/// Waits until one map uses all the disks.
pub(super) fn wait_for(disks: &[Disk], waiting: &dyn Waiting) -> Result<Map, KernelError> {
    let names = disks.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>().join(" and ");
    let mut ask_at = Instant::now() + ASK_AFTER;
    let ready = || {
        let map = above_all(disks).filter(|map| map.path().exists());
        if map.is_none() && Instant::now() >= ask_at {
            ask_at = Instant::now() + ASK_AFTER;
            disks.first().into_iter().for_each(ask_for);
        }
        map
    };
    let what = format!("multipathd to make a device of {names}");
    until(&what, MAP_MAX, waiting, ready)?.ok_or(KernelError::NoMap { disks: names, seconds: MAP_MAX.as_secs() })
}

fn above_all(disks: &[Disk]) -> Option<Map> {
    let mut maps = disks.iter().map(|disk| above(&disk.name));
    let first = maps.next()??;
    maps.all(|map| map.as_ref() == Some(&first)).then_some(first)
}

/// Asks multipathd for a map of a disk that it would not make by itself, as with `find_multipaths strict`. The result appears in
/// sysfs.
fn ask_for(disk: &Disk) {
    let Ok(paths) = expect("multipathd", &["show", "paths", "raw", "format", "%d %w"], COMMAND_MAX, &Nobody) else { return };
    if let Some(wwid) = wwid_of(&disk.name, &paths) {
        let _ = run("multipathd", &["add", "map", wwid], COMMAND_MAX, &Nobody);
    }
}

/// Finds the WWID of a disk in entries of the form `DISK WWID`.
fn wwid_of<'a>(disk: &str, paths: &'a str) -> Option<&'a str> {
    let lines = paths.split(';').map(str::trim);
    lines.filter_map(|line| line.split_once(' ')).find(|(name, _)| *name == disk).map(|(_, wwid)| wwid.trim())
}

/// Removes a map that no program uses any more, with its partitions.
pub(super) fn flush(map: &Map) -> Result<(), KernelError> {
    retried(|| if map.is_there() { expect("multipath", &["-f", &map.name], COMMAND_MAX, &Nobody).map(|_| ()) } else { Ok(()) })
}

/// Makes I/O that waits on a map without a path fail now, and from then on.
pub(super) fn fail_without_path(map: &Map) {
    // multipathd turns the queue of a map on again unless multipathd itself turned it off. If it does not run, dmsetup
    // suffices.
    let _ = run("multipathd", &["disablequeueing", "map", &map.name], COMMAND_MAX, &Nobody);
    let _ = run("dmsetup", &["message", &map.name, "0", "fail_if_no_path"], COMMAND_MAX, &Nobody);
}

/// Removes a map whose disks are gone, once programs have closed it.
pub(super) fn remove_unused(map: &Map) -> Result<(), KernelError> {
    // multipathd may remove it at the same time.
    retried(|| if map.is_there() { expect("dmsetup", &["remove", &map.name], COMMAND_MAX, &Nobody).map(|_| ()) } else { Ok(()) })
}

/// Whether I/O to a map without a path fails at once. False if that is unknown.
pub(super) fn fails_at_once(map: &Map) -> bool {
    let table = expect("dmsetup", &["table", &map.name], COMMAND_MAX, &Nobody);
    table.is_ok_and(|table| features(&table).is_some_and(|features| !features.contains(&"queue_if_no_path")))
}

/// `0 SECTORS multipath COUNT FEATURE…` (Documentation/admin-guide/device-mapper/dm-mpath, `parse_features` of dm-mpath.c).
fn features(table: &str) -> Option<Vec<&str>> {
    let mut words = table.split_whitespace().skip_while(|word| *word != "multipath").skip(1);
    let count = words.next()?.parse().ok()?;
    Some(words.take(count).collect())
}

fn retried(attempt: impl Fn() -> Result<(), KernelError>) -> Result<(), KernelError> {
    const PAUSE: Duration = Duration::from_millis(100);
    let end = Instant::now() + BUSY_MAX;
    loop {
        match attempt() {
            Err(KernelError::Failed { .. }) if Instant::now() < end => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_a_device_of_dm_multipath_and_of_nothing_else() {
        let blocks = tempfile::tempdir().unwrap();
        let blocks = blocks.path();
        for (device, name, uuid) in [("dm-0", "vg-root", "LVM-x"), ("dm-1", "mpatha", "mpath-36001"), ("dm-2", "", "mpath-36002")]
        {
            fs::create_dir_all(blocks.join(device).join("dm")).unwrap();
            fs::write(blocks.join(device).join("dm/name"), format!("{name}\n")).unwrap();
            fs::write(blocks.join(device).join("dm/uuid"), format!("{uuid}\n")).unwrap();
        }
        let map = map_at(blocks, "dm-1").unwrap();
        assert_eq!((map.name.as_str(), map.uuid.as_str(), map.path()), ("mpatha", "mpath-36001", "/dev/mapper/mpatha".into()));
        assert_eq!([map_at(blocks, "dm-0"), map_at(blocks, "dm-2"), map_at(blocks, "sda")], [None, None, None]);
    }

    #[test]
    fn the_features_of_a_map_are_those_behind_their_count() {
        // dmsetup 1.02.185, kernel 6.1.
        let queues = "0 131072 multipath 1 queue_if_no_path 1 alua 1 1 service-time 0 2 2 8:0 1 1 8:16 1 1 ";
        assert_eq!(features(queues).unwrap(), ["queue_if_no_path"]);
        let fails = "0 131072 multipath 0 1 alua 1 1 service-time 0 2 2 8:0 1 1 8:16 1 1";
        assert_eq!(features(fails).unwrap(), Vec::<&str>::new());
        let both = "0 131072 multipath 2 queue_if_no_path retain_attached_hw_handler 0 1 1 service-time 0 1 2 8:0 1 1";
        assert_eq!(features(both).unwrap(), ["queue_if_no_path", "retain_attached_hw_handler"]);
        assert_eq!(features("0 131072 linear 8:0 0"), None);
    }

    #[test]
    fn a_disk_has_the_wwid_of_its_own_line() {
        let paths = "sda 3600140500000001; sdb  3600140500000001; sdaa 3600140500000002";
        assert_eq!(wwid_of("sdb", paths), Some("3600140500000001"));
        assert_eq!((wwid_of("sdaa", paths), wwid_of("sd", paths)), (Some("3600140500000002"), None));
    }
}
