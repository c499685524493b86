//! Reads from /proc the supplementary groups and signals of the thread that sent a request. The request itself contains only
//! its user and group.

use crate::error::MountError;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

/// SIGKILL in a mask of /proc/PID/status: bit of signal 9.
const KILL: u64 = 1 << 8;

/// Number of checks of a thread that still runs, and the pause between them. It has sent a request and will sleep soon.
const SYSCALL_LOOKS_MAX: u32 = 100;
const SYSCALL_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// The access that a system call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// No access, as stat(2) does.
    Nothing,
    /// open(2), or connect(2) and the like.
    Access {
        /// O_RDONLY, O_RDWR.
        read: bool,
        /// O_WRONLY, O_RDWR.
        write: bool,
    },
    /// Unknown.
    Unknown,
}

/// The processes of this PID namespace. The open /proc does not change if another one is mounted over it later.
#[derive(Debug)]
pub(crate) struct Callers(OwnedFd);

impl Callers {
    /// Opens /proc.
    ///
    /// # Errors
    /// [`MountError::Proc`]; [`MountError::ForeignProc`] if it belongs to another PID namespace, where the number of a caller
    /// is that of another process.
    pub(crate) fn open() -> Result<Self, MountError> {
        let proc = openat(CWD, "/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let callers = Self(proc.map_err(|error| MountError::Proc(error.into()))?);
        let status = callers.read("self/status").map_err(MountError::Proc)?;
        // The number of this process in the PID namespace of /proc, and in each below that (proc_pid_status(5)).
        let numbers = field(&status, "NSpid:").map_or(1, |numbers| numbers.split_whitespace().count());
        if numbers == 1 { Ok(callers) } else { Err(MountError::ForeignProc) }
    }

    /// The supplementary groups of a thread with this user and group. `None` if they are unknown: the thread is in another PID
    /// namespace (0), /proc hides it, or the kernel calls for another user than the thread's own.
    pub(crate) fn groups(&self, thread: u32, uid: u32, gid: u32) -> Option<Vec<u32>> {
        let status = self.status(thread)?;
        // Real, effective, saved and file system ids: access(2) uses the real ones.
        let has = |name, id| numbers(&status, name).any(|other| other == id);
        (has("Uid:", uid) && has("Gid:", gid)).then(|| numbers(&status, "Groups:").collect())
    }

    /// Whether a thread with a signal was killed and waits only for the reply to its request: SIGKILL is pending. The kernel
    /// turns every signal that ends a process without a core dump into SIGKILL. A thread that cannot be seen counts as killed;
    /// otherwise it could not be ended.
    pub(crate) fn is_killed(&self, thread: u32) -> bool {
        let Some(status) = self.status(thread) else { return true };
        let is_pending =
            |name| field(&status, name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & KILL != 0);
        is_pending("SigPnd:") || is_pending("ShdPnd:")
    }

    /// The access that a thread needs to the object at the end of its system call's path, if it opens it or connects to it.
    pub(crate) fn asks_for(&self, thread: u32) -> Asks {
        if thread == 0 {
            return Asks::Unknown;
        }
        for _ in 0..SYSCALL_LOOKS_MAX {
            match self.read(&format!("{thread}/syscall")) {
                // The thread has sent its request, but does not sleep yet.
                Ok(text) if text.starts_with("running") => std::thread::sleep(SYSCALL_PAUSE),
                Ok(text) => return asked_by(&text),
                Err(_) => return Asks::Unknown,
            }
        }
        Asks::Unknown
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

/// System calls that need no right to the object at the end of their path. All other calls count as needing one: a program may
/// make 32-bit calls, which have other numbers.
const NAME_ONLY: &[i64] = &[
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_readlinkat,
    libc::SYS_mknodat,
    libc::SYS_mkdirat,
    libc::SYS_bind,
    libc::SYS_name_to_handle_at,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    /* fchmodat2 */ 452,
];
#[cfg(target_arch = "x86_64")]
const NAME_ONLY_OLD: &[i64] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_readlink,
    libc::SYS_mknod,
    libc::SYS_mkdir,
];
#[cfg(not(target_arch = "x86_64"))]
const NAME_ONLY_OLD: &[i64] = &[];

/// Decodes /proc/PID/syscall: the number of the system call, its six arguments, stack pointer and program counter
/// (proc_pid_syscall(5)).
fn asked_by(text: &str) -> Asks {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some(number) = words.first().and_then(|word| word.parse::<i64>().ok()) else { return Asks::Unknown };
    let argument = |place: usize| u64::from_str_radix(words.get(place + 1)?.trim_start_matches("0x"), 16).ok();
    if argument(6).is_none_or(|stack| stack <= u32::MAX.into()) {
        return Asks::Unknown; // a program of 32 bits
    }
    match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => argument(1).map_or(Asks::Unknown, by_flags),
        libc::SYS_openat => argument(2).map_or(Asks::Unknown, by_flags),
        libc::SYS_connect | libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => {
            Asks::Access { read: false, write: true }
        }
        number if NAME_ONLY.contains(&number) || NAME_ONLY_OLD.contains(&number) => Asks::Nothing,
        _ => Asks::Unknown,
    }
}

fn by_flags(flags: u64) -> Asks {
    let flags = flags as i32;
    // A descriptor opened with O_PATH can be opened again by its name in /proc, and the kernel sends no request for that.
    let access = if flags & libc::O_PATH == 0 { flags & libc::O_ACCMODE } else { libc::O_RDWR };
    Asks::Access { read: access != libc::O_WRONLY, write: access != libc::O_RDONLY }
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
    fn a_system_call_says_what_it_asks_for() {
        let of = |number: i64, arguments: &str| asked_by(&format!("{number} {arguments} 0x7ffc00000000 0x401000"));
        assert_eq!(of(libc::SYS_openat, "0xffffff9c 0x55 0x80001 0x0 0x0 0x0"), Asks::Access { read: false, write: true });
        assert_eq!(of(libc::SYS_openat, "0xffffff9c 0x55 0x800 0x0 0x0 0x0"), Asks::Access { read: true, write: false });
        assert_eq!(
            of(libc::SYS_openat, "0xffffff9c 0x55 0x200000 0x0 0x0 0x0"),
            Asks::Access { read: true, write: true },
            "O_PATH"
        );
        assert_eq!(of(libc::SYS_connect, "0x3 0x55 0x6e 0x0 0x0 0x0"), Asks::Access { read: false, write: true });
        assert_eq!(of(libc::SYS_statx, "0xffffff9c 0x55 0x0 0x0 0x0 0x0"), Asks::Nothing);
        assert_eq!(asked_by(&format!("{} 0x1 0x2 0x0 0x0 0x0 0x0 0xffffd000 0xf7f0", libc::SYS_statx)), Asks::Unknown, "32 bits");
        assert_eq!(of(libc::SYS_openat2, "0xffffff9c 0x55 0x55 0x18 0x0 0x0"), Asks::Unknown);
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
