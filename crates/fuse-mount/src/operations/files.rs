//! Open files.

use super::attributes::permit;
use super::{Answer, Given, Operations};
use crate::limits::{OPEN_ROUNDS_MAX, TRANSFER_BYTES_MAX};
use crate::open_file::{OpenFile, errno};
use crate::protocol::request::Header;
use crate::protocol::{OPEN_EXEC, WRITE_CACHE, reply};
use dnfs::file::FileKind;
use dnfs::mount::{Entry, Mount, OpenHow};
use rustix::io::Errno;
use std::sync::Arc;

impl Operations {
    /// Opens a file. After ESTALE the kernel looks the name up again.
    pub(super) fn open(&self, header: &Header, flags: u32, looked_up: Option<Entry>) -> Result<Answer, Errno> {
        let (mount, entry) = self.object_at(header, looked_up)?;
        let mut how = open_how(flags.cast_signed());
        if flags & OPEN_EXEC != 0 {
            // execve(2) needs only the right to execute. The server lets a user with that right read.
            permit(&mount, &self.nodes.handle(header.node)?, FileKind::Regular, libc::X_OK)?;
            how.read = false;
        }
        let claim = match self.nodes.wal_index(header.node) {
            Some((directory, name)) => self.wal_indexes.claim(&mount, &directory, &name)?,
            None => None,
        };
        let file = OpenFile::open(&mount, &entry, &how, flags.cast_signed(), claim)?;
        Ok(self.opened(file, header.node))
    }

    fn opened(&self, file: OpenFile, node: u64) -> Answer {
        let file = Arc::new(file);
        self.nodes.opened(node, &file);
        let handle = self.handles.add_file(file, node);
        let given = Given { node: None, handle: Some(handle) };
        Answer { result: reply::opened(handle, reply::OPENED_FILE), data_bytes: 0, given }
    }

    /// Creates a file and opens it, or opens the one that another process has created meanwhile.
    pub(super) fn create(&self, header: &Header, name: &[u8], flags: u32, mode: u32) -> Result<Answer, Errno> {
        let (mount, directory) = self.at(header)?;
        let flags = flags.cast_signed();
        let exclusive = flags & libc::O_EXCL != 0;
        let how = OpenHow { create: true, exclusive, mode: mode & 0o7777, ..open_how(flags) };
        for _ in 0..OPEN_ROUNDS_MAX {
            let entry = mount.entry_in(&directory, name).map_err(|error| errno(&error))?;
            match entry.object.map(|object| object.attr.kind) {
                Some(_) if exclusive => return Err(Errno::EXIST),
                Some(FileKind::Directory) => return Err(Errno::ISDIR),
                // For a link, the kernel must look the name up again and follow it.
                Some(FileKind::Symlink) => return Err(Errno::STALE),
                _ => {}
            }
            match self.create_once(&mount, &entry, &how, flags) {
                Err(Errno::STALE) => {}
                other => return other,
            }
        }
        Err(Errno::STALE)
    }

    fn create_once(&self, mount: &Arc<Mount>, entry: &Entry, how: &OpenHow, flags: i32) -> Result<Answer, Errno> {
        let claim = self.wal_indexes.claim(mount, &entry.parent, &entry.name)?;
        let file = OpenFile::open(mount, entry, how, flags, claim)?;
        let handle = mount.handle(file.file()).map_err(|error| errno(&error))?;
        let attributes = mount.attr(file.file()).map_err(|error| errno(&error))?;
        let node = self.node_for_reply(&handle, entry);
        let mut answer = self.opened(file, node);
        answer.result = [reply::entry(node, &self.inode_numbers.of(attributes)), answer.result].concat();
        answer.given.node = Some(node);
        Ok(answer)
    }

    pub(super) fn read(&self, handle: u64, offset: u64, bytes: u32, buffer: &mut Vec<u8>) -> Result<Answer, Errno> {
        let file = self.handles.file(handle)?;
        let bytes = (bytes as usize).min(TRANSFER_BYTES_MAX);
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        let data_bytes = file.read(offset, buffer.get_mut(..bytes).unwrap_or_default())?;
        Ok(Answer { data_bytes, ..Answer::default() })
    }

    pub(super) fn write(&self, handle: u64, offset: u64, data: &[u8], flags: u32, write_flags: u32) -> Result<Answer, Errno> {
        let file = self.handles.file(handle)?;
        let written = file.write(offset, data, flags.cast_signed(), write_flags & WRITE_CACHE != 0)?;
        Ok(reply::written(written).into())
    }

    /// close(2) of one descriptor. Its locks are released after the data is flushed, so that their next owner sees the data.
    pub(super) fn flush(&self, handle: u64, owner: u64) -> Result<Answer, Errno> {
        let file = self.handles.file(handle)?;
        let flushed = file.flush();
        self.locks.give_up(&file, owner);
        self.locks.look_now();
        flushed.map(|()| Answer::default())
    }

    /// NFSv3 does not report holes, so everything up to the end of the file counts as data.
    pub(super) fn seek(&self, handle: u64, offset: u64, whence: u32) -> Result<Answer, Errno> {
        let size = self.handles.file(handle)?.attributes()?.size;
        match whence.cast_signed() {
            libc::SEEK_DATA | libc::SEEK_HOLE if offset >= size => Err(Errno::NXIO),
            libc::SEEK_DATA => Ok(reply::offset(offset).into()),
            libc::SEEK_HOLE => Ok(reply::offset(size).into()),
            _ => Err(Errno::INVAL),
        }
    }
}

fn open_how(flags: i32) -> OpenHow {
    let access = flags & libc::O_ACCMODE;
    OpenHow {
        read: access != libc::O_WRONLY,
        write: access != libc::O_RDONLY,
        append: flags & libc::O_APPEND != 0,
        truncate: flags & libc::O_TRUNC != 0,
        ..OpenHow::default()
    }
}
