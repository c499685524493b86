//! Makes and ends sessions with a target, and lists what uses them.

use super::device::KernelDevice;
use super::error::KernelError;
use super::node::{self, Login, Node};
use super::sessions::{self, Disk, Session, sessions_of};
use super::settings::{Portal, Settings};
use super::waiting::{Nobody, Waiting, until};
use std::time::Duration;

/// Longest time until sysfs shows a session that iscsiadm has reported.
const SEEN_MAX: Duration = Duration::from_secs(10);

/// Refuses a target that another program uses. `own` has the numbers of the caller's sessions.
///
/// # Errors
/// [`KernelError::OthersSession`].
pub fn check_unused(target: &str, own: &[u32]) -> Result<(), KernelError> {
    let other = sessions_of(target).into_iter().find(|session| !own.contains(&session.number));
    other.map_or(Ok(()), |session| Err(KernelError::OthersSession { target: target.to_owned(), number: session.number }))
}

/// Makes a record of a node and a session with it. Returns the number of the session, which shows
/// no LUN by itself.
///
/// # Errors
/// [`KernelError::OthersRecord`]: nothing was made. After [`KernelError::Failed`] and the others, [`release`] undoes what was
/// done.
pub fn log_in(target: &str, portal: Portal, settings: &Settings, waiting: &dyn Waiting) -> Result<u32, KernelError> {
    let before = sessions_of(target);
    let node = Node { target, portal };
    node.make(settings, waiting)?;
    let seen = || sessions_of(target).into_iter().find(|session| !before.contains(session)).map(|session| session.number);
    match node.login(waiting)? {
        Login::Done => until("the session", SEEN_MAX, waiting, seen)?
            .ok_or_else(|| KernelError::NoSession { target: target.to_owned(), portal: node.portal() }),
        // Another program was faster.
        Login::Exists => {
            let number = before.first().map(|session| session.number).or_else(seen).unwrap_or_default();
            Err(KernelError::OthersSession { target: target.to_owned(), number })
        }
    }
}

/// Ends a session that [`log_in`] made, and deletes its record. Either may be missing. Without a number, as after a `log_in` that
/// did not end, this ends every session over that portal.
///
/// # Errors
/// [`KernelError::Failed`], [`KernelError::Late`]: the session still exists.
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

/// The devices of these sessions that are not among these LUNs of the target.
#[must_use]
pub fn other_devices(numbers: &[u32], luns: &[u16]) -> Vec<KernelDevice> {
    let is_other = |disk: &Disk| !luns.iter().any(|lun| sessions::unit_of(*lun) == disk.unit);
    KernelDevice::of_disks(numbers.iter().flat_map(|number| sessions::disks_of(*number)).filter(is_other).collect())
}

/// Makes I/O that waits for a path to a target fail now, and from then on. No other program uses
/// the target.
pub fn fail_without_paths(target: &str) {
    devices_of(target).iter().for_each(KernelDevice::fail_without_path);
}

/// Ends all sessions with a target that no other program uses, even if programs use its disks. Deletes its records, and removes
/// the multipath devices above its disks.
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
