//! Creates processes. A child with a copy of the memory detects the fork itself (`dnfs`, sys/fork.rs), or earlier if a hook
//! sees its creation. A child that would share the memory and the stack gets a copy instead. A child with its own stack in the
//! same memory is announced first (`before_sharing`).

use crate::hook::hooks;
use crate::outcome::{Out, kept};
use crate::{after_fork, ffi, mounts, raw, table};
use libc::{c_char, c_int, c_long, c_void, pid_t};

/// Words of `struct clone_args`, and the two that are used.
const CLONE_ARGS_WORDS: usize = 11;
const FLAGS: usize = 0;
const STACK: usize = 5;

hooks! {
    /// fork(2): libc's function, which the hook of vfork calls.
    fn fork() -> pid_t { Err(Out::Pass) }
    /// vfork(2): as fork, since the child's calls before exec would also change the parent's table.
    fn vfork() -> pid_t { kept(fork::real()) }
    /// _Fork(3): fork without its handlers.
    fn _Fork() -> pid_t { kept(real()).inspect(|pid| made_copy(*pid == 0, 0)) }
    /// clone(2) of libc: the child runs `function` on a stack of its own.
    fn clone(function: *const c_void, stack: *mut c_char, flags: c_int, argument: *mut c_void, parent: *mut c_void, tls: *mut c_void, child: *mut c_void) -> c_int {
        if flags & libc::CLONE_THREAD == 0 { table::note_copies() }
        before_sharing(flags as u64);
        Err(Out::Pass)
    }
}

/// Called in a child with a copy of the memory: does what the fork handler does. Shared descriptors stay open.
fn made_copy(is_child: bool, flags: u64) {
    table::note_copies();
    if is_child && flags & libc::CLONE_FILES as u64 == 0 {
        after_fork::in_child();
    }
}

/// Called before a child is created that shares the memory without being a thread.
fn before_sharing(flags: u64) {
    if flags & libc::CLONE_VM as u64 != 0 && flags & libc::CLONE_THREAD as u64 == 0 {
        mounts::before_sharing_memory(flags & libc::CLONE_FILES as u64 != 0);
    }
}

/// The flags for a child that would run on this stack.
const fn without_sharing(flags: u64) -> u64 {
    flags & !(libc::CLONE_VM as u64 | libc::CLONE_SIGHAND as u64)
}

/// fork, vfork and clone by syscall(2). [`Out::Pass`] for other calls, and for children with a stack of their own.
///
/// # Safety
/// The arguments are those of a caller of syscall(2), who keeps its contract.
pub(crate) unsafe fn by_number(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize) -> Result<c_long, Out> {
    // SAFETY: the pointers are those of the hook's caller; without CLONE_VM and a stack the child has a copy of everything.
    unsafe {
        let (made, flags) = match number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork => (raw::clone_copy(libc::SIGCHLD as usize, 0, 0, 0), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_vfork => (raw::clone_copy((libc::CLONE_VFORK | libc::SIGCHLD) as usize, 0, 0, 0), 0),
            libc::SYS_clone if b == 0 && a as u64 & libc::CLONE_THREAD as u64 == 0 => {
                (raw::clone_copy(without_sharing(a as u64) as usize, c, d, e), a as u64)
            }
            libc::SYS_clone => {
                before_sharing(a as u64);
                return Err(Out::Pass);
            }
            libc::SYS_clone3 => return by_record(a as *const u64, b),
            _ => return Err(Out::Pass),
        };
        let made = made?;
        made_copy(made == 0, flags);
        Ok(made as c_long)
    }
}

/// clone3.
///
/// # Safety
/// As [`by_number`].
unsafe fn by_record(record: *const u64, bytes: usize) -> Result<c_long, Out> {
    let mut words = [0u64; CLONE_ARGS_WORDS];
    let count = bytes / size_of::<u64>();
    if record.is_null() || count <= STACK || count > CLONE_ARGS_WORDS {
        return Err(Out::Pass);
    }
    for (at, word) in words.iter_mut().take(count).enumerate() {
        // SAFETY: a record of so many words by the caller's promise.
        *word = unsafe { ffi::take(record.wrapping_add(at)) }.unwrap_or(0);
    }
    let flags = words[FLAGS];
    if words[STACK] != 0 || flags & libc::CLONE_THREAD as u64 != 0 {
        before_sharing(flags);
        return Err(Out::Pass);
    }
    words[FLAGS] = without_sharing(flags);
    // SAFETY: the caller's record, without sharing the memory and without a stack.
    let made = unsafe { raw::clone3_copy(&words, bytes) }?;
    made_copy(made == 0, flags);
    Ok(made as c_long)
}
