//! POSIX ACLs of the served directory (acl(5)). The ACL of an object is read only if its mode alone does not decide about access.
//!
//! An access ACL is cached with the ctime of its object, because a new ACL, like a new mode,
//! changes the ctime. The host itself applies a default ACL when it creates an object. The mode
//! that results is kept.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use host::Unpoisoned;

use crate::sys;
use crate::types::Time;

/// Version of the format. Source: include/uapi/linux/posix_acl_xattr.h of Linux.
const VERSION: u32 = 2;
/// Longest time between two changes with the same ctime. A tick of the host's clock takes 10 ms at most.
const TICK_MAX: Duration = Duration::from_millis(50);

/// An access ACL without the entries of the owner and of others, which the mode has too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// The rights of the owning group, before the mask.
    pub group: u32,
    /// Users by number, with their rights before the mask.
    pub users: Vec<(u32, u32)>,
    /// Groups by number, with their rights before the mask.
    pub groups: Vec<(u32, u32)>,
    /// The rights to which the mask limits the entries above.
    pub mask: u32,
}

impl Acl {
    /// Parses the value of `system.posix_acl_access`. `None` if the format is unknown.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut acl = Self { group: 0, users: Vec::new(), groups: Vec::new(), mask: 7 };
        let (version, entries) = value.split_first_chunk()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
            return None;
        }
        for entry in entries.chunks_exact(8) {
            let [t0, t1, p0, p1, id @ ..] = entry else { return None };
            let id = u32::from_le_bytes(id.try_into().ok()?);
            let rights = u32::from(u16::from_le_bytes([*p0, *p1])) & 7;
            match u16::from_le_bytes([*t0, *t1]) {
                0x01 | 0x20 => {}
                0x02 => acl.users.push((id, rights)),
                0x04 => acl.group = rights,
                0x08 => acl.groups.push((id, rights)),
                0x10 => acl.mask = rights,
                _ => return None,
            }
        }
        Some(acl)
    }
}

/// The cached ACL of a node.
#[derive(Default)]
pub(crate) struct KeptAcl {
    read: Mutex<Option<(Time, Option<Arc<Acl>>)>>,
    is_asked_for: AtomicBool,
}

impl KeptAcl {
    /// Whether a check ever asked for the ACL. If so, attributes are read with the ctime, by which
    /// the ACL is cached.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.is_asked_for.load(Ordering::Relaxed)
    }

    /// Notes that a check asked for the ACL.
    pub(crate) fn ask_for(&self) {
        self.is_asked_for.store(true, Ordering::Relaxed);
    }

    /// The ACL that was read when the object had this ctime. `Some(None)`: the object had no ACL.
    pub(crate) fn at(&self, ctime: Time) -> Option<Option<Arc<Acl>>> {
        self.read.lock().unpoisoned().as_ref().filter(|(read_at, _)| *read_at == ctime).map(|(_, acl)| acl.clone())
    }

    /// Caches the ACL, unless it may still change without a change of the ctime.
    pub(crate) fn keep(&self, ctime: Time, acl: &Option<Arc<Acl>>) {
        if is_settled(ctime) {
            *self.read.lock().unpoisoned() = Some((ctime, acl.clone()));
        }
    }
}

/// Whether the file system of an open directory has ACLs.
pub(crate) fn has_acls(directory: impl AsFd) -> bool {
    !sys::acl_of(directory).is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP))
}

/// Whether any later change gets a later ctime. Within a tick of the host's clock it may not. A ctime of zero was not read.
fn is_settled(ctime: Time) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let Ok(seconds) = u64::try_from(ctime.sec) else { return false };
    let changed = Duration::new(seconds, ctime.nsec);
    !changed.is_zero() && changed + TICK_MAX < now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_is_parsed_as_the_kernel_encodes_it() {
        let entry = |tag: u16, rights: u16, id: u32| [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat();
        let value = [
            &2_u32.to_le_bytes()[..],
            &entry(1, 6, u32::MAX),
            &entry(2, 6, 3001),
            &entry(4, 4, u32::MAX),
            &entry(8, 1, 70),
            &entry(16, 5, u32::MAX),
            &entry(32, 0, u32::MAX),
        ]
        .concat();
        let read = Acl { group: 4, users: vec![(3001, 6)], groups: vec![(70, 1)], mask: 5 };
        assert_eq!(Acl::parse(&value), Some(read));
        assert_eq!((Acl::parse(&value[..value.len() - 1]), Acl::parse(&[3, 0, 0, 0]), Acl::parse(&[])), (None, None, None));
        assert_eq!(Acl::parse(&[&2_u32.to_le_bytes()[..], &entry(0x40, 7, 0)].concat()), None);
    }
}
