//! Creates processes. A child with a copy of the memory detects the fork itself (`dnfs`,
//! sys/fork.rs), or earlier if a hook handles its creation. A child that would share the memory and
//! the stack gets a copy instead. Before a child with its own stack in the same memory is created,
//! the mounts prepare for it (`before_sharing`).

use crate::hook::hooks;
use crate::outcome::{Out, kept};
use crate::{after_fork, ffi, mounts, raw, table};
use libc::{c_char, c_int, c_long, c_void, pid_t};

/// Words of `struct clone_args`, and the indexes of the two that are used.
const CLONE_ARGS_WORDS: usize = 11;
const FLAGS: usize = 0;
const STACK: usize = 5;

hooks! {
    /// fork(2). The hook of vfork calls libc's function by it.
    fn fork() -> pid_t { Err(Out::Pass) }
    /// vfork(2): as fork, because the child's calls before exec would also change the parent's table.
    fn vfork() -> pid_t { kept(fork::real()) }
    /// _Fork(3): fork without the handlers of pthread_atfork.
    fn _Fork() -> pid_t { kept(real()).inspect(|pid| made_copy(*pid == 0, 0)) }
    /// libc's clone(2), in which the child runs `function` on a stack of its own.
    fn clone(function: *const c_void, stack: *mut c_char, flags: c_int, argument: *mut c_void, parent: *mut c_void, tls: *mut c_void, child: *mut c_void) -> c_int {
        if flags & libc::CLONE_THREAD == 0 { table::note_copies() }
        before_sharing(flags as u64);
        Err(Out::Pass)
    }
}

/// Called after a child with a copy of the memory was made, in the parent and in the child. Does
/// what the fork handlers do. Descriptors that both share stay open.
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

/// The flags for a child that would run on this stack: without shared memory and signal handlers.
const fn without_sharing(flags: u64) -> u64 {
    flags & !(libc::CLONE_VM as u64 | libc::CLONE_SIGHAND as u64)
}

/// fork, vfork and clone by syscall(2). [`Out::Pass`] for other calls, and for children with a stack of their own.
///
/// # Safety
/// The arguments are as the system call of this number requires.
pub(crate) unsafe fn by_number(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize) -> Result<c_long, Out> {
    // SAFETY: the addresses are valid by the caller's promise; without CLONE_VM and a stack, the
    // child has a copy of all memory.
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

/// clone3(2) by syscall(2).
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
        // SAFETY: the record has that many words by the caller's promise.
        *word = unsafe { ffi::take(record.wrapping_add(at)) }.unwrap_or(0);
    }
    let flags = words[FLAGS];
    if words[STACK] != 0 || flags & libc::CLONE_THREAD as u64 != 0 {
        before_sharing(flags);
        return Err(Out::Pass);
    }
    words[FLAGS] = without_sharing(flags);
    // SAFETY: the record's addresses are valid by the caller's promise; the copy shares no memory
    // and gives no stack.
    let made = unsafe { raw::clone3_copy(&words, bytes) }?;
    made_copy(made == 0, flags);
    Ok(made as c_long)
}
