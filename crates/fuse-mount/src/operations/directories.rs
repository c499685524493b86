//! Open directories.

use super::attributes::permit;
use super::{Answer, Given, Operations};
use crate::handles::OpenDirectory;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::open_file::errno;
use crate::protocol::reply;
use crate::protocol::request::Header;
use dnfs::file::FileKind;
use dnfs::mount::Target;
use rustix::io::Errno;

impl Operations {
    pub(super) fn open_directory(&self, header: &Header) -> Result<Answer, Errno> {
        let (mount, handle) = self.at(header)?;
        permit(&mount, &handle, FileKind::Directory, libc::R_OK)?;
        let handle = self.handles.add_directory(OpenDirectory::new(mount, handle));
        let given = Given { node: None, handle: Some(handle) };
        Ok(Answer { result: reply::opened(handle, 0), data_bytes: 0, given })
    }

    /// Reads the whole directory when a program begins a listing, so that later changes do not shift its entries.
    pub(super) fn read_directory(&self, handle: u64, offset: u64, bytes: u32) -> Result<Answer, Errno> {
        let directory = self.handles.directory(handle)?;
        let listing = directory.listing(offset == 0, || {
            let entry = directory.mount.entry_of(&directory.handle).map_err(|error| errno(&error))?;
            let items = directory.mount.read_dir(Target::Entry(&entry)).map_err(|error| errno(&error))?;
            Ok(self.inode_numbers.of_items(items))
        })?;
        Ok(reply::entries(&listing, offset, (bytes as usize).min(TRANSFER_BYTES_MAX)).into())
    }
}
