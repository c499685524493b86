//! Blocks the signals of a thread, for sections in which no handler may run.

use super::raw::call;

/// While this exists, all signals of the thread are blocked, so that no handler runs inside a locked section.
pub(crate) struct SignalsBlocked(u64);

impl SignalsBlocked {
    /// Makes the system call itself: rustix has no such function, and libc's leaves libc's own signals unblocked and
    /// may be replaced.
    pub(crate) fn new() -> Self {
        let all = u64::MAX;
        let mut before = 0u64;
        let how = libc::SIG_BLOCK as usize;
        // SAFETY: both sets are 8 bytes, the kernel's size of a signal set, and belong to this
        // frame.
        unsafe { call(libc::SYS_rt_sigprocmask, [how, &raw const all as usize, &raw mut before as usize, 8, 0, 0]) };
        Self(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let how = libc::SIG_SETMASK as usize;
        // SAFETY: the set is 8 bytes and belongs to self.
        unsafe { call(libc::SYS_rt_sigprocmask, [how, &raw const self.0 as usize, 0, 8, 0, 0]) };
    }
}
