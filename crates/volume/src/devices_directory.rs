//! The directory below the root that holds the files of block devices. File clients never see it.

use crate::creator::Creator;
use crate::error::Error;
use crate::node::Node;
use crate::sys;
use crate::types::{Kind, Owner, SetAttr};
use crate::volume::Volume;

/// Its name in the root of the volume. Listings and lookups leave it out, and no other object can get it.
pub(crate) const DEVICES: &[u8] = b".millrace-luns";

/// On the host, only the user of the serving process and root can read it.
const MODE: u32 = 0o700;

impl Volume {
    /// The directory for files of block devices, or `None` if it does not exist yet. It is part of the volume, so copies of the
    /// volume contain it, but [`Volume::lookup`] and [`Volume::read_dir`] do not show it.
    ///
    /// No client may get a handle of an object in it.
    ///
    /// **Errors**: [`Error::NotDirectory`] if another object has its name.
    pub fn devices_directory(&self) -> Result<Option<Node>, Error> {
        let _read = self.0.begin_read();
        let root = self.root();
        let descriptor = self.0.directory(&root)?;
        match self.0.child(&root, &descriptor, DEVICES) {
            Ok((node, _)) if node.kind() == Kind::Directory => Ok(Some(node)),
            Ok(_) => Err(Error::NotDirectory),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The directory for files of block devices. Makes it if it does not exist, for the user of this process alone.
    ///
    /// **Durability**: durable when it returns.
    pub fn make_devices_directory(&self) -> Result<Node, Error> {
        if let Some(node) = self.devices_directory()? {
            return Ok(node);
        }
        let set = SetAttr { mode: Some(MODE), ..SetAttr::default() };
        let creator = Creator::from(self.own_user());
        let make = |at: &_, mode| sys::mkdir_at(at, DEVICES, mode);
        match self.make_hidden_too(&self.root(), DEVICES, Kind::Directory, set, &creator, make) {
            Err(Error::Exists) => self.devices_directory()?.ok_or(Error::NoEntry),
            other => other.map(|(node, _)| node),
        }
    }

    /// The user and group of this process, which own the objects that belong to no client.
    #[must_use]
    pub fn own_user(&self) -> Owner {
        Owner { uid: self.0.uid, gid: sys::effective_gid() }
    }
}
