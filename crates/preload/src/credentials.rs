//! The credentials of the process for servers: those with which it began, and later ones. Each open
//! file keeps the credentials with which it was opened, over dup, fork and exec too
//! (docs/design/012-users.md).

use crate::messages::{trace, warn};
use crate::outcome::Out;
use crate::raw;
use dnfs::Credentials;
use dnfs::mount::Mount;
use dnfs::user_namespace::user_outside;
use libc::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of credentials of one process. A process with more is refused paths on mounts.
pub(crate) const KNOWN_MAX: usize = 64;
/// Number of the credentials with which a process began.
pub(crate) const FIRST: usize = 0;

static KNOWN: [OnceLock<Credentials>; KNOWN_MAX] = [const { OnceLock::new() }; KNOWN_MAX];
static CURRENT: AtomicUsize = AtomicUsize::new(UNKNOWN);

const UNKNOWN: usize = usize::MAX;
const TOO_MANY: usize = usize::MAX - 1;

/// Sets the signal for a description's readiness (fcntl(2); the libc crate lacks it). A directory is never ready, so the number
/// can identify the user that opened it.
pub(crate) const F_SETSIG: c_int = 10;
/// Returns that signal.
pub(crate) const F_GETSIG: c_int = 11;

/// Number of the current credentials of the process.
///
/// # Errors
/// EACCES if the process has had too many, or shares its parent's memory and is another user.
pub(crate) fn current() -> Result<usize, Out> {
    if CURRENT.load(Ordering::Acquire) == UNKNOWN {
        let first = number_of(&Credentials::of_process()).unwrap_or(TOO_MANY);
        let _ = CURRENT.compare_exchange(UNKNOWN, first, Ordering::AcqRel, Ordering::Acquire);
    }
    match CURRENT.load(Ordering::Acquire) {
        // A child that shares its parent's memory may be another user.
        number if dnfs::shares_memory() && known(number).is_none_or(|who| Some(who.uid) != user_outside(raw::geteuid())) => {
            Err(Out::Errno(libc::EACCES))
        }
        TOO_MANY => Err(Out::Errno(libc::EACCES)),
        number => Ok(number),
    }
}

/// The credentials with this number.
pub(crate) fn known(number: usize) -> Option<&'static Credentials> {
    KNOWN.get(number)?.get()
}

/// The number of these credentials, assigned if they are new. `None` if there are too many.
pub(crate) fn number_of(who: &Credentials) -> Option<usize> {
    KNOWN.iter().position(|known| {
        if known.get().is_none() {
            let _ = known.set(who.clone()); // unless another thread was faster
        }
        known.get() == Some(who)
    })
}

/// The credentials with which an inherited description was opened.
pub(crate) fn of_inherited(fd: c_int, mount: &Mount) -> usize {
    let marked = raw::control(fd, F_GETSIG, 0).ok().and_then(|signal| u32::try_from(signal).ok()?.checked_sub(1));
    marked.and_then(|number| number_of(&mount.credentials_of_number(number)?)).unwrap_or(FIRST)
}

/// Stores the credentials in the description, for processes that inherit it.
pub(crate) fn mark(fd: c_int, mount: &Mount) {
    let Some(number) = mount.credentials_number() else { return };
    if raw::control(fd, F_GETSIG, 0) == Ok(0) {
        let _ = raw::control(fd, F_SETSIG, number as usize + 1);
    }
}

/// Notes that the process has other credentials.
pub(crate) fn changed() {
    if dnfs::shares_memory() {
        return; // the list belongs to the parent
    }
    let who = Credentials::of_process();
    let number = number_of(&who).unwrap_or_else(|| {
        warn(format_args!("the process had more than {KNOWN_MAX} users and groups; as uid {} it reaches no mount", who.uid));
        TOO_MANY
    });
    trace!("calls are those of uid {} gid {} from now on", who.uid, who.gid);
    CURRENT.store(number, Ordering::Release);
}
