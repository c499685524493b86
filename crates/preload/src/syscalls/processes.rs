//! Calls that create or end a process, execute a program, or change the user.

use super::{Answer, Arguments, given};
use crate::outcome::Out;
use crate::{close, exec, file_size_limit, kernel_aio, processes, shared_maps, users};
use libc::{c_int, c_long};

/// # Safety
/// As [`super::dispatch`].
pub(super) unsafe fn by_number(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, d, e, _] = arguments;
    // SAFETY: the arguments are as the system call of this number requires, by the caller's promise.
    unsafe {
        match number {
            libc::SYS_execve => given(exec::execve::by_number(a as _, b as _, c as _)),
            libc::SYS_execveat => given(exec::execveat::by_number(a as c_int, b as _, c as _, d as _, e as c_int)),
            libc::SYS_exit_group => {
                kernel_aio::drain();
                shared_maps::write_all();
                close::send_gathered();
                None
            }
            // The kernel changes only the calling thread. Calls on a mount then use the new user
            // for the whole process.
            libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups => {
                Some(users::change(|| super::syscall::real(number, a, b, c, 0, 0, 0) as c_int).map(c_long::from))
            }
            libc::SYS_setrlimit => given(file_size_limit::setrlimit::by_number(a as c_int, b as _)),
            libc::SYS_prlimit64 => given(file_size_limit::prlimit::by_number(a as _, b as c_int, c as _, d as _)),
            _ => match processes::by_number(number, a, b, c, d, e) {
                Err(Out::Pass) => None,
                made => Some(made),
            },
        }
    }
}
