//! Objects whose access is checked.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::acl::Acl;
use crate::descriptor::{Access, Descriptor};
use crate::error::Error;
use crate::node::Node;
use crate::sys;
use crate::types::{Attr, Kind};
use crate::volume::{Volume, VolumeInner};

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
    /// Those of the host. The caller must then allow only root and the owner to use the object.
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

impl Volume {
    /// An object with these attributes, for access checks.
    #[must_use]
    pub fn subject<'s>(&'s self, node: &'s Node, attr: Attr) -> Subject<'s> {
        Subject::of(&self.0, node, attr)
    }
}

impl VolumeInner {
    fn acl(&self, node: &Node, attr: &Attr) -> Result<Option<Arc<Acl>>, Error> {
        let kept = &node.0.acl;
        kept.ask_for();
        if !self.has_acls {
            return Ok(None);
        }
        if let Some(acl) = kept.at(attr.ctime) {
            return Ok(acl);
        }
        let descriptor = self.descriptor(node)?;
        let acl = self.read_acl(|| match descriptor.access {
            Access::Path => sys::acl_of_path(&*descriptor),
            _ => sys::acl_of(&*descriptor),
        })?;
        kept.keep(attr.ctime, &acl);
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

    /// The mode to set on a new object in the directory `at` whose mode is `made`. `None` if `made`
    /// is right. The host clears bits by the directory's default ACL, which must remain effective,
    /// or by the umask of this process.
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
