//! Signals: blocks them in a thread, and sends them to this process.

use super::{call_with_numbers, call4, getuid, process_id, thread_id};
use crate::outcome::Errno;
use libc::c_int;

/// Blocks signals in this thread until dropped.
pub(crate) struct SignalsHeld {
    before: u64,
}

impl SignalsHeld {
    /// Blocks all signals.
    pub(crate) fn new() -> Self {
        Self { before: set_signal_mask(u64::MAX) }
    }

    /// Lets pending signals run, as a waiting system call does. Returns whether one of them ends
    /// such a call with EINTR, because its handler was installed without SA_RESTART.
    pub(crate) fn let_in(&mut self) -> bool {
        let mut pending = 0u64;
        // SAFETY: the kernel writes a signal set of eight bytes to `pending`, which lives in this frame.
        let _ = unsafe { call4(libc::SYS_rt_sigpending, std::ptr::from_mut(&mut pending) as usize, size_of::<u64>(), 0, 0) };
        pending &= !self.before;
        if pending == 0 {
            return false;
        }
        let interrupted = (1..=64).filter(|signal| pending & 1 << (signal - 1) != 0).any(ends_calls);
        set_signal_mask(self.before);
        set_signal_mask(u64::MAX);
        interrupted
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        set_signal_mask(self.before);
    }
}

fn set_signal_mask(mask: u64) -> u64 {
    let (mut before, how) = (0u64, libc::SIG_SETMASK as usize);
    let (mask, old) = (std::ptr::from_ref(&mask) as usize, std::ptr::from_mut(&mut before) as usize);
    // SAFETY: both signal sets have the kernel's eight bytes and outlive the call.
    let _ = unsafe { call4(libc::SYS_rt_sigprocmask, how, mask, old, size_of::<u64>()) };
    before
}

/// Whether a signal has a handler after which a waiting call is not restarted.
fn ends_calls(signal: usize) -> bool {
    let mut action = [0usize; 4]; // the kernel's: handler, flags, restorer, mask
    // SAFETY: `action` has room for the kernel's action; no new one is given.
    let known = unsafe { call4(libc::SYS_rt_sigaction, signal, 0, action.as_mut_ptr() as usize, size_of::<u64>()) }.is_ok();
    let [handler, flags, ..] = action;
    known && handler != libc::SIG_DFL && handler != libc::SIG_IGN && flags & libc::SA_RESTART as usize == 0
}

/// Sends a signal to this thread.
pub(crate) fn signal_this_thread(signal: c_int) {
    let (process, thread) = (process_id() as usize, thread_id() as usize);
    let _ = call_with_numbers(libc::SYS_tgkill, process, thread, signal as usize);
}

/// Sends a signal with its value to this process, for finished asynchronous I/O.
pub(crate) fn queue_signal(signal: c_int, value: libc::sigval) -> Result<(), Errno> {
    /// `siginfo_t` in the form in which the kernel takes it from a sender: number, error, code,
    /// process, user, value.
    #[repr(C)]
    struct Information {
        signal: c_int,
        error: c_int,
        code: c_int,
        padding: c_int,
        process: i32,
        user: u32,
        value: libc::sigval,
        unused: [u64; 12],
    }
    const _: () = assert!(size_of::<Information>() == size_of::<libc::siginfo_t>());
    let process = call_with_numbers(libc::SYS_getpid, 0, 0, 0).unwrap_or(0);
    let (code, user, unused) = (libc::SI_ASYNCIO, getuid(), [0; 12]);
    let information = Information { signal, error: 0, code, padding: 0, process: process as i32, user, value, unused };
    let at = std::ptr::from_ref(&information) as usize;
    // SAFETY: the information outlives the call, which only reads it.
    unsafe { call4(libc::SYS_rt_sigqueueinfo, process, signal as usize, at, 0) }.map(drop)
}
