//! Starts a process that is independent of this one, from inside a program that must not notice. The program may be a database
//! that counts its children, has threads, and receives signals at any moment.

use super::local_file::Errno;
use super::raw::call;
use super::signals_blocked::SignalsBlocked;
use std::ffi::{CStr, CString};

/// Highest signal number of Linux.
const SIGNAL_MAX: usize = 64;
/// Number of descriptors that are closed one by one if the kernel has no `close_range` (before 5.9).
const DESCRIPTORS_CLOSED: usize = 1 << 16;

/// The arguments of the new process, prepared before the fork: nothing is allocated after it.
struct Start {
    program: *const libc::c_char,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
}

/// Starts `program` in a session of its own, with `/dev/null` as its only descriptors, default signals except that SIGTERM is
/// ignored, and `/` as working directory. It is not a child of this process, which gets no signal when it ends. Whether the
/// program could be executed is not known here.
///
/// # Errors
/// If no process could be created.
pub(crate) fn start(program: &CStr, arguments: &[CString], environment: &[CString]) -> Result<(), Errno> {
    let [arguments, environment] = [arguments, environment].map(|list| {
        let pointers = list.iter().map(|text| text.as_ptr());
        pointers.chain(core::iter::once(core::ptr::null())).collect::<Vec<_>>()
    });
    let start = Start { program: program.as_ptr(), arguments: arguments.as_ptr(), environment: environment.as_ptr() };
    // A handler of the program must not run in a child that the program does not know.
    let signals = SignalsBlocked::new();
    // SAFETY: see `fork`; the child makes system calls and never returns.
    let child = unsafe { fork() };
    if child == 0 {
        in_child(&start);
    }
    let reaped = if child > 0 { reap(child) } else { Err(Errno(-child as i32)) };
    drop(signals);
    reaped
}

/// Creates a copy of this process that no `wait` of the program sees, because its end raises no signal. Returns what
/// the kernel returns.
///
/// # Safety
/// The child may only make system calls: locks of other threads stay taken there, and the fork is not counted.
unsafe fn fork() -> isize {
    // SAFETY: no flags: memory is copied, and the child goes on with the same stack pointer in its copy.
    unsafe { call(libc::SYS_clone, [0; 6]) }
}

/// Waits for the child, which ends at once. ECHILD means that another wait with `__WALL` reaped it.
fn reap(child: isize) -> Result<(), Errno> {
    let mut status = 0i32;
    loop {
        // SAFETY: the kernel writes only `status`, which belongs to this frame.
        let found = unsafe { call(libc::SYS_wait4, [child as usize, &raw mut status as usize, libc::__WALL as usize, 0, 0, 0]) };
        match -found as i32 {
            libc::EINTR => {}
            _ if found == child && status != 0 => return Err(Errno(libc::EAGAIN)),
            _ => return Ok(()),
        }
    }
}

/// The child: creates the actual process, and ends.
fn in_child(start: &Start) -> ! {
    // SAFETY: as in `start`.
    let grandchild = unsafe { fork() };
    if grandchild == 0 {
        become_program(start);
    }
    end(usize::from(grandchild < 0))
}

/// The grandchild. Makes system calls only.
fn become_program(start: &Start) -> ! {
    let system = |number: libc::c_long, a: usize, b: usize, c: usize, d: usize| {
        // SAFETY: the callers below pass numbers, or memory of `start` and of this frame, which outlive the call.
        unsafe { call(number, [a, b, c, d, 0, 0]) }
    };
    system(libc::SYS_setsid, 0, 0, 0, 0);
    let root = c"/".as_ptr() as usize;
    system(libc::SYS_chdir, root, 0, 0, 0);
    let null = c"/dev/null".as_ptr() as usize;
    let null = system(libc::SYS_openat, libc::AT_FDCWD as usize, null, libc::O_RDWR as usize, 0);
    if null < 0 {
        end(1);
    }
    for standard in 0..3 {
        system(libc::SYS_dup3, null as usize, standard, 0, 0); // fails only if `null` already has this number
    }
    if system(libc::SYS_close_range, 3, u32::MAX as usize, 0, 0) < 0 {
        for fd in 3..DESCRIPTORS_CLOSED {
            system(libc::SYS_close, fd, 0, 0, 0);
        }
    }
    for signal in 1..=SIGNAL_MAX {
        // The kernel's sigaction: handler, flags, restorer, mask of 8 bytes.
        let handler = if signal == libc::SIGTERM as usize { libc::SIG_IGN } else { libc::SIG_DFL };
        let action = [handler as u64, 0, 0, 0];
        system(libc::SYS_rt_sigaction, signal, action.as_ptr() as usize, 0, 8);
    }
    let none = 0u64;
    system(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK as usize, &raw const none as usize, 0, 8);
    system(libc::SYS_umask, 0o077, 0, 0, 0);
    system(libc::SYS_execve, start.program as usize, start.arguments as usize, start.environment as usize, 0);
    end(1)
}

fn end(code: usize) -> ! {
    loop {
        // SAFETY: ends this process; nothing of it is used any more.
        unsafe { call(libc::SYS_exit_group, [code, 0, 0, 0, 0, 0]) };
    }
}
