//! Lookups of names across file systems on volumes with `crossmnt`. Each file system inside the volume is a separate export.

use nfs_proto::nfs3::{FileHandle, WriteVerifier};
use volume::{Attr, Error, Node};

use super::Context;
use crate::nfs::convert;
use crate::nfs::export::Export;
use crate::nfs::exports::Entry;

impl Context<'_> {
    /// Handle and attributes of the object with this name.
    pub(super) fn find(&self, dir: &Node, name: &[u8]) -> Result<(FileHandle, Attr), Error> {
        let volume = &self.export.volume;
        if name == b".." && *dir == volume.root() && self.export.is_inside() {
            for Entry { export, .. } in self.view.exports().family(self.index) {
                if let Ok((node, attr)) = export.volume.above(volume) {
                    return found(export, &node, attr);
                }
            }
        }
        match volume.lookup(dir, name) {
            Ok((node, attr)) => found(self.export, &node, attr),
            Err(Error::CrossDevice) => self.cross(dir, name),
            Err(error) => Err(error),
        }
    }

    /// The write verifier of the export.
    pub(super) fn verifier(&self) -> WriteVerifier {
        WriteVerifier(self.view.exports().verifier(self.index))
    }

    /// The root of the file system that is mounted at this name.
    fn cross(&self, dir: &Node, name: &[u8]) -> Result<(FileHandle, Attr), Error> {
        let crossing = self.export.volume.crossing(dir, name)?;
        // Never a directory above, because its mount inside would form a loop.
        let others = || self.view.exports().family(self.index).map(|entry| &*entry.export).filter(|other| self.is_below(other));
        let at = |exactly| others().find(|export| export.volume.is_at(&crossing, exactly));
        // A file system that is mounted at two places, or mounted again while it is served, counts as one.
        let export = at(true).or_else(|| at(false)).ok_or(Error::CrossDevice)?;
        let root = export.volume.root();
        found(export, &root, export.volume.attr(&root)?)
    }

    fn is_below(&self, other: &Export) -> bool {
        other.is_inside() && other.name() != self.export.name()
    }
}

fn found(export: &Export, node: &Node, attr: Attr) -> Result<(FileHandle, Attr), Error> {
    let handle = convert::handle(&export.volume.handle(node)).ok_or(Error::Invalid)?;
    Ok((handle, attr))
}
