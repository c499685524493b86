//! File systems that a comparison mounts in its work directory with mount(8), and unmounts again. Needs root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::host::mount_table::{self, Mount};

use crate::error::LabError;
use crate::host::process::Launch;
use crate::limits::{MOUNT_MAX, UNMOUNT_MAX};
use crate::sys;

/// A mounted file system. Dropping it detaches it at once: calls in progress on it fail, and unwritten data may be lost.
#[derive(Debug)]
pub(crate) struct KernelMount {
    point: PathBuf,
    log: PathBuf,
    is_mounted: bool,
}

impl KernelMount {
    /// `mount -t KIND -o OPTIONS WHAT POINT`.
    ///
    /// # Errors
    /// An error with the output of the command. Nothing is mounted.
    pub(crate) fn mount(kind: &str, options: &str, what: &OsStr, point: &Path, log: PathBuf) -> Result<Self, LabError> {
        let mut command = Command::new("mount");
        command.args(["-t", kind]);
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        command.arg(what).arg(point).current_dir("/");
        // Created before the call, because an interrupted call may have mounted.
        let mut mount = Self { point: point.to_owned(), log: log.clone(), is_mounted: true };
        let done = Launch::new("mount", command, log).run(MOUNT_MAX);
        if done.is_err() && !points_below(point).contains(&point.to_owned()) {
            mount.is_mounted = false;
        }
        done.map(|()| mount)
    }

    /// Its mount point.
    pub(crate) fn point(&self) -> &Path {
        &self.point
    }

    /// Unmounts it.
    ///
    /// Durability: data written to it are on its server or device when it returns.
    pub(crate) fn unmount(mut self) -> Result<(), LabError> {
        let mut command = Command::new("umount");
        // Only in the kernel: umount.nfs contacts the server of a mount, which may be gone.
        command.arg("-i").arg(&self.point).current_dir("/");
        Launch::new("umount", command, self.log.clone()).run(UNMOUNT_MAX)?;
        self.is_mounted = false;
        Ok(())
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        if self.is_mounted
            && let Err(error) = detach(&self.point)
        {
            eprintln!("millrace: cannot unmount {}: {error}", self.point.display());
        }
    }
}

/// Detaches a mount even if it is in use or its server is gone. Also used after Ctrl-C.
fn detach(point: &Path) -> Result<(), String> {
    let mut command = Command::new("umount");
    command.args(["-i", "-f", "-l"]).arg(point).current_dir("/").process_group(0).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// Unmounts what a killed comparison left mounted below `root`, one of its directories. Does nothing if that belongs to another
/// user, who must unmount it.
///
/// # Errors
/// An error with the mount that could not be unmounted: removing files below it would remove the mounted ones.
pub(crate) fn end_left_behind(root: &Path) -> Result<(), LabError> {
    let is_own = fs::symlink_metadata(root).is_ok_and(|facts| facts.is_dir() && facts.uid() == sys::effective_uid());
    if !is_own || sys::effective_uid() != 0 {
        return Ok(());
    }
    for point in points_below(root) {
        detach(&point).map_err(|detail| LabError::Program {
            program: format!("unmounting {}, left by a killed comparison,", point.display()),
            outcome: "failed".to_owned(),
            detail: format!("\n    {detail}"),
        })?;
    }
    Ok(())
}

/// Mount points at or below a directory, the latest first.
fn points_below(root: &Path) -> Vec<PathBuf> {
    points(mount_table::read().unwrap_or_default(), root)
}

fn points(table: Vec<Mount>, root: &Path) -> Vec<PathBuf> {
    let points = table.into_iter().rev().map(|mount| mount.directory);
    points.filter(|point| point.starts_with(root)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_directory_come_the_latest_first_and_its_neighbours_do_not() {
        let text = "22 1 8:1 / / rw - ext4 /dev/sda rw\n40 22 0:44 / /w/one/knfs/data rw - nfs h:/vol rw\n\
                    41 22 0:45 / /w/one rw - tmpfs t rw\n42 22 0:46 / /w/oneself rw - tmpfs t rw\n";
        let found = points(mount_table::parse(text.as_bytes()), Path::new("/w/one"));
        assert_eq!(found, [PathBuf::from("/w/one"), PathBuf::from("/w/one/knfs/data")]);
    }

    #[test]
    fn what_is_mounted_in_the_work_directory_of_a_killed_comparison_is_taken_away_before_it_is_removed() {
        if sys::effective_uid() != 0 {
            return sim::skip("only root mounts");
        }
        let root = tempfile::tempdir().unwrap();
        let (point, log) = (root.path().join("point"), root.path().join("log"));
        fs::create_dir(&point).unwrap();
        let mount = match KernelMount::mount("tmpfs", "size=1m", OsStr::new("none"), &point, log.clone()) {
            Ok(mount) => mount,
            Err(error) => return sim::skip(&format!("nothing can be mounted here: {error}")),
        };
        std::mem::forget(mount); // as SIGKILL does
        assert_eq!(points_below(root.path()), std::slice::from_ref(&point));
        end_left_behind(root.path()).unwrap();
        assert_eq!(points_below(root.path()), Vec::<PathBuf>::new());

        let mount = KernelMount::mount("tmpfs", "", OsStr::new("none"), &point, log.clone()).unwrap();
        assert_eq!(mount.point(), point);
        mount.unmount().unwrap();
        drop(KernelMount::mount("tmpfs", "", OsStr::new("none"), &point, log.clone()).unwrap());
        assert_eq!(points_below(root.path()), Vec::<PathBuf>::new());
        assert!(KernelMount::mount("no-such-kind", "", OsStr::new("none"), &point, log).is_err());
    }
}
