//! Signals held back from a thread, for sections in which no handler may run.

use super::raw::call;

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
