//! The outcomes of a hook: a result, an errno, or a call of libc.

use libc::{c_int, off_t};
use media::Kind;

/// An errno.
pub(crate) type Errno = c_int;

/// A call that libc executes and whose result then waits for a modelled medium (`medium`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    /// Number of the medium.
    pub(crate) index: usize,
    /// The descriptor.
    pub(crate) fd: c_int,
    /// Inode of its file.
    pub(crate) file: u64,
    /// The kind of access.
    pub(crate) kind: Kind,
    /// Offset. `None`: the descriptor's own.
    pub(crate) at: Option<off_t>,
    /// When the call began, by [`crate::raw::monotonic_ns`].
    pub(crate) came_ns: u64,
}

/// Why a hook has no result of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    /// The call is not for this library: libc executes it.
    Pass,
    /// The call is not for this library: libc executes it, and then the caller waits for a modelled medium.
    Timed(Timed),
    /// The call failed with this errno.
    Errno(Errno),
}

impl From<Errno> for Out {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The value that a libc function returns on failure.
pub(crate) trait Failure {
    /// That value.
    const FAILED: Self;

    /// The `errno` after this result, if the function sets one although it did not fail.
    fn errno_left(&self) -> Option<Errno> {
        None
    }

    /// The result as a number. `None` for a failure.
    fn count(&self) -> Option<u64> {
        None
    }
}

macro_rules! failures { ($($type:ty => $value:expr),*) => { $(impl Failure for $type {
    const FAILED: Self = $value;
    fn count(&self) -> Option<u64> { u64::try_from(*self).ok().filter(|_| *self != Self::FAILED) }
})* } }
failures!(i32 => -1, i64 => -1, isize => -1, u32 => u32::MAX, usize => 0);

impl Failure for () {
    const FAILED: Self = ();
}

impl<T> Failure for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

impl<T> Failure for *const T {
    const FAILED: Self = std::ptr::null();
}

/// Converts the kernel's result of a system call to that of libc's function.
pub(crate) trait FromKernel: Failure + Sized {
    /// The result of a successful call.
    fn of_success(answer: isize) -> Self;

    /// The failure with `errno` set, or the result.
    fn from_kernel(answer: isize) -> Self {
        if (-4095..0).contains(&answer) {
            set_errno(-answer as Errno);
            return Self::FAILED;
        }
        Self::of_success(answer)
    }
}

macro_rules! from_kernel { ($($type:ty),*) => { $(impl FromKernel for $type {
    fn of_success(answer: isize) -> Self { answer as Self }
})* } }
from_kernel!(i32, i64, isize, u32);

impl FromKernel for () {
    fn of_success(_answer: isize) -> Self {}
}

impl<T> FromKernel for *mut T {
    fn of_success(answer: isize) -> Self {
        std::ptr::with_exposed_provenance_mut(answer as usize)
    }
}

/// libc's `errno`.
pub(crate) fn errno() -> Errno {
    // SAFETY: libc returns the address of this thread's errno, which is always valid.
    unsafe { *libc::__errno_location() }
}

/// Sets libc's `errno`.
pub(crate) fn set_errno(value: Errno) {
    // SAFETY: libc returns the address of this thread's errno, which is always valid.
    unsafe { *libc::__errno_location() = value }
}

/// The result of a libc function that this library called: a failure becomes its errno.
pub(crate) fn kept<R: Failure + PartialEq>(answer: R) -> Result<R, Out> {
    if answer == R::FAILED { Err(Out::Errno(errno())) } else { Ok(answer) }
}
