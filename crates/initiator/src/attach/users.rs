//! Finds what uses block devices of this host. The caller passes devices that belong together, such as a disk and its partitions,
//! by their kernel names: `loop3`, `loop3p1`.

use super::btrfs;
use super::mounts::{Mount, mounted_apart, mounts};
use std::fs;
use std::path::{Path, PathBuf};

/// The mounts of the file systems on these devices. A btrfs may be mounted by another of its
/// devices.
pub(crate) fn mounts_of(names: &[String]) -> Vec<Mount> {
    let (numbers, btrfs) = (numbers(names), btrfs::mounted());
    let stands_here = |mount: &Mount| {
        numbers.contains(&mount.device) || btrfs::devices_below(mount, &btrfs).iter().any(|name| names.contains(name))
    };
    mounts().into_iter().filter(stands_here).collect()
}

/// What uses these devices on this host: mounts, device-mapper and md, swap, processes that have one open. A use of one of the
/// devices by another one does not count, nor does a process of the name `but`.
pub(crate) fn users_of(names: &[String], but: Option<&str>) -> Vec<String> {
    let nodes: Vec<PathBuf> = names.iter().flat_map(|name| nodes(name)).collect();
    let mounted = mounts_of(names);
    let mut users: Vec<String> = mounted.iter().map(|mount| format!("a mount at {}", mount.directory.display())).collect();
    // A btrfs has a number of its own, not that of one of its devices.
    let file_systems = mounted.iter().map(|mount| mount.device.clone());
    users.extend(mounted_apart(&numbers(names).into_iter().chain(file_systems).collect::<Vec<_>>()));
    if mounted.is_empty() {
        let of_others = btrfs::mounted().into_iter().find(|(_, devices)| devices.iter().any(|name| names.contains(name)));
        users.extend(of_others.map(|(uuid, _)| format!("btrfs {uuid}, mounted in another mount namespace")));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swapped = nodes.iter().map(|node| node.display().to_string()).filter(|node| has_first_word(&swaps, node));
    users.extend(swapped.map(|node| format!("swap on {node}")));
    let holders = names.iter().flat_map(|name| holders(name)).filter(|holder| !names.contains(holder));
    users.extend(holders.map(|holder| format!("block device {holder}")));
    users.extend(processes(|target| nodes.iter().any(|node| target == node), but));
    users
}

/// The block devices directly above a device, such as `dm-0`.
pub(crate) fn holders(name: &str) -> Vec<String> {
    let entries = fs::read_dir(system(name).join("holders")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The directory of a disk or a partition in sysfs.
fn system(name: &str) -> PathBuf {
    Path::new("/sys/class/block").join(name)
}

/// Major and minor numbers, as in `7:3`.
fn numbers(names: &[String]) -> Vec<String> {
    names.iter().filter_map(|name| fs::read_to_string(system(name).join("dev")).ok()).map(|text| text.trim().to_owned()).collect()
}

/// The paths by which a device may be opened. A device of device-mapper also has a path by its own name, if udev has
/// not made that a link.
fn nodes(name: &str) -> Vec<PathBuf> {
    let mapped = fs::read_to_string(system(name).join("dm/name")).ok();
    let mapped = mapped.map(|mapped| Path::new("/dev/mapper").join(mapped.trim_end()));
    std::iter::once(Path::new("/dev").join(name)).chain(mapped).collect()
}

/// Other processes that have something open, as `process 7 (bash)`, or whose working directory is there, which the text then
/// says. Leaves out this process, which its user cannot end, and processes of the name `but`.
pub(super) fn processes(is_meant: impl Fn(&Path) -> bool, but: Option<&str>) -> Vec<String> {
    let meant = |link: PathBuf| fs::read_link(link).ok().filter(|target| is_meant(target));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if pid == std::process::id() {
            continue;
        }
        let folder = entry.path();
        let descriptors = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten().map(|fd| fd.path());
        let mut links = descriptors.chain(["root", "exe"].into_iter().map(|name| folder.join(name)));
        let has_open = links.any(|link| meant(link).is_some());
        let place = meant(folder.join("cwd"));
        if has_open || place.is_some() {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            if but == Some(name.trim()) {
                continue;
            }
            let place = place.map(|place| format!("; its working directory is in {}: cd elsewhere", place.display()));
            found.push(format!("process {pid} ({}{})", name.trim(), place.unwrap_or_default()));
        }
    }
    found
}

/// Whether a table has a line with this first column.
fn has_first_word(table: &str, word: &str) -> bool {
    table.lines().any(|line| line.split_whitespace().next() == Some(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_stands_somewhere_is_told_with_what_to_do_and_never_oneself() {
        let place = std::env::temp_dir().join(format!("millrace-stands-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let open = fs::File::open(&place).unwrap();
        assert_eq!(processes(|target| target == place, None), Vec::<String>::new(), "only this one has it open");
        drop(open);
        let mut sleeper = Command::new("sleep").arg("60").current_dir(&place).spawn().unwrap();
        let said = processes(|target| target == place, None);
        let but_it = processes(|target| target == place, Some("sleep"));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(but_it, Vec::<String>::new());
        let expected = format!("process {} (sleep; its working directory is in {}: cd elsewhere)", sleeper.id(), place.display());
        assert_eq!(said, [expected]);
        fs::remove_dir(&place).unwrap();
    }

    #[test]
    fn a_swap_device_is_known_by_its_whole_name() {
        let swaps = "Filename Type\n/dev/loop11 partition\n";
        assert!(has_first_word(swaps, "/dev/loop11") && !has_first_word(swaps, "/dev/loop1"));
    }
}
