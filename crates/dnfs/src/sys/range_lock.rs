//! Record locks of an open file description (`F_OFD_SETLK`): they last as long as it does, over dup, fork and exec.

use super::local_file::Errno;
use super::raw::call;
use rustix::fd::{AsFd, AsRawFd as _};

/// Whom a lock lets in beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Other shared ones.
    Shared,
    /// Nobody.
    Exclusive,
}

impl Kind {
    const fn number(self) -> i32 {
        match self {
            Self::Shared => libc::F_RDLCK,
            Self::Exclusive => libc::F_WRLCK,
        }
    }
}

/// Locks one byte; waits, through signals, for others' conflicting locks.
pub(crate) fn wait(fd: impl AsFd, kind: Kind, byte: i64) -> Result<(), Errno> {
    loop {
        match lock_call(&fd, libc::F_OFD_SETLKW, kind.number(), byte) {
            Err(Errno(libc::EINTR)) => {}
            done => return done.map(drop),
        }
    }
}

/// Locks one byte; false when somebody else's lock is in the way.
pub(crate) fn attempt(fd: impl AsFd, kind: Kind, byte: i64) -> Result<bool, Errno> {
    match lock_call(&fd, libc::F_OFD_SETLK, kind.number(), byte) {
        Ok(_) => Ok(true),
        Err(Errno(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Unlocks one byte.
pub(crate) fn unlock(fd: impl AsFd, byte: i64) -> Result<(), Errno> {
    lock_call(&fd, libc::F_OFD_SETLK, libc::F_UNLCK, byte).map(drop)
}

/// Whether another description has a lock of this byte, of either kind. The asking one need not be open for writing.
pub(crate) fn is_locked_elsewhere(fd: impl AsFd, byte: i64) -> Result<bool, Errno> {
    lock_call(&fd, libc::F_OFD_GETLK, libc::F_WRLCK, byte).map(|found| i32::from(found.l_type) != libc::F_UNLCK)
}

/// `fcntl(2)` with a lock of one byte, by hand: rustix has only the locks that belong to a process.
fn lock_call(fd: &impl AsFd, operation: i32, kind: i32, byte: i64) -> Result<libc::flock, Errno> {
    let mut range = libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: byte, l_len: 1, l_pid: 0 };
    let fd = fd.as_fd().as_raw_fd() as usize;
    // SAFETY: `range` is ours to be read and written.
    let result = unsafe { call(libc::SYS_fcntl, [fd, operation as usize, &raw mut range as usize, 0, 0, 0]) };
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(range) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::local_file::{CPath, open};
    use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};

    static RUNG: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handler(_signal: i32) {
        RUNG.fetch_add(1, SeqCst);
    }

    /// An exclusive create must not fail once it has made the file: the second try would find it.
    #[test]
    fn wait_goes_on_through_signals_whose_handlers_end_calls() {
        let path = std::env::temp_dir().join(format!("millrace-range-lock-{:016x}", crate::sys::random::random()));
        let path = CPath::new(path.as_os_str().as_encoded_bytes());
        let fresh = || open(&path, libc::O_RDWR | libc::O_CREAT, 0o600).unwrap();
        let held = fresh();
        wait(&held, Kind::Exclusive, 7).unwrap();
        // SAFETY: a handler that only counts, without SA_RESTART; plain integers, of which zero is valid.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut());
        }
        let waiter = AtomicI32::new(0);
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                // SAFETY: no pointers.
                waiter.store(unsafe { libc::gettid() }, SeqCst);
                wait(fresh(), Kind::Shared, 7)
            });
            while RUNG.load(SeqCst) < 3 {
                // SAFETY: no pointers; the thread lives until it is joined, and its handler is installed.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), waiter.load(SeqCst), libc::SIGUSR2) };
                crate::sys::clock::sleep(core::time::Duration::from_millis(1));
            }
            assert!(!done.is_finished());
            unlock(&held, 7).unwrap();
            done.join().unwrap().unwrap();
        });
        crate::sys::local_file::unlink(&path).unwrap();
    }
}
