//! dm-multipath above disks: multipathd makes the device by itself, multipath(8) and dmsetup(8) take it away.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::session_disks::SessionDisk;
use crate::error::LabError;
use crate::host::interrupt;
use crate::limits::{BUSY_MAX, SCSI_DISK_MAX};

/// Beginning of the uuid that dm-multipath's devices have.
const UUID: &str = "mpath-";

/// Where a map is.
pub(super) fn path(map: &str) -> PathBuf {
    Path::new("/dev/mapper").join(map)
}

/// Waits until one map stands on all the disks, and returns its name.
pub(super) fn wait_for(disks: &[SessionDisk]) -> Result<String, LabError> {
    let ready = || {
        let mut maps = disks.iter().map(above);
        let Some(Some(first)) = maps.next() else { return Ok(None) };
        let whole = maps.all(|map| map.as_ref() == Some(&first)) && path(&first).exists();
        Ok(whole.then_some(first))
    };
    interrupt::wait_for(SCSI_DISK_MAX, ready)?.ok_or_else(|| {
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        LabError::Missing {
            what: format!("use {} by dm-multipath: multipathd made no device of them", names.join(" and ")),
            hint:
                "allow it in /etc/multipath.conf (find_multipaths no or yes), or take one path: [tuning.NAME.iscsi] portals = 1"
                    .to_owned(),
        }
    })
}

/// The map above a disk.
pub(super) fn above(disk: &SessionDisk) -> Option<String> {
    map_above(&disk.system(), Path::new("/sys/block"))
}

/// `holders/dm-N` of a disk, and `dm/uuid` and `dm/name` of that.
fn map_above(disk: &Path, blocks: &Path) -> Option<String> {
    let holders = fs::read_dir(disk.join("holders")).into_iter().flatten().flatten();
    let holders = holders.map(|holder| blocks.join(holder.file_name()).join("dm"));
    let of = |holder: &Path, fact: &str| fs::read_to_string(holder.join(fact)).unwrap_or_default().trim().to_owned();
    holders.filter(|holder| of(holder, "uuid").starts_with(UUID)).map(|holder| of(&holder, "name")).find(|name| !name.is_empty())
}

/// Takes a map away that nobody uses any more.
pub(super) fn flush(map: &str) -> Result<(), LabError> {
    let failed = |detail: String| LabError::Program {
        program: format!("multipath -f {map}"),
        outcome: "failed".to_owned(),
        detail: format!("\n    {detail}"),
    };
    // udev may look at it for a moment.
    retried(|| quiet("multipath", &["-f", map])).map_err(failed)
}

/// What waits on maps without a path fails now, and from then on.
pub(super) fn fail_without_paths(maps: &[String]) {
    for map in maps {
        // multipathd puts the queue of a map back that it has not been told of; where it does not run, the kernel is told alone.
        let _ = quiet("multipathd", &["disablequeueing", "map", map]);
        let _ = quiet("dmsetup", &["message", map, "0", "fail_if_no_path"]);
    }
}

/// Removes maps whose disks are gone, once what used them has let go.
pub(super) fn remove_unused(maps: &[String]) -> Result<(), String> {
    maps.iter().filter(|map| path(map).exists()).try_for_each(|map| {
        // multipathd may do the same meanwhile.
        retried(|| quiet("dmsetup", &["remove", map]).or_else(|error| if path(map).exists() { Err(error) } else { Ok(()) }))
    })
}

fn retried(attempt: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let end = Instant::now() + BUSY_MAX;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => std::thread::sleep(interrupt::POLL_EVERY),
            outcome => return outcome,
        }
    }
}

fn quiet(program: &str, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(words).current_dir("/").process_group(0).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).trim().to_owned());
    Err(said.join(" ").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_above_a_disk_is_one_of_dm_multipath() {
        let blocks = tempfile::tempdir().unwrap();
        let blocks = blocks.path();
        for (device, name, uuid) in [("dm-0", "vg-root", "LVM-x"), ("dm-1", "mpatha", "mpath-36001")] {
            fs::create_dir_all(blocks.join(device).join("dm")).unwrap();
            fs::write(blocks.join(device).join("dm/name"), format!("{name}\n")).unwrap();
            fs::write(blocks.join(device).join("dm/uuid"), format!("{uuid}\n")).unwrap();
        }
        for (disk, holder) in [("sda", "dm-1"), ("sdb", "dm-0")] {
            fs::create_dir_all(blocks.join(disk).join("holders").join(holder)).unwrap();
        }
        let above = |disk: &str| map_above(&blocks.join(disk), blocks);
        assert_eq!((above("sda"), above("sdb"), above("sdc")), (Some("mpatha".into()), None, None));
    }
}
