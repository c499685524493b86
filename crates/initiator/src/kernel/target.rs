//! Sessions with a target: made, ended, and what they carry.

use super::device::KernelDevice;
use super::error::KernelError;
use super::node::{self, Login, Node};
use super::sessions::{self, Disk, Session, sessions_of};
use super::settings::{Portal, Settings};
use super::waiting::{Nobody, Waiting, until};
use std::time::Duration;

/// Longest time until a session is seen that iscsiadm has told of.
const SEEN_MAX: Duration = Duration::from_secs(10);

/// Refuses a target that somebody else uses: `own` are the numbers of sessions that are not somebody else's.
///
/// # Errors
/// [`KernelError::OthersSession`].
pub fn check_unused(target: &str, own: &[u32]) -> Result<(), KernelError> {
    let other = sessions_of(target).into_iter().find(|session| !own.contains(&session.number));
    other.map_or(Ok(()), |session| Err(KernelError::OthersSession { target: target.to_owned(), number: session.number }))
}

/// Makes a record of a node and a session by it, whose number it returns. No LUN comes by itself.
///
/// # Errors
/// [`KernelError::OthersRecord`], and then nothing was made. Of [`KernelError::Failed`] and the others [`release`] undoes what was done.
pub fn log_in(target: &str, portal: Portal, settings: &Settings, waiting: &dyn Waiting) -> Result<u32, KernelError> {
    let before = sessions_of(target);
    let node = Node { target, portal };
    node.make(settings, waiting)?;
    let seen = || sessions_of(target).into_iter().find(|session| !before.contains(session)).map(|session| session.number);
    match node.login(waiting)? {
        Login::Done => until("the session", SEEN_MAX, waiting, seen)?
            .ok_or_else(|| KernelError::NoSession { target: target.to_owned(), portal: node.portal() }),
        // Somebody was faster.
        Login::Exists => {
            let number = before.first().map(|session| session.number).or_else(seen).unwrap_or_default();
            Err(KernelError::OthersSession { target: target.to_owned(), number })
        }
    }
}

/// Ends a session that [`log_in`] made, and deletes the record that it was made by; either may be gone. Without a number, as when `log_in` did
/// not come to its end, it is any session over that portal.
///
/// # Errors
/// [`KernelError::Failed`], [`KernelError::Late`]: it is still there.
pub fn release(target: &str, portal: Portal, number: Option<u32>) -> Result<(), KernelError> {
    let is_it = |session: &Session| match number {
        Some(number) => session.number == number,
        None => session.portal == Some(portal.address),
    };
    for session in sessions_of(target).into_iter().filter(is_it) {
        node::log_out(session.number, &Nobody)?;
    }
    Node { target, portal }.forget(&Nobody)
}

/// What else sessions of a target carry than some LUNs of it.
#[must_use]
pub fn other_devices(numbers: &[u32], luns: &[u16]) -> Vec<KernelDevice> {
    let is_other = |disk: &Disk| !luns.iter().any(|lun| sessions::unit_of(*lun) == disk.unit);
    KernelDevice::of_disks(numbers.iter().flat_map(|number| sessions::disks_of(*number)).filter(is_other).collect())
}

/// What waits for a path to a target that is nobody else's fails now, and from then on.
pub fn fail_without_paths(target: &str) {
    devices_of(target).iter().for_each(KernelDevice::fail_without_path);
}

/// Ends all sessions with a target that is nobody else's, whatever uses its disks, deletes its records, and removes the multipath devices that stood on
/// its disks.
///
/// # Errors
/// [`KernelError::Failed`], [`KernelError::Late`]: something is left.
pub fn take_away(target: &str) -> Result<(), KernelError> {
    let devices = devices_of(target);
    let ended = sessions_of(target).into_iter().try_for_each(|session| node::log_out(session.number, &Nobody));
    let ended = ended.and_then(|()| node::forget_all(target, &Nobody));
    devices.iter().try_for_each(KernelDevice::remove_map)?;
    ended
}

fn devices_of(target: &str) -> Vec<KernelDevice> {
    KernelDevice::of_disks(sessions_of(target).into_iter().flat_map(|session| sessions::disks_of(session.number)).collect())
}
