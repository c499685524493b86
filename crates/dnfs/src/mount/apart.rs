//! Finds mounts of the same file system on this host that do not share its state: those of other users, and of containers that do
//! not see each other's memory. Each keeper binds a name in the abstract socket namespace (unix(7)). Every process in its network
//! namespace can list the name, which ends with the keeper. The keeper answers there whether programs use its mount, and whether
//! they hold record locks, which another mount would not respect. Any process can bind such a name, so the answer serves only a
//! warning and a refusal that the user can overrule.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use super::keeper_process::Place;
use super::owner_locks::has_record_locks;
use super::unused::has_open_files;
use super::url_roots::file_system_number;
use crate::client_state::MountParts;
use crate::segment::Segment;
use crate::sys::random::random;

const PREFIX: &str = "millrace-mount";
/// Used in place of an owner, so that a file system has the same number for all users.
const ANYBODY: u32 = u32::MAX;
/// Timeout for the answer about locks, so that a stopped keeper does not block the caller.
const ANSWER: Duration = Duration::from_secs(1);

/// A keeper's answer: programs use the mount.
const USED: u8 = 0;
/// A keeper's answer: programs use the mount and hold record locks.
const HOLDS_LOCKS: u8 = 1;
/// A keeper's answer: no program uses the mount. Older keepers give only the other two answers.
const UNUSED: u8 = 2;

/// A mount of the same file system that programs use and that does not share this mount's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountedApart {
    /// The user that mounted it.
    pub uid: u32,
    /// Its programs hold record locks.
    pub holds_locks: bool,
}

/// The names that a keeper has bound, one for each address of the server. Dropping this releases
/// them.
#[derive(Debug)]
pub(super) struct Announcement {
    names: Vec<UnixDatagram>,
    ended: Arc<AtomicBool>,
}

impl Announcement {
    /// Announces this user's mount, whose state lies below `runtime_root`. `None` while a keeper that is ending still has the
    /// name.
    pub(super) fn make(parts: &MountParts, runtime_root: &Path, uid: u32, segment: &Segment) -> Option<Self> {
        let place = place_of(runtime_root)?;
        let bind = |number: u64| {
            let address = SocketAddr::from_abstract_name(format!("{PREFIX}/{number:016x}/{place}/{uid}")).ok()?;
            UnixDatagram::bind_addr(&address).ok()
        };
        let names: Vec<UnixDatagram> = numbers_of(parts).into_iter().map(bind).collect::<Option<_>>()?;
        let made = Self { names, ended: Arc::default() };
        for name in &made.names {
            name.set_write_timeout(Some(ANSWER)).ok()?;
            let (name, segment, ended) = (name.try_clone().ok()?, segment.clone(), Arc::clone(&made.ended));
            std::thread::Builder::new().name("locks".into()).spawn(move || answer(&name, &segment, &ended)).ok()?;
        }
        Some(made)
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        for name in &self.names {
            let _ = name.shutdown(std::net::Shutdown::Both); // ends the receive of its thread
        }
    }
}

/// Answers how the mount is used, until `ended`. Any process may send any datagram to the name, including an empty one.
fn answer(name: &UnixDatagram, segment: &Segment, ended: &AtomicBool) {
    let mut question = [0];
    while let Ok((_, from)) = name.recv_from(&mut question) {
        if ended.load(SeqCst) {
            return;
        }
        let _ = name.send_to_addr(&[use_of(segment)], &from);
    }
}

/// How a mount is used. A program that has touched no file since exec holds no `users.lock`, but may have a file open.
fn use_of(segment: &Segment) -> u8 {
    if has_record_locks(segment) {
        return HOLDS_LOCKS;
    }
    let is_unused = Place::without_users(segment.directory()).is_some() && has_open_files(segment).is_ok_and(|has| !has);
    if is_unused { UNUSED } else { USED }
}

/// Asks the keeper of this name how its mount is used.
///
/// # Errors
/// No answer within [`ANSWER`]; no such name.
fn ask(name: &str) -> io::Result<u8> {
    let own = SocketAddr::from_abstract_name(format!("{PREFIX}-asks/{:016x}", random()))?;
    let socket = UnixDatagram::bind_addr(&own)?;
    socket.set_read_timeout(Some(ANSWER))?;
    socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    socket.send(&[0])?;
    let mut answer = [USED];
    socket.recv(&mut answer)?;
    Ok(answer[0])
}

/// The numbers of a file system: one for each address of its server.
fn numbers_of(parts: &MountParts) -> Vec<u64> {
    let addresses = std::iter::once(parts.server).chain(parts.addresses.servers());
    let mut numbers: Vec<u64> = addresses.map(|address| file_system_number(address, parts.fsid, ANYBODY)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Lists the mounts of this file system in this network namespace that programs use and whose state is not below `runtime_root`:
/// they share neither locks nor sizes with this mount. Each user is listed once. A keeper that does not answer counts as used.
#[must_use]
pub fn mounted_apart(parts: &MountParts, runtime_root: &Path) -> Vec<MountedApart> {
    let here = place_of(runtime_root).unwrap_or_default();
    let sockets = std::fs::read("/proc/net/unix").unwrap_or_default();
    let sockets = String::from_utf8_lossy(&sockets);
    let names: Vec<(u32, String)> = numbers_of(parts).into_iter().flat_map(|number| apart(&sockets, number, &here)).collect();
    let used = |(uid, name): (u32, String)| {
        let answer = ask(&name).unwrap_or(USED);
        (answer != UNUSED).then_some(MountedApart { uid, holds_locks: answer == HOLDS_LOCKS })
    };
    let mut found: Vec<MountedApart> = names.into_iter().filter_map(used).collect();
    // Of several mounts of one user, one that holds locks counts.
    found.sort_by_key(|apart| (apart.uid, !apart.holds_locks));
    found.dedup_by_key(|apart| apart.uid);
    found
}

/// The users whose keepers announce this number from another place than `here`, with the names of
/// the keepers.
fn apart(sockets: &str, number: u64, here: &str) -> Vec<(u32, String)> {
    let prefix = format!("{PREFIX}/{number:016x}/");
    let names = sockets.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'));
    names
        .filter_map(|name| Some((name, name.strip_prefix(&prefix)?.split_once('/')?)))
        .filter(|(_, (place, _))| *place != here)
        .filter_map(|(name, (_, uid))| Some((uid.parse().ok()?, name.to_owned())))
        .collect()
}

/// Identifies a directory of the host in the same way in every container.
fn place_of(directory: &Path) -> Option<String> {
    let found = std::fs::metadata(directory).ok()?;
    Some(format!("{:x}:{:x}", found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;

    #[test]
    fn names_of_another_place_and_of_the_same_export_count_and_no_others() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00000000 0002 01 12 @millrace-mount/00000000000000aa/1a:2/1000
0000000000000000: 00000002 00000000 00000000 0002 01 13 @millrace-mount/00000000000000aa/1a:3/1001
0000000000000000: 00000002 00000000 00000000 0002 01 14 @millrace-mount/00000000000000ab/1a:4/1002
0000000000000000: 00000002 00000000 00000000 0002 01 15 @millrace-mount/00000000000000aa/nonsense
0000000000000000: 00000002 00000000 00000000 0002 01 16 /run/millrace-mount/00000000000000aa/1a:5/1003
";
        let users = |here| apart(sockets, 0xaa, here).into_iter().map(|(uid, _)| uid).collect::<Vec<_>>();
        assert_eq!(users("1a:2"), [1001]);
        assert_eq!(users(""), [1000, 1001]);
    }

    #[test]
    fn a_name_is_listed_as_long_as_it_is_held_and_its_mount_is_used() {
        let directories = (TempDir::new(), TempDir::new());
        let (one, two) = (Path::new(directories.0.path()), Path::new(directories.1.path()));
        let (_place, segment) = crate::segment::tests::fresh_segment();
        let stored = segment.parts().unwrap();
        let mut parts = super::super::stored_parts::parts_of(&stored).unwrap();
        parts.fsid = random();
        let held = Announcement::make(&parts, one, 7, &segment).unwrap();
        let expected = [MountedApart { uid: 7, holds_locks: false }];
        assert_eq!(mounted_apart(&parts, two), [], "no program uses it");
        let _user = super::super::keeper_process::be_user(segment.directory()).unwrap().unwrap();
        assert_eq!(mounted_apart(&parts, two), expected);
        assert_eq!(mounted_apart(&parts, one), [], "it is this one");
        assert_eq!(mounted_apart(&parts, &one.join("none")), expected);
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        let (_, name) = numbers_of(&parts).into_iter().flat_map(|number| apart(&sockets, number, "")).next().unwrap();
        let stranger = UnixDatagram::unbound().unwrap();
        stranger.send_to_addr(&[], &SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        assert_eq!(ask(&name).unwrap(), USED, "an empty datagram does not keep the keeper from answering");
        drop(held);
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while !mounted_apart(&parts, two).is_empty() {
            assert!(std::time::Instant::now() < end, "the name outlives its thread");
            std::thread::yield_now();
        }
    }
}
