//! Collects the counters of Direct NFS mounts on this host for the audit: the mounts of this user
//! and of its groups. Root also collects those of other users, and runs as each of them for that,
//! because root does not trust another user's shared memory.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use dnfs::mount::{has_runtime_root, runtime_root};
use tune::collect::direct_nfs_text;
use tune::collect::runner::{HostRunner, Ran, Runner as _};

use crate::cmd::nfs::counters::gather;
use crate::cmd::runtime;

/// The largest number of users whose mounts are read. A host with more users runs containers, and
/// each container is audited by itself.
const USERS_MAX: usize = 64;

/// The counters of each user's mounts, as entries of a capture.
pub(crate) fn counters() -> Vec<(String, String)> {
    let own = std::fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid());
    let mut found: Vec<Result<String, String>> = match has_runtime_root(&runtime_root()) {
        Ok(true) => own_counters(&runtime_root()),
        Ok(false) => Vec::new(),
        Err(error) => vec![Err(error.to_string())],
    };
    found.extend(runtime::of_groups().iter().flat_map(|path| own_counters(path)));
    let mut found: Vec<(String, String)> = found.into_iter().map(|counters| direct_nfs_text(own, counters)).collect();
    if own == 0 {
        let others = runtime::numbered("millrace-").into_iter().filter_map(|(path, uid)| Some((owner(&path, uid)?, uid)));
        found.extend(others.take(USERS_MAX).map(|(gid, uid)| direct_nfs_text(uid, ask_as(uid, gid))));
    }
    if found.is_empty() {
        // An empty list records that there is no mount.
        found.push(direct_nfs_text(own, Ok("[]".to_owned())));
    }
    found
}

/// The group of a user's runtime directory. `None` for root, and if the user does not own the directory.
fn owner(directory: &Path, uid: u32) -> Option<u32> {
    let found = std::fs::symlink_metadata(directory).ok()?;
    (uid != 0 && found.is_dir() && found.uid() == uid).then_some(found.gid())
}

/// The counters of the mounts that can be read, then one error for each mount that cannot.
fn own_counters(directory: &Path) -> Vec<Result<String, String>> {
    let mounts = gather::all(&[directory.to_owned()], None);
    let unreadable = mounts.unreadable.iter().map(|(path, error)| Err(format!("{}: {error}", path.display())));
    let read = serde_json::to_string_pretty(&mounts.reports).map_err(|error| error.to_string());
    std::iter::once(read).chain(unreadable).collect()
}

/// The output of `millrace nfs counters` run as another user. The environment names no runtime
/// directory, so the program uses the default one.
fn ask_as(uid: u32, gid: u32) -> Result<String, String> {
    match HostRunner.run_as(&["/proc/self/exe", "nfs", "counters", "--json"], (uid, gid)) {
        Ran::Ended(0, output, _) => in_lines(&output),
        Ran::Ended(_, _, complaint) if complaint.contains("no mount of this user found") => Ok("[]".to_owned()),
        Ran::Ended(code, _, complaint) if complaint.is_empty() => Err(format!("exit code {code}")),
        Ran::Ended(_, _, reason) | Ran::Not(reason) => Err(reason),
    }
}

/// Formats JSON with one value on each line, because a capture limits the length of its lines.
fn in_lines(json: &[u8]) -> Result<String, String> {
    let value: serde_json::Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    serde_json::to_string_pretty(&value).map_err(|error| error.to_string())
}
