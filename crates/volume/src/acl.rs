//! POSIX ACLs of the served directory (acl(5)). The ACL of an object is read only if its mode alone does not decide about access.
//!
//! An access ACL is cached with the ctime of its object, because a new ACL, like a new mode, changes the ctime. The host itself applies a
//! default ACL when it creates an object. The mode that results is kept.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use host::Unpoisoned;

use crate::descriptor::{Access, Descriptor};
use crate::error::Error;
use crate::node::Node;
use crate::sys;
use crate::types::{Attr, Kind, Time};
use crate::volume::{Volume, VolumeInner};

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

/// An object whose access is checked: its attributes, and its ACL, which is read on demand.
pub struct Subject<'s> {
    attr: Attr,
    source: Source<'s>,
    acl: OnceCell<Result<Option<Arc<Acl>>, Error>>,
}

#[derive(Clone, Copy)]
enum Source<'s> {
    Of(&'s VolumeInner, &'s Node),
    /// An object that is open with O_PATH and may have no node.
    At(&'s VolumeInner, &'s OwnedFd),
    Given(Option<&'s Acl>),
}

impl<'s> Subject<'s> {
    /// An object with these attributes and this ACL.
    #[must_use]
    pub const fn with_acl(attr: Attr, acl: Option<&'s Acl>) -> Self {
        Self { attr, source: Source::Given(acl), acl: OnceCell::new() }
    }

    pub(crate) const fn of(volume: &'s VolumeInner, node: &'s Node, attr: Attr) -> Self {
        Self { attr, source: Source::Of(volume, node), acl: OnceCell::new() }
    }

    pub(crate) const fn opened(volume: &'s VolumeInner, open: &'s OwnedFd, attr: Attr) -> Self {
        Self { attr, source: Source::At(volume, open), acl: OnceCell::new() }
    }

    /// The access ACL. `None` if the object has only a mode.
    ///
    /// # Errors
    /// Those of the host. The caller must then allow only the owner to use the object.
    pub fn acl(&self) -> Result<Option<Arc<Acl>>, Error> {
        let read = || match self.source {
            Source::Given(acl) => Ok(acl.cloned().map(Arc::new)),
            _ if self.attr.kind == Kind::Symlink => Ok(None),
            Source::Of(volume, node) => volume.acl(node, &self.attr),
            Source::At(volume, open) => volume.read_acl(|| sys::acl_of_path(open)),
        };
        self.acl.get_or_init(read).clone()
    }
}

impl Deref for Subject<'_> {
    type Target = Attr;

    fn deref(&self) -> &Attr {
        &self.attr
    }
}

impl fmt::Debug for Subject<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.attr.fmt(out)
    }
}

/// The cached ACL of a node.
#[derive(Default)]
pub(crate) struct KeptAcl {
    read: Mutex<Option<(Time, Option<Arc<Acl>>)>>,
    is_asked_for: AtomicBool,
}

impl KeptAcl {
    /// Whether the ACL was ever asked for. If so, attributes are read with the ctime, by which the ACL is cached.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.is_asked_for.load(Ordering::Relaxed)
    }
}

impl Volume {
    /// An object with these attributes, for access checks.
    #[must_use]
    pub fn subject<'s>(&'s self, node: &'s Node, attr: Attr) -> Subject<'s> {
        Subject::of(&self.0, node, attr)
    }
}

/// Whether the file system of an open directory has ACLs.
pub(crate) fn has_acls(directory: impl AsFd) -> bool {
    !sys::acl_of(directory).is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP))
}

impl VolumeInner {
    fn acl(&self, node: &Node, attr: &Attr) -> Result<Option<Arc<Acl>>, Error> {
        let kept = &node.0.acl;
        kept.is_asked_for.store(true, Ordering::Relaxed);
        if !self.has_acls {
            return Ok(None);
        }
        if let Some((ctime, acl)) = &*kept.read.lock().unpoisoned()
            && *ctime == attr.ctime
        {
            return Ok(acl.clone());
        }
        let descriptor = self.descriptor(node)?;
        let acl = self.read_acl(|| match descriptor.access {
            Access::Path => sys::acl_of_path(&*descriptor),
            _ => sys::acl_of(&*descriptor),
        })?;
        if is_settled(attr.ctime) {
            *kept.read.lock().unpoisoned() = Some((attr.ctime, acl.clone()));
        }
        Ok(acl)
    }

    fn read_acl(&self, read: impl FnOnce() -> std::io::Result<Option<Vec<u8>>>) -> Result<Option<Arc<Acl>>, Error> {
        match read() {
            Ok(None) => Ok(None),
            Ok(Some(value)) => Acl::parse(&value).map(|acl| Some(Arc::new(acl))).ok_or(Error::Io(libc::EIO)),
            // A name may lead into a file system without ACLs that is mounted inside the volume.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The mode to set on a new object in the directory `at` whose mode is `made`. `None` if `made` is right. The host clears bits by the
    /// directory's default ACL, which must remain effective, or by the umask of this process.
    pub(crate) fn mode_to_set(&self, at: &Descriptor, made: u32, wanted: u32) -> Result<Option<u32>, Error> {
        const PERMISSIONS: u32 = 0o777;
        let (made, mut wanted) = (made & 0o7777, wanted & 0o7777);
        if (made ^ wanted) & PERMISSIONS != 0 && self.has_default_acl(at)? {
            wanted = wanted & !PERMISSIONS | made & PERMISSIONS;
        }
        Ok((made != wanted).then_some(wanted))
    }

    fn has_default_acl(&self, directory: &Descriptor) -> Result<bool, Error> {
        if !self.has_acls {
            return Ok(false);
        }
        match sys::default_acl_of(directory) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
            other => Ok(other?.is_some()),
        }
    }
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
