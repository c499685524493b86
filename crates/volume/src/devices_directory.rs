//! The directory of the root that holds files for block devices, which no client of files ever sees.

use crate::creator::Creator;
use crate::error::Error;
use crate::node::Node;
use crate::sys;
use crate::types::{Kind, Owner, SetAttr};
use crate::volume::Volume;

/// Its name in the root of the volume; never listed, never found, and no other object may have it.
pub(crate) const DEVICES: &[u8] = b".millrace-luns";

/// Only the process that serves the volume, and root, may look into it on the host.
const MODE: u32 = 0o700;

impl Volume {
    /// The directory for files behind block devices: part of the volume, as its snapshots and copies are to hold it, and not of
    /// the tree that [`Volume::lookup`] and [`Volume::read_dir`] show. None: there is none yet.
    ///
    /// A handle of what is in it must not be given to a client.
    ///
    /// **Errors**: [`Error::NotDirectory`] when something else has its name.
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

    /// The same, made where it is missing, for the user of this process alone.
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

    /// The user of this process, who owns what belongs to no client.
    #[must_use]
    pub fn own_user(&self) -> Owner {
        Owner { uid: self.0.uid, gid: sys::effective_gid() }
    }
}
