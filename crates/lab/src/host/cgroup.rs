//! Memory control groups: limit the page cache of a process tree, so that a
//! database reads from its storage and not from this host's memory. Uses version 2 if it has
//! the memory controller, else version 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::LabError;
use crate::placement::owner::PREFIX;

/// The limit of a group of version 2.
const LIMIT: &str = "memory.max";
/// Above it, the kernel reclaims the group's page cache and never kills a process. Only in version 2.
const SOFT_LIMIT: &str = "memory.high";

/// A control group of Millrace, removed when dropped; its processes must have ended by then.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
    limit: PathBuf,
    /// Bytes of page cache that it may use.
    cache: u64,
}

/// Directory in which groups can be created, and the name of the limit there.
struct Home {
    directory: PathBuf,
    limit: &'static str,
}

impl MemoryGroup {
    /// Creates a group whose processes may use `own` bytes of memory in total, and `cache` bytes of page cache.
    pub(crate) fn make(name: &str, own: u64, cache: u64) -> Result<Self, LabError> {
        let missing = || std::io::Error::from(std::io::ErrorKind::Unsupported);
        let home = home().ok_or_else(missing).map_err(LabError::file("make a control group below", "/sys/fs/cgroup"))?;
        let path = home.directory.join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir(&path).map_err(LabError::file("make the control group", &path))?;
        let group = Self { limit: path.join(home.limit), path, cache };
        group.set(&group.limit, &(own + cache).to_string())?;
        Ok(group)
    }

    /// Limits the page cache: memory that the processes do not use themselves must not become additional cache.
    /// Version 1 has only a limit for both together.
    pub(crate) fn hold_page_cache(&self) -> Result<(), LabError> {
        if !self.limit.ends_with(LIMIT) {
            return Ok(());
        }
        let read = |name: &str| {
            let file = self.path.join(name);
            fs::read_to_string(&file).map_err(LabError::file("read", &file))
        };
        let current = self.path.join("memory.current");
        let all = read("memory.current")?.trim().parse::<u64>().map_err(|error| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
            LabError::file("read the bytes in", &current)(error)
        })?;
        let high = own_bytes(all, &read("memory.stat")?) + self.cache;
        self.set(&self.path.join(SOFT_LIMIT), &high.to_string())
    }

    /// Removes the limits; the processes stay in the group.
    pub(crate) fn lift(&self) -> Result<(), LabError> {
        if !self.limit.ends_with(LIMIT) {
            // Only a number; -1 means no limit.
            return self.set(&self.limit, "-1");
        }
        self.set(&self.path.join(SOFT_LIMIT), "max")?;
        self.set(&self.limit, "max")
    }

    fn set(&self, file: &Path, bytes: &str) -> Result<(), LabError> {
        fs::write(file, bytes).map_err(LabError::file("set", file))
    }

    /// Adds a process to the group; its later children belong to the group too.
    pub(crate) fn add(&self, pid: u32) -> Result<(), LabError> {
        let list = self.path.join("cgroup.procs");
        fs::write(&list, pid.to_string()).map_err(LabError::file("add a process to", &list))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel releases the last process shortly after it was reaped.
        for _ in 0..100 {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => std::thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
        eprintln!("millrace: cannot remove {}: it still has processes", self.path.display());
    }
}

/// The part of `all` bytes that is not page cache, from a group's `memory.stat`; its `file` value includes shared memory.
fn own_bytes(all: u64, stat: &str) -> u64 {
    let of = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0u64)
    };
    all.saturating_sub(of("file").saturating_sub(of("shmem")))
}

/// Whether groups can be created here.
pub(crate) fn available() -> bool {
    home().is_some()
}

/// Removes Millrace's groups without processes.
pub(crate) fn sweep() {
    let Some(home) = home() else { return };
    for entry in fs::read_dir(home.directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| crate::host::procfs::start_ticks(pid).is_none()) {
            let _ = fs::remove_dir(entry.path()); // refused while somebody is in it
        }
    }
}

fn home() -> Option<Home> {
    let writable = |path: &Path| fs::metadata(path).is_ok_and(|facts| facts.is_dir()) && crate::sys::effective_uid() == 0;
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "memory") && writable(root) {
        return Some(Home { directory: root.to_owned(), limit: LIMIT });
    }
    let first = root.join("memory");
    (first.join("memory.limit_in_bytes").exists() && writable(&first))
        .then_some(Home { directory: first, limit: "memory.limit_in_bytes" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_no_page_cache() {
        let stat = "anon 50\nfile 40\nfile_mapped 35\nshmem 30\n";
        assert_eq!(own_bytes(100, stat), 90);
        assert_eq!(own_bytes(100, ""), 100);
    }

    #[test]
    fn group_holds_a_process_to_its_limit_and_goes_away() {
        if !available() {
            return;
        }
        let Ok(group) = MemoryGroup::make("test", 60 << 20, 4 << 20) else { return }; // no right to make one in this container
        let path = group.path.clone();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        group.add(child.id()).unwrap();
        assert!(fs::read_to_string(path.join("cgroup.procs")).unwrap().contains(&child.id().to_string()));
        let limit = || fs::read_to_string(&group.limit).unwrap().trim_end().to_owned();
        assert_eq!(limit(), (64 << 20).to_string());
        group.hold_page_cache().unwrap();
        if let Ok(high) = fs::read_to_string(path.join(SOFT_LIMIT)) {
            let high: u64 = high.trim().parse().unwrap();
            assert!((4 << 20..20 << 20).contains(&high), "little of its own, and 4 MiB: {high}");
        }
        group.lift().unwrap();
        let none = limit();
        assert!(none == "max" || none.parse::<u64>().unwrap() > 1 << 60, "{none}");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(group);
        assert!(!path.exists());
    }
}
