//! The mounts of Direct NFS on this host, for the audit: those of this user and of the groups that it is in; by root, those of all
//! users, each asked as that user, since another user's shared memory is not trusted.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dnfs::mount::{has_runtime_root, runtime_root};
use tune::collect::direct_nfs_text;
use tune::collect::runner::{HostRunner, Ran, Runner as _};

use crate::cmd::nfs::counters::gather;

/// Users of one host that are asked. One with more is a host of containers, each of which is audited by itself.
const USERS_MAX: usize = 64;

/// Where other users have their runtime directories.
const SHARED_MEMORY: &str = "/dev/shm";

/// The counters of each user's mounts, as entries of a capture.
pub(crate) fn counters() -> Vec<(String, String)> {
    let own = std::fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid());
    let mut found: Vec<Result<String, String>> = match has_runtime_root(&runtime_root()) {
        Ok(true) => own_counters(&runtime_root()),
        Ok(false) => Vec::new(),
        Err(error) => vec![Err(error.to_string())],
    };
    // That of a group which this user is not in is not trusted.
    let groups = entries("millrace-group-").into_iter().filter(|(path, _)| has_runtime_root(path).unwrap_or(false));
    found.extend(groups.flat_map(|(path, _)| own_counters(&path)));
    let mut found: Vec<(String, String)> = found.into_iter().map(|counters| direct_nfs_text(own, counters)).collect();
    if own == 0 {
        let others = entries("millrace-").into_iter().filter_map(|(path, uid)| Some((owner(&path, uid)?, uid)));
        found.extend(others.take(USERS_MAX).map(|(gid, uid)| direct_nfs_text(uid, ask_as(uid, gid))));
    }
    if found.is_empty() {
        // That there is no mount is known too.
        found.push(direct_nfs_text(own, Ok("[]".to_owned())));
    }
    found
}

/// Entries of [`SHARED_MEMORY`] with this begin, and the number that follows it.
fn entries(begin: &str) -> Vec<(PathBuf, u32)> {
    let entries = std::fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix(begin)?.parse().ok()?;
        Some((entry.path(), number))
    });
    let mut found: Vec<(PathBuf, u32)> = numbered.collect();
    found.sort();
    found
}

/// The group to ask with, if the directory is that of this user, and the user is not root.
fn owner(directory: &Path, uid: u32) -> Option<u32> {
    let found = std::fs::symlink_metadata(directory).ok()?;
    (uid != 0 && found.is_dir() && found.uid() == uid).then_some(found.gid())
}

/// The mounts that can be read, and why others cannot.
fn own_counters(directory: &Path) -> Vec<Result<String, String>> {
    let mounts = gather::all(directory, None);
    let unreadable = mounts.unreadable.iter().map(|(path, error)| Err(format!("{}: {error}", path.display())));
    let read = serde_json::to_string_pretty(&mounts.reports).map_err(|error| error.to_string());
    std::iter::once(read).chain(unreadable).collect()
}

/// What this program prints as another user. Its runtime directory is the default one, since the environment is empty.
fn ask_as(uid: u32, gid: u32) -> Result<String, String> {
    match HostRunner.run_as(&["/proc/self/exe", "nfs", "counters", "--json"], (uid, gid)) {
        Ran::Ended(0, output, _) => in_lines(&output),
        Ran::Ended(_, _, complaint) if complaint.contains("no mount of this user found") => Ok("[]".to_owned()),
        Ran::Ended(code, _, complaint) if complaint.is_empty() => Err(format!("exit code {code}")),
        Ran::Ended(_, _, reason) | Ran::Not(reason) => Err(reason),
    }
}

/// JSON with a line for each value: a line of a capture has a limit.
fn in_lines(json: &[u8]) -> Result<String, String> {
    let value: serde_json::Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    serde_json::to_string_pretty(&value).map_err(|error| error.to_string())
}
