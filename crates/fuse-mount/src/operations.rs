//! Executes requests as calls of the mount, with the credentials of the caller; calls on open files use those of the user that
//! opened them.

mod attributes;
mod directories;
mod files;
mod names;

use crate::caller::Callers;
use crate::handles::Handles;
use crate::inode_numbers::InodeNumbers;
use crate::locks::Locks;
use crate::nodes::Nodes;
use crate::open_file::errno;
use crate::protocol::reply;
use crate::protocol::request::{Header, Lock, Operation};
use crate::recent::Recent;
use crate::users::Users;
use crate::wal_indexes::WalIndexes;
use dnfs::mount::{Entry, Mount, is_wal_index_name};
use dnfs::{Credentials, FileHandle};
use rustix::io::Errno;
use std::sync::{Arc, Once};

/// The state of a mounted file system.
#[derive(Debug)]
pub(crate) struct Operations {
    callers: Callers,
    users: Users,
    nodes: Nodes,
    handles: Handles,
    locks: Locks,
    recent: Recent,
    wal_indexes: WalIndexes,
    inode_numbers: InodeNumbers,
}

/// A reply, with the references that it gives the kernel. They are taken back if the reply cannot be delivered.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) result: Vec<u8>,
    /// Bytes of the worker's buffer that follow.
    pub(crate) data_bytes: usize,
    given: Given,
}

/// The references that the kernel releases later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Given {
    node: Option<u64>,
    handle: Option<u64>,
}

/// How a request ends.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answered(Answer),
    /// The thread for locks replies.
    Later,
}

impl From<Vec<u8>> for Answer {
    fn from(result: Vec<u8>) -> Self {
        Self { result, ..Self::default() }
    }
}

impl Operations {
    pub(crate) fn new(callers: Callers, users: Users) -> Self {
        let nodes = Nodes::new(users.root());
        let inode_numbers = InodeNumbers::new(users.fsid());
        Self {
            callers,
            users,
            nodes,
            handles: Handles::default(),
            locks: Locks::default(),
            recent: Recent::default(),
            wal_indexes: WalIndexes::default(),
            inode_numbers,
        }
    }

    pub(crate) const fn callers(&self) -> &Callers {
        &self.callers
    }

    pub(crate) const fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Executes a request. `buffer` receives the data that is read.
    ///
    /// # Errors
    /// The errno for the program.
    pub(crate) fn perform(&self, header: &Header, operation: &Operation<'_>, buffer: &mut Vec<u8>) -> Result<Outcome, Errno> {
        let looked_up = self.recent.take(header.pid, header.node);
        if let Operation::SetLock { lock, wait } = operation {
            return self.set_lock(header, lock, *wait);
        }
        self.answer(header, operation, looked_up, buffer).map(Outcome::Answered)
    }

    /// `looked_up` is the object of the request, if the thread has just looked it up.
    fn answer(
        &self,
        header: &Header,
        operation: &Operation<'_>,
        looked_up: Option<Entry>,
        buffer: &mut Vec<u8>,
    ) -> Result<Answer, Errno> {
        match *operation {
            Operation::Lookup { name } => self.look_up(header, name),
            Operation::Attributes { handle } => self.attributes(header, handle, looked_up),
            Operation::SetAttributes(ref set) => self.set_attributes(header, set, looked_up),
            Operation::Access { mask } => self.access(header, mask, looked_up),
            Operation::Statistics => self.statistics(header),
            Operation::ReadLink => self.read_link(header, looked_up),
            Operation::SymLink { name, text } => self.make_link(header, name, text),
            Operation::MakeNode { name, mode, device } => self.make_node(header, name, mode, device),
            Operation::MakeDirectory { name, mode } => self.make_directory(header, name, mode),
            Operation::Unlink { name } => self.unlink(header, name),
            Operation::RemoveDirectory { name } => self.remove_directory(header, name),
            Operation::Rename { name, to, to_name } => self.rename(header, name, (to, to_name)),
            Operation::Link { of, name } => self.link(header, of, name),
            Operation::Open { flags } => self.open(header, flags, looked_up),
            Operation::Create { name, flags, mode } => self.create(header, name, flags, mode),
            Operation::Read { handle, offset, bytes } => self.read(handle, offset, bytes, buffer),
            Operation::Write { handle, offset, data, flags, write_flags } => self.write(handle, offset, data, flags, write_flags),
            Operation::Flush { handle, owner } => self.flush(handle, owner),
            Operation::Release { handle } | Operation::ReleaseDirectory { handle } => {
                self.release(handle);
                Ok(Answer::default())
            }
            Operation::Sync { handle } => self.handles.file(handle)?.sync().map(|()| Answer::default()),
            Operation::Seek { handle, offset, whence } => self.seek(handle, offset, whence),
            Operation::OpenDirectory => self.open_directory(header),
            Operation::ReadDirectory { handle, offset, bytes } => self.read_directory(handle, offset, bytes),
            Operation::GetLock(ref lock) => self.locks.conflict(&self.handles.file(lock.handle)?, lock).map(Answer::from),
            // Names are stable when the server answers (RFC 1813 4.8).
            Operation::SyncDirectory | Operation::Destroy => Ok(Answer::default()),
            // NFSv3 cannot reserve space.
            Operation::Allocate => Err(Errno::OPNOTSUPP),
            // After ENOSYS the kernel treats the file system as one without the operation: no extended attributes, no
            // ioctl, copies by reading and writing, EINVAL for a rename with flags (RENAME of NFSv3 has no flags).
            _ => Err(Errno::NOSYS),
        }
    }

    fn set_lock(&self, header: &Header, lock: &Lock, wait: bool) -> Result<Outcome, Errno> {
        let file = self.handles.file(lock.handle)?;
        if self.locks.attempt(&file, lock)? {
            if lock.kind == libc::F_UNLCK as u32 {
                self.locks.look_now();
            }
            return Ok(Outcome::Answered(Answer::default()));
        }
        if !wait {
            return Err(Errno::AGAIN);
        }
        self.locks.wait(header.unique, file, *lock);
        Ok(Outcome::Later)
    }

    /// Takes back the references of a reply that was not delivered.
    pub(crate) fn undo(&self, answer: &Answer) {
        if let Some(handle) = answer.given.handle {
            self.release(handle);
        }
        if let Some(node) = answer.given.node {
            self.nodes.forget(node, 1);
        }
    }

    /// Notes that the kernel has forgotten `count` replies with a node.
    pub(crate) fn forget(&self, node: u64, count: u64) {
        self.nodes.forget(node, count);
    }

    /// Closes all open files: the kernel sends no more requests.
    pub(crate) fn close_all(&self) {
        self.handles.all().into_iter().for_each(|handle| self.release(handle));
    }

    fn release(&self, handle: u64) {
        if let Some((file, node)) = self.handles.remove(handle) {
            self.locks.released(&file);
            self.nodes.closed(node, &file);
        }
    }

    /// The mount with the caller's credentials. A caller whose groups cannot be read is refused: the mode may deny a group what
    /// it grants to others. Root's rights do not depend on groups.
    ///
    /// # Errors
    /// EACCES for a caller whose groups cannot be read; those of [`Users::of`].
    fn mount_of(&self, header: &Header) -> Result<Arc<Mount>, Errno> {
        self.users.attach_if_replaced(|mount| {
            // Nodes of the old volume return ESTALE, and the kernel looks their names up again.
            self.nodes.replace_root(mount.client().parts().root);
            self.inode_numbers.replace_root(mount.fsid());
        })?;
        let groups = match self.callers.groups(header.pid, header.uid, header.gid) {
            Some(groups) => groups,
            None if header.uid == 0 || self.users.are_one() => Vec::new(),
            None => {
                static ONCE: Once = Once::new();
                ONCE.call_once(|| {
                    tracing::warn!(
                        uid = header.uid,
                        "a program of another PID namespace, or one that /proc hides, is refused: its groups cannot be known; \
                         mount in the namespace of the host, or name one user for all by uid= in the URL"
                    );
                });
                return Err(Errno::ACCESS);
            }
        };
        self.users.of(&Credentials::of_user(header.uid, header.gid, &groups))
    }

    /// As [`Self::mount_of`], with the handle of the request's node.
    fn at(&self, header: &Header) -> Result<(Arc<Mount>, FileHandle), Errno> {
        Ok((self.mount_of(header)?, self.nodes.handle(header.node)?))
    }

    /// The object of the request.
    fn object_at(&self, header: &Header, looked_up: Option<Entry>) -> Result<(Arc<Mount>, Entry), Errno> {
        let (mount, handle) = self.at(header)?;
        let entry = match looked_up {
            Some(entry) => entry,
            None => mount.entry_of(&handle).map_err(|error| errno(&error))?,
        };
        Ok((mount, entry))
    }

    /// A name in the directory of the request.
    fn name_at(&self, header: &Header, name: &[u8]) -> Result<(Arc<Mount>, Entry), Errno> {
        let (mount, directory) = self.at(header)?;
        let entry = mount.entry_in(&directory, name).map_err(|error| errno(&error))?;
        Ok((mount, entry))
    }

    /// The node of an object that is about to be returned to the kernel, by the entry's name.
    fn node_for_reply(&self, handle: &FileHandle, entry: &Entry) -> u64 {
        let node = self.nodes.number_for_reply(handle);
        if is_wal_index_name(&entry.name) {
            self.nodes.note_wal_index(node, entry.parent, &entry.name);
        }
        node
    }

    /// The reply with an object.
    fn entry_reply(&self, header: &Header, entry: Entry) -> Result<Answer, Errno> {
        let object = entry.object.ok_or(Errno::NOENT)?;
        let node = self.node_for_reply(&object.handle, &entry);
        self.recent.keep(header.pid, node, entry);
        let given = Given { node: Some(node), handle: None };
        Ok(Answer { result: reply::entry(node, &self.inode_numbers.of(object.attr)), data_bytes: 0, given })
    }
}
