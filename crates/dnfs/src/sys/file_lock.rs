//! A lock between processes that dies with its holder.

use super::fd::Fd;
use super::local_file::{CPath, Errno, flock, open};
use super::raw::call;
use core::ops::Deref;

/// Signals held back from this thread until dropped, so that no handler runs inside a locked section.
pub(crate) struct SignalsBlocked(u64);

impl SignalsBlocked {
    /// By instruction: rustix has no such call, and libc's would leave its own signals unblocked and may be replaced.
    pub(crate) fn new() -> Self {
        let all = u64::MAX;
        let mut before = 0u64;
        let how = libc::SIG_BLOCK as usize;
        // SAFETY: both sets are 8 bytes, the kernel's size of a signal set, and ours.
        unsafe { call(libc::SYS_rt_sigprocmask, [how, &raw const all as usize, &raw mut before as usize, 8, 0, 0]) };
        Self(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let how = libc::SIG_SETMASK as usize;
        // SAFETY: the set is 8 bytes and ours.
        unsafe { call(libc::SYS_rt_sigprocmask, [how, &raw const self.0 as usize, 0, 8, 0, 0]) };
    }
}

/// A lock that dies with its holder: `flock` on a fresh open of a file; signals are held back meanwhile.
pub(crate) struct FileLock {
    fd: Fd,
    _signals: Option<SignalsBlocked>,
}

impl FileLock {
    /// Waits for the lock of this file, makes the file when missing, and lets signals through: for work that may wait
    /// for a server.
    pub(crate) fn wait_with_signals(path: &CPath) -> Result<Self, Errno> {
        let fd = open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?;
        flock(&fd, libc::LOCK_EX)?;
        Ok(Self { fd, _signals: None })
    }

    /// Waits for the lock of this file; makes the file when missing.
    pub(crate) fn wait(path: &CPath) -> Result<Self, Errno> {
        let signals = SignalsBlocked::new();
        let fd = open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?;
        flock(&fd, libc::LOCK_EX)?;
        Ok(Self { fd, _signals: Some(signals) })
    }

    /// The same if nobody holds it; none when somebody does.
    pub(crate) fn attempt(path: &CPath) -> Result<Option<Self>, Errno> {
        let signals = SignalsBlocked::new();
        let fd = open(path, libc::O_RDWR | libc::O_CREAT, 0o600)?;
        match flock(&fd, libc::LOCK_EX | libc::LOCK_NB) {
            Ok(()) => Ok(Some(Self { fd, _signals: Some(signals) })),
            Err(Errno(libc::EWOULDBLOCK)) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlocked by name: a child forked meanwhile shares the open file and would keep the lock.
        let _ = flock(&self.fd, libc::LOCK_UN);
    }
}

impl Deref for FileLock {
    type Target = Fd;

    fn deref(&self) -> &Fd {
        &self.fd
    }
}
