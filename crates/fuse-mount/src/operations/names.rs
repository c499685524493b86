//! Names: looks them up, creates, removes, renames and links them. Each change is stable when it returns.

use super::attributes::permit;
use super::{Answer, Operations};
use crate::caller::Asks;
use crate::open_file::errno;
use crate::protocol::reply::device_numbers;
use crate::protocol::request::Header;
use dnfs::file::{DeviceNumbers, FileKind, SpecialFile};
use dnfs::mount::{Entry, Mount, OpenHow};
use rustix::io::Errno;

impl Operations {
    pub(super) fn look_up(&self, header: &Header, name: &[u8]) -> Result<Answer, Errno> {
        let (mount, entry) = self.name_at(header, name)?;
        self.permit_special(header, &mount, &entry)?;
        self.entry_reply(header, entry)
    }

    /// Checks the right to open a FIFO or to connect to a socket. The kernel does both itself and only looks up the name.
    ///
    /// # Errors
    /// EACCES.
    fn permit_special(&self, header: &Header, mount: &Mount, entry: &Entry) -> Result<(), Errno> {
        let Some(object) = entry.object.filter(|object| matches!(object.attr.kind, FileKind::Fifo | FileKind::Socket)) else {
            return Ok(());
        };
        let (read, write) = match self.callers.asks_for(header.pid) {
            Asks::Nothing => return Ok(()),
            Asks::Access { read, write } => (read, write),
            Asks::Unknown => (true, true),
        };
        let wanted = if read { libc::R_OK } else { 0 } | if write { libc::W_OK } else { 0 };
        permit(mount, &object.handle, object.attr.kind, wanted)
    }

    pub(super) fn read_link(&self, header: &Header, looked_up: Option<Entry>) -> Result<Answer, Errno> {
        let (mount, entry) = self.object_at(header, looked_up)?;
        mount.readlink(&entry).map(Answer::from).map_err(|error| errno(&error))
    }

    pub(super) fn make_link(&self, header: &Header, name: &[u8], text: &[u8]) -> Result<Answer, Errno> {
        self.create_entry(header, name, |mount, entry| mount.symlink(entry, text))
    }

    pub(super) fn make_directory(&self, header: &Header, name: &[u8], mode: u32) -> Result<Answer, Errno> {
        self.create_entry(header, name, |mount, entry| mount.mkdir(entry, mode))
    }

    pub(super) fn make_node(&self, header: &Header, name: &[u8], mode: u32, device: u32) -> Result<Answer, Errno> {
        let (major, minor) = device_numbers(device);
        let numbers = DeviceNumbers { major, minor };
        let what = match mode & libc::S_IFMT {
            0 | libc::S_IFREG => {
                // mknod(2) of a regular file is an exclusive create.
                let how = OpenHow { write: true, create: true, exclusive: true, mode: mode & 0o7777, ..OpenHow::default() };
                return self.create_entry(header, name, |mount, entry| mount.open(entry, &how).map(|file| mount.closed(file)));
            }
            libc::S_IFIFO => SpecialFile::Fifo,
            libc::S_IFSOCK => SpecialFile::Socket,
            libc::S_IFCHR => SpecialFile::Character(numbers),
            libc::S_IFBLK => SpecialFile::Block(numbers),
            _ => return Err(Errno::INVAL),
        };
        self.create_entry(header, name, |mount, entry| mount.mknod(entry, what, mode).map(drop))
    }

    /// Creates an object with a name, and replies with it.
    fn create_entry(
        &self,
        header: &Header,
        name: &[u8],
        make: impl FnOnce(&Mount, &Entry) -> Result<(), dnfs::Error>,
    ) -> Result<Answer, Errno> {
        let (mount, entry) = self.name_at(header, name)?;
        make(&mount, &entry).map_err(|error| errno(&error))?;
        let made = mount.entry_in(&entry.parent, name).map_err(|error| errno(&error))?;
        self.entry_reply(header, made)
    }

    pub(super) fn unlink(&self, header: &Header, name: &[u8]) -> Result<Answer, Errno> {
        let (mount, entry) = self.name_at(header, name)?;
        mount.unlink(&entry).map_err(|error| errno(&error))?;
        Ok(Answer::default())
    }

    pub(super) fn remove_directory(&self, header: &Header, name: &[u8]) -> Result<Answer, Errno> {
        let (mount, entry) = self.name_at(header, name)?;
        mount.rmdir(&entry).map_err(|error| errno(&error))?;
        Ok(Answer::default())
    }

    pub(super) fn rename(&self, header: &Header, name: &[u8], (to, to_name): (u64, &[u8])) -> Result<Answer, Errno> {
        let (mount, from) = self.name_at(header, name)?;
        let to = mount.entry_in(&self.nodes.handle(to)?, to_name).map_err(|error| errno(&error))?;
        mount.rename(&from, &to).map_err(|error| errno(&error))?;
        Ok(Answer::default())
    }

    pub(super) fn link(&self, header: &Header, of: u64, name: &[u8]) -> Result<Answer, Errno> {
        let of = self.nodes.handle(of)?;
        self.create_entry(header, name, |mount, entry| {
            let from = mount.entry_of(&of)?;
            if let Some(object) = &from.object {
                if object.attr.kind == FileKind::Directory {
                    return Err(dnfs::FsError::NotOwner.into());
                }
                // The kernel's own check grants every right, since it does not check cached modes here.
                mount.check_link(object, header.uid)?;
            }
            mount.link(&from, entry)
        })
    }
}
