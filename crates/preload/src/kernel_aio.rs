//! Kernel AIO on files of a mount: libaio's functions, and the system calls below them.
//!
//! If there is a mount, io_setup creates a context of this library, which contains a context of the kernel for other
//! descriptors. A thread of the context (the only helper thread in a program) executes the requests, many in flight together.
//! io_getevents, or the program itself, takes events from a ring in memory (`ring`). As with the kernel, a context does not
//! survive fork.
//!
//! The kernel executes a write that is neither O_DIRECT nor stable before io_submit returns; this library does the same.

mod batch;
mod context;
mod hooks;
mod pin;
mod request;
mod ring;
mod waiting;
mod worker;

pub(crate) use context::{Context, Submitted, after_fork_child, drain};
pub(crate) use request::{Event, Iocb, Work};

use crate::outcome::{Errno, Out};
use crate::{ffi, mounts};
use libc::{c_int, c_long, timespec};

/// io_setup(2): creates a context for `events` requests at once and writes its number to `into`, which must be 0 before.
///
/// # Errors
/// Those of io_setup(2).
///
/// # Safety
/// `into` is NULL, or eight readable and writable bytes.
pub(crate) unsafe fn setup(events: u32, into: *mut usize) -> Result<c_long, Errno> {
    // SAFETY: `into` is NULL or readable by the caller's promise.
    match unsafe { ffi::take(into) } {
        None => return Err(libc::EFAULT),
        Some(0) if events > 0 => {}
        Some(_) => return Err(libc::EINVAL),
    }
    let context = Context::open(events)?;
    // SAFETY: `into` is writable by the caller's promise.
    unsafe { into.write_unaligned(context.number()) };
    Ok(0)
}

/// io_destroy(2). Waits for requests in flight.
///
/// # Errors
/// EINVAL if this process has no such context.
pub(crate) fn destroy(context: usize) -> Result<c_long, Errno> {
    Context::find(context)?.close().map(|()| 0)
}

/// io_submit(2). Returns the number of accepted requests.
///
/// # Errors
/// The error of the first request, if it was not accepted.
///
/// # Safety
/// `list` is an array of `count` pointers to requests, whose buffers stay valid until their events are taken.
pub(crate) unsafe fn submit(context: usize, count: c_long, list: *const *const Iocb) -> Result<c_long, Errno> {
    let context = Context::find(context)?;
    if count < 0 {
        return Err(libc::EINVAL);
    }
    let mut batch = batch::Batch::new(context);
    let mut failed = None;
    for index in 0..count as usize {
        // SAFETY: the array, its requests and their buffers are valid by the caller's promise.
        let taken = unsafe {
            match ffi::take(list.wrapping_add(index)).and_then(|at| Some((at, ffi::take(at)?))) {
                Some((at, iocb)) => batch.take(at, &iocb),
                None => Err(libc::EFAULT),
            }
        };
        if let Err(errno) = taken {
            failed = Some(errno);
            break;
        }
    }
    match (batch.submit(), failed) {
        (0, Some(errno)) => Err(errno),
        (taken, _) => Ok(taken as c_long),
    }
}

/// io_cancel(2). Requests on files cannot be cancelled, as in the kernel.
///
/// # Errors
/// Always EINVAL.
pub(crate) fn cancel(context: usize) -> Result<c_long, Errno> {
    Context::find(context)?;
    Err(libc::EINVAL)
}

/// io_getevents(2), and io_pgetevents(2) with `signals`. Writes between `least` and `most` events;
/// fewer than `least` only after `longest`.
///
/// # Errors
/// Those of io_getevents(2).
///
/// # Safety
/// `events` has room for `most` events; `longest` is NULL or a time.
pub(crate) unsafe fn get_events(
    context: usize,
    least: c_long,
    most: c_long,
    events: *mut Event,
    longest: *const timespec,
    signals: Option<u64>,
) -> Result<c_long, Errno> {
    let context = Context::find(context)?;
    if least < 0 || most < 0 || least > most {
        return Err(libc::EINVAL);
    }
    // SAFETY: `longest` is NULL or a time by the caller's promise.
    let longest = unsafe { ffi::take(longest) };
    let longest_ns = match longest {
        None => None,
        Some(time) if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) => return Err(libc::EINVAL),
        Some(time) => Some((time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)),
    };
    let mut given = 0usize;
    let mut give = |event: Event| {
        // SAFETY: `events` has room for `most` events, and fewer have been written.
        unsafe { events.add(given).write_unaligned(event) };
        given += 1;
    };
    if most > 0 && events.is_null() {
        return Err(libc::EFAULT);
    }
    waiting::take(context, least as usize, most as usize, longest_ns, signals, &mut give)?;
    Ok(given as c_long)
}

/// Number of io_pgetevents(2), which the libc crate does not have.
#[cfg(target_arch = "x86_64")]
pub(crate) const SYS_IO_PGETEVENTS: c_long = 333;
/// Number of io_pgetevents(2), which the libc crate does not have.
#[cfg(target_arch = "aarch64")]
pub(crate) const SYS_IO_PGETEVENTS: c_long = 292;

/// The system calls by their numbers. [`Out::Pass`] if there is no mount.
///
/// # Safety
/// The arguments are as the system call of this number requires.
pub(crate) unsafe fn by_number(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> Result<c_long, Out> {
    if !is_ours() {
        return Err(Out::Pass);
    }
    // SAFETY: the arguments are as the system call requires, by the caller's promise.
    let outcome = unsafe {
        match number {
            libc::SYS_io_setup => setup(a as u32, b as _),
            libc::SYS_io_destroy => destroy(a),
            libc::SYS_io_submit => submit(a, b as c_long, c as _),
            libc::SYS_io_cancel => cancel(a),
            libc::SYS_io_getevents => get_events(a, b as c_long, c as c_long, d as _, e as _, None),
            _ => hooks::with_signals(a, (b as c_long, c as c_long), d as _, e as _, f as _),
        }
    };
    outcome.map_err(Out::Errno)
}

/// Whether this library creates the contexts.
fn is_ours() -> bool {
    mounts::any()
}

/// The result in the form of libaio's functions, which return a negative errno.
fn negative(outcome: Result<c_long, Errno>) -> c_int {
    outcome.map_or_else(|errno| -errno, |answer| answer as c_int)
}
