//! Checks what this host needs for block devices, before anything is changed.

use super::{Attach, Kind};
use crate::error_printing::{hinted, refusal};
use anyhow::anyhow;
use initiator::IscsiUrl;
use initiator::attach::{FileSystem, is_mount};
use std::fs::OpenOptions;
use std::path::Path;

/// Checks what both clients need.
pub(super) fn check(args: &Attach, urls: &[IscsiUrl]) -> anyhow::Result<()> {
    check_urls(args, urls)?;
    if !rustix::process::geteuid().is_root() {
        return Err(refusal("only root may make a block device", "run it as root, as in `sudo millrace iscsi attach …`"));
    }
    let mut programs = vec![("blkid", "util-linux")];
    programs.extend(args.mount.iter().map(|_| ("mount", "util-linux")));
    programs.extend(args.mkfs.map(FileSystem::from).map(|kind| (kind.program(), kind.package())));
    check_programs(&programs)?;
    let needs_btrfs = matches!(args.mkfs, Some(Kind::Btrfs)) || (urls.len() > 1 && args.mount.is_some());
    if needs_btrfs && !::host::has_file_system("btrfs") {
        let hint = "`modprobe btrfs` says why; kernels of Red Hat Enterprise Linux 8 and later have no btrfs: attach the LUNs without \
                    --mount and use LVM";
        return Err(refusal("use btrfs: this kernel does not have it", hint));
    }
    args.mount.as_deref().map_or(Ok(()), check_directory)
}

/// Checks what Millrace's own client also needs: FUSE and loop devices.
pub(super) fn check_own() -> anyhow::Result<()> {
    for (node, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if let Err(error) = OpenOptions::new().read(true).write(true).open(node) {
            let hint = format!("modprobe {module}; in a container, give it the device {node}");
            return Err(hinted(anyhow!(error).context(format!("open {node}")), hint));
        }
    }
    check_programs(&[("losetup", "util-linux")])
}

fn check_programs(programs: &[(&str, &str)]) -> anyhow::Result<()> {
    for (program, package) in programs {
        if ::host::in_path(program).is_none() {
            return Err(refusal(
                format!("find {program} in PATH"),
                format!("it is of the package {package}, often in /usr/sbin"),
            ));
        }
    }
    Ok(())
}

/// Checks that do not depend on this host.
fn check_urls(args: &Attach, urls: &[IscsiUrl]) -> anyhow::Result<()> {
    for (index, url) in urls.iter().enumerate() {
        if urls.iter().take(index).any(|other| other.to_string() == url.to_string()) {
            return Err(refusal(
                format!("{url} is named twice"),
                "name each LUN once; several portals of one LUN are in one URL",
            ));
        }
    }
    let kind = args.mkfs.map(FileSystem::from).filter(|kind| *kind != FileSystem::Btrfs);
    let Some(kind) = kind.filter(|_| urls.len() > 1) else { return Ok(()) };
    let hint = "--mkfs btrfs stripes over them; or attach them without --mkfs and --mount, and use LVM or md (vgcreate, mdadm)";
    let name = kind.program().trim_start_matches("mkfs.");
    Err(refusal(format!("make one file system on {} LUNs: {name} lies on one block device", urls.len()), hint))
}

fn check_directory(directory: &Path) -> anyhow::Result<()> {
    if directory.exists() && !directory.is_dir() {
        let what = format!("mount at {}: it is not a directory", directory.display());
        return Err(refusal(what, "name an empty directory"));
    }
    if !directory.is_dir() {
        let hint = format!("mkdir -p {}", directory.display());
        return Err(refusal(format!("mount at {}: no such directory", directory.display()), hint));
    }
    if is_mount(&std::fs::canonicalize(directory)?) {
        let hint = format!("`findmnt {}` shows what; name another directory, or unmount it first", directory.display());
        return Err(refusal(format!("mount at {}: something is mounted there", directory.display()), hint));
    }
    if directory.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let hint = "name an empty directory: the mount would hide its files";
        return Err(refusal(format!("mount at {}: the directory is not empty", directory.display()), hint));
    }
    Ok(())
}
