//! syscall(2): a number is handled like libc's function of that name. Programs use numbers if their
//! libc has no function for a call, or if libc's function does more than the call. If a hook would
//! pass a call to libc's function, the call goes to the kernel here.

mod data;
mod names;
#[cfg(target_arch = "x86_64")]
mod old_names;
mod processes;
mod sockets;

use crate::hook::hooks;
use crate::outcome::Out;
use libc::c_long;

/// The arguments of a system call.
type Arguments = [usize; 6];
/// The result of a call by number. `None` if this file does not handle the number.
type Answer = Option<Result<c_long, Out>>;

/// Converts the result of a hook to that of syscall(2).
fn given<R: TryInto<c_long>>(answer: Result<R, Out>) -> Answer {
    Some(answer.and_then(|answer| answer.try_into().map_err(|_| Out::Errno(libc::EOVERFLOW))))
}

/// # Safety
/// The arguments are as the system call of this number requires.
unsafe fn dispatch(number: c_long, arguments: Arguments) -> Result<c_long, Out> {
    // SAFETY: the arguments are as the system call requires, by the caller's promise; each function
    // gets those of its number.
    unsafe {
        let answer = data::by_number(number, arguments).or_else(|| names::by_number(number, arguments));
        #[cfg(target_arch = "x86_64")]
        let answer = answer.or_else(|| old_names::by_number(number, arguments));
        let answer = answer.or_else(|| sockets::by_number(number, arguments)).or_else(|| processes::by_number(number, arguments));
        answer.unwrap_or(Err(Out::Pass))
    }
}

hooks! {
    /// syscall(2).
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
        if !crate::mounts::any() && !crate::medium::any() { return Err(Out::Pass) }
        dispatch(number, [a, b, c, d, e, f])
    }
}
