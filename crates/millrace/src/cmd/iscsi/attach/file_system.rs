//! Makes, inspects and mounts the file system on attached LUNs.

use super::{Attach, Kind, Served};
use crate::cmd::iscsi::attached::Attached;
use crate::error_printing::{hinted, refusal};
use anyhow::{Context as _, bail};
use initiator::attach::{Content, FileSystem, Member, mount, unmount, update_in_place};
use std::path::Path;

/// Makes the file system of `--mkfs`, adds warnings, and mounts.
pub(super) fn bring_up(args: &Attach, luns: &mut [Attached], served: &mut [Served]) -> anyhow::Result<()> {
    let devices: Vec<String> = served.iter().map(|served| served.device.path()).collect();
    if let Some(kind) = args.mkfs {
        make(kind.into(), args.force, luns, served, &devices)?;
    }
    for (attached, served) in luns.iter().zip(served.iter_mut()) {
        let found = misalignments(attached, served, &Content::of(&served.device.path())?);
        served.warnings.extend(found);
    }
    let is_btrfs = matches!(args.mkfs, Some(Kind::Btrfs));
    match &args.mount {
        Some(directory) => {
            if args.mkfs.is_none() {
                check_whole(luns, served, &devices)?;
            }
            mount_at(&std::fs::canonicalize(directory)?, luns, &devices)?;
            if is_btrfs { Ok(update_in_place(directory)?) } else { Ok(()) }
        }
        None if is_btrfs => update_new_in_place(luns, &devices),
        None => Ok(()),
    }
}

fn make(kind: FileSystem, force: bool, luns: &[Attached], served: &[Served], devices: &[String]) -> anyhow::Result<()> {
    for (attached, served) in luns.iter().zip(served) {
        let lun = name(attached, luns);
        if attached.record.read_only {
            bail!("make a file system: {lun} is read-only");
        }
        if let Some(words) = served.content.words().filter(|_| !force) {
            let hint = "leave out --mkfs to use what the LUN has; --force overwrites it, and its data is lost";
            return Err(refusal(format!("make a file system: {lun} has {words}"), hint));
        }
    }
    let physical = luns.iter().map(|attached| attached.record.physical_block_bytes).max().unwrap_or_default();
    kind.make(devices, physical).map_err(|error| {
        let hint = "no LUN stays attached; a LUN that is too small for the file system grows by `millrace lun resize`";
        hinted(error.into(), hint)
    })
}

/// The name of a LUN in a message: with its URL if there are several LUNs.
fn name(attached: &Attached, luns: &[Attached]) -> String {
    if luns.len() == 1 { "the LUN".to_owned() } else { format!("the LUN {}", attached.record.url) }
}

/// Sets the flag to update files in place on a new btrfs that does not stay mounted: mounts it,
/// sets the flag, and unmounts it.
fn update_new_in_place(luns: &mut [Attached], devices: &[String]) -> anyhow::Result<()> {
    let Some(root) = luns.first().map(Attached::new_root) else { return Ok(()) };
    std::fs::create_dir(&root).with_context(|| format!("create {}", root.display()))?;
    mount_at(&root, luns, devices)?;
    update_in_place(&root)?;
    unmount(&root, false)?;
    for attached in luns {
        attached.record.mount = None;
        attached.save()?;
    }
    std::fs::remove_dir(&root).with_context(|| format!("remove {}", root.display()))
}

fn mount_at(directory: &Path, luns: &mut [Attached], devices: &[String]) -> anyhow::Result<()> {
    mount(devices, directory, luns.iter().any(|attached| attached.record.read_only))?;
    for attached in luns {
        attached.record.mount = Some(directory.to_owned());
        attached.save()?;
    }
    Ok(())
}

/// Refuses to mount LUNs without a file system, and a btrfs of which members are missing, because
/// other members may not replace them.
fn check_whole(luns: &[Attached], served: &[Served], devices: &[String]) -> anyhow::Result<()> {
    let mut members = Vec::new();
    for ((attached, served), device) in luns.iter().zip(served).zip(devices) {
        let lun = name(attached, luns);
        let found = || served.content.words().unwrap_or_else(|| "no file system".into());
        if served.content.kind.is_none() {
            let make = if luns.len() == 1 { "xfs" } else { "btrfs" };
            let hint = format!(
                "use --mkfs {make} to make one; if it has partitions, attach it without --mount and mount one of them by `mount`"
            );
            return Err(refusal(format!("mount {lun}: it has {}", found()), hint));
        }
        match Member::of(device)? {
            Some(member) => members.push((attached.record.url.as_str(), member)),
            None if luns.len() == 1 => return Ok(()),
            None => {
                let hint = "only btrfs can span several LUNs; mount others one by one, or leave out --mount for LVM or md";
                return Err(refusal(format!("mount them as one: {lun} has {}", found()), hint));
            }
        }
    }
    check_members(&members).map_err(|what| {
        let hint = "name all LUNs of the file system in one command, in any order, and no others";
        refusal(format!("mount btrfs: {what}"), hint)
    })
}

/// Checks that these members, with their URLs, are all members of one file system, each once.
fn check_members(members: &[(&str, Member)]) -> Result<(), String> {
    let Some((first_url, first)) = members.first() else { return Ok(()) };
    for (index, (url, member)) in members.iter().enumerate() {
        if member.file_system != first.file_system {
            return Err(format!("{url} is of {}, and {first_url} of {}", member.file_system, first.file_system));
        }
        if let Some((other, _)) = members.iter().take(index).find(|(_, other)| other.number == member.number) {
            return Err(format!("{other} and {url} are both device {} of {}", member.number, member.file_system));
        }
    }
    if members.len() as u64 == first.devices {
        return Ok(());
    }
    // Numbers have gaps if devices were removed and others added. It is then unknown which devices
    // are missing.
    let list = |numbers: Vec<u64>| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let given: Vec<u64> = members.iter().map(|(_, member)| member.number).collect();
    let missing: Vec<u64> = (1..=first.devices).filter(|number| !given.contains(number)).take(super::LUNS_MAX).collect();
    let which = match missing.len() {
        count if (count + given.len()) as u64 != first.devices => format!("given are {}", list(given)),
        1 => format!("device {} is missing", list(missing)),
        _ => format!("devices {} are missing", list(missing)),
    };
    Err(format!("{} lies on {} devices, and {which}", first.file_system, first.devices))
}

/// Warns of each misalignment that makes the LUN read a physical block before it can write a part of it.
fn misalignments(attached: &Attached, served: &Served, content: &Content) -> Vec<String> {
    let physical = attached.record.physical_block_bytes;
    let partitions = served.device.misaligned_partitions(physical.max(4096).into()).into_iter();
    let mut warnings: Vec<String> = partitions
        .map(|(name, start)| {
            format!("partition {name} begins at byte {start}, not at a multiple of {}: writes are slower", physical.max(4096))
        })
        .collect();
    if let Some(bytes) = content.block_bytes.filter(|bytes| *bytes < physical.into()) {
        let kind = content.kind.as_deref().unwrap_or("the file system");
        warnings
            .push(format!("{kind} has blocks of {bytes} bytes, and the LUN physical blocks of {physical}: writes are slower"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(file_system: &str, number: u64, devices: u64) -> Member {
        Member { file_system: file_system.into(), number, devices }
    }

    #[test]
    fn only_all_members_of_one_file_system_are_mounted() {
        let said = |members: &[Member]| {
            let urls = ["A", "B", "C"];
            check_members(&urls.into_iter().zip(members.iter().cloned()).collect::<Vec<_>>())
        };
        assert_eq!(said(&[member("x", 2, 2), member("x", 1, 2)]), Ok(()), "in any order");
        assert_eq!(said(&[member("x", 1, 1)]), Ok(()));
        let missing = said(&[member("x", 1, 3), member("x", 3, 3)]);
        assert_eq!(missing, Err("x lies on 3 devices, and device 2 is missing".into()));
        assert_eq!(said(&[member("x", 4, 2)]), Err("x lies on 2 devices, and given are 4".into()));
        assert_eq!(said(&[member("x", 1, u64::MAX)]), Err(format!("x lies on {} devices, and given are 1", u64::MAX)));
        assert_eq!(said(&[member("x", 1, 2), member("y", 2, 2)]), Err("B is of y, and A of x".into()));
        assert_eq!(said(&[member("x", 1, 2), member("x", 1, 2)]), Err("A and B are both device 1 of x".into()));
    }
}
