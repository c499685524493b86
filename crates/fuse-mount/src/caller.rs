//! What /proc says of the thread that sent a request: the request has its user and group, but neither its supplementary groups nor its
//! signals.

use crate::error::MountError;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

/// SIGKILL in a mask of /proc/PID/status: bit of signal 9.
const KILL: u64 = 1 << 8;

/// The processes of this PID namespace. /proc stays the same one, whatever is mounted over it later.
#[derive(Debug)]
pub(crate) struct Callers(OwnedFd);

impl Callers {
    /// Opens /proc.
    ///
    /// # Errors
    /// [`MountError::Proc`]; [`MountError::ForeignProc`] when it is that of another PID namespace: there the number of a caller is
    /// that of another process.
    pub(crate) fn open() -> Result<Self, MountError> {
        let proc = openat(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let callers = Self(proc.map_err(|error| MountError::Proc(error.into()))?);
        let status = callers.read("self/status").map_err(MountError::Proc)?;
        // The number of this process in the PID namespace of /proc, and in each below that (proc_pid_status(5)).
        let numbers = field(&status, "NSpid:").map_or(1, |numbers| numbers.split_whitespace().count());
        if numbers == 1 { Ok(callers) } else { Err(MountError::ForeignProc) }
    }

    /// The supplementary groups of a thread that has this user and group; `None` where they cannot be known: the thread is of another PID
    /// namespace (0), /proc hides it, or the kernel calls for another user than the thread's own.
    pub(crate) fn groups(&self, thread: u32, uid: u32, gid: u32) -> Option<Vec<u32>> {
        let status = self.status(thread)?;
        // Real, effective, saved and file system ids: access(2) asks for the real ones.
        let has = |name, id| numbers(&status, name).any(|other| other == id);
        (has("Uid:", uid) && has("Gid:", gid)).then(|| numbers(&status, "Groups:").collect())
    }

    /// Whether a thread that got a signal was killed and waits only for the answer to its request: SIGKILL is pending. The kernel turns
    /// every signal that ends a process without a core dump into SIGKILL. A thread that cannot be seen counts as killed: else it could
    /// not be ended.
    pub(crate) fn is_killed(&self, thread: u32) -> bool {
        let Some(status) = self.status(thread) else { return true };
        let is_pending =
            |name| field(&status, name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & KILL != 0);
        is_pending("SigPnd:") || is_pending("ShdPnd:")
    }

    fn status(&self, thread: u32) -> Option<String> {
        if thread == 0 { None } else { self.read(&format!("{thread}/status")).ok() }
    }

    fn read(&self, path: &str) -> std::io::Result<String> {
        let file = openat(&self.0, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn numbers<'s>(status: &'s str, name: &str) -> impl Iterator<Item = u32> + 's {
    field(status, name).unwrap_or_default().split_whitespace().filter_map(|number| number.parse().ok())
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getegid, geteuid, getgroups};

    #[test]
    fn a_thread_has_its_groups_only_as_the_user_it_is() {
        let callers = Callers::open().unwrap();
        let me = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let groups_of_kernel: Vec<u32> = getgroups().unwrap().into_iter().map(rustix::process::Gid::as_raw).collect();
        assert_eq!(callers.groups(me, uid, gid), Some(groups_of_kernel));
        assert_eq!(callers.groups(me, uid + 1, gid), None);
        assert_eq!(callers.groups(me, uid, gid + 1), None);
        assert_eq!(callers.groups(0, uid, gid), None);
        assert!(!callers.is_killed(me));
    }

    #[test]
    fn a_thread_that_cannot_be_seen_counts_as_killed() {
        let callers = Callers::open().unwrap();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        assert!(!callers.is_killed(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(callers.is_killed(child.id()) && callers.is_killed(0));
    }
}
