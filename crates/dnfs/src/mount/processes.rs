//! The processes of a mount, found by the lock files that they have open. Every process of a mount has `users.lock` open from
//! its first use of the mount on, and so have its forked children; keepers have `keeper.lock` open.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountProcess {
    /// Its process id in this PID namespace.
    pub pid: u32,
    /// Its process id in its own PID namespace.
    pub inner_pid: u32,
    /// Its name, as in `/proc/PID/comm`.
    pub command: String,
}

/// The processes of a mount that this user may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountProcesses {
    /// Programs, ordered by process id.
    pub programs: Vec<MountProcess>,
    /// The keeper, which commits for others (docs/design/011-keeper.md), then its standbys, ordered by process id.
    pub keepers: Vec<u32>,
}

/// The role of a process, by the lock file that it has open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Program,
    /// The keeper or a standby.
    Keeper,
    /// The keeper: it holds the lock.
    Holder,
}

/// Finds the processes of several mounts at once, in the order of `directories`. Reads each process' descriptors once.
#[must_use]
pub fn processes_of(directories: &[PathBuf]) -> Vec<MountProcesses> {
    let locks = |name: &str| directories.iter().map(|directory| inode_of(&directory.join(name))).collect::<Vec<_>>();
    let (users, keepers) = (locks("users.lock"), locks("keeper.lock"));
    let mut found = vec![MountProcesses::default(); directories.len()];
    let mut pids: Vec<u32> = entries(Path::new("/proc")).filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        for (inode, role) in locks_open_in(pid) {
            let locks = if role == Role::Program { &users } else { &keepers };
            let Some(mount) = locks.iter().position(|lock| *lock == Some(inode)).and_then(|index| found.get_mut(index)) else {
                continue;
            };
            match role {
                Role::Program if !mount.programs.iter().any(|process| process.pid == pid) => {
                    mount.programs.push(MountProcess { pid, inner_pid: inner_pid(pid), command: command(pid) });
                }
                Role::Program => {}
                Role::Holder => {
                    mount.keepers.retain(|keeper| *keeper != pid);
                    mount.keepers.insert(0, pid);
                }
                Role::Keeper if !mount.keepers.contains(&pid) => mount.keepers.push(pid),
                Role::Keeper => {}
            }
        }
    }
    for mount in &mut found {
        // A keeper that is about to end holds `users.lock`, so that no process attaches.
        mount.programs.retain(|process| !mount.keepers.contains(&process.pid));
    }
    found
}

/// Whether the open file of a descriptor, `/proc/PID/fd/FD`, holds an exclusive flock(2).
fn holds_lock(pid: u32, descriptor: &Path) -> bool {
    let Some(number) = descriptor.file_name() else { return false };
    let info = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("fdinfo").join(number));
    info.is_ok_and(|info| info.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK") && line.contains("WRITE")))
}

/// The lock files of mounts that a process has open, independent of their paths in its mount namespace.
fn locks_open_in(pid: u32) -> Vec<((u64, u64), Role)> {
    let descriptors = PathBuf::from(format!("/proc/{pid}/fd"));
    let mut locks = Vec::new();
    for name in entries(&descriptors) {
        let link = descriptors.join(name);
        let Ok(target) = std::fs::read_link(&link) else { continue };
        let role = match target.file_name().and_then(|name| name.to_str()) {
            Some("users.lock") => Role::Program,
            Some("keeper.lock") if holds_lock(pid, &link) => Role::Holder,
            Some("keeper.lock") => Role::Keeper,
            _ => continue,
        };
        locks.extend(inode_of(&link).map(|inode| (inode, role)));
    }
    locks
}

fn inode_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn entries(directory: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The last number of `NSpid:`; `pid` if there is no such line.
fn inner_pid(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

fn command(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_holds_the_lock_is_the_keeper_whatever_its_number() {
        let directory = std::env::temp_dir().join(format!("millrace-processes-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("keeper.lock");
        let locked = std::fs::File::create(&path).unwrap();
        locked.lock().unwrap();
        let mut keeper = std::process::Command::new("sleep").arg("60").stdin(locked).spawn().unwrap();
        let _standby = std::fs::File::open(&path).unwrap(); // this process, whose number is lower
        let found = processes_of(std::slice::from_ref(&directory));
        std::fs::remove_dir_all(&directory).unwrap();
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        assert_eq!(found[0].keepers, [keeper.id(), std::process::id()]);
    }
}
