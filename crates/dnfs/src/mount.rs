//! One mount as a program sees it: paths, open files, names. This is layer 3 of the client.
//!
//! State on which all processes of the host must agree is in the shared segment. A `Mount` is one process' view of it; only
//! connections and a cache of directory handles belong to the process. For a while, sizes and attributes of known files cost no
//! call. The next open sees other hosts' changes (by its LOOKUP), and `fstat` sees them after 30 s at most. `owner=single` in
//! the URL states that there are no other hosts; with `noac` the client asks the server each time. Reading, writing, appending
//! and syncing an open file allocate nothing and take no lock that a signal handler could wait for.
//!
//! A descriptor of a program is an open of the file's placeholder, with a lock. If no process has such a lock, no process
//! has the file open. The order is: [`Mount::walk`], [`Mount::open`], open(2) of [`Mount::placeholder_path`],
//! [`Mount::opened`]. If the placeholder is missing, or `opened` returns [`crate::FsError::Stale`], the file was removed in
//! between: walk again.

mod apart;
mod async_calls;
mod async_io;
mod attach;
mod attributes;
mod by_handle;
mod commit;
mod create;
mod directories;
mod early_reads;
mod export_watch;
mod fence;
mod gathered;
mod give_up;
mod io;
pub(crate) mod io_request;
mod keeper;
mod keeper_namespaces;
mod keeper_process;
mod keeper_runs;
mod known_directories;
mod latest;
mod left_writes;
mod listing;
mod lock_holders;
mod lock_range;
mod locks;
mod log_writes;
mod mapped;
mod mount_paths;
mod mount_spec;
mod names;
mod observer;
mod open;
mod open_directories;
mod other_layout;
mod outsiders;
mod owner_locks;
mod processes;
mod read_ahead;
mod reclaim;
mod record_locks;
mod resend;
mod retained;
mod rights;
mod sequences;
mod served;
mod set_attr;
mod shared_offset;
mod silly_rename;
mod stored_parts;
mod strays;
mod sync_range;
mod truncation;
mod unused;
mod url_roots;
mod users;
mod wal_index;
mod walk;

pub use crate::segment::runtime_dir::PLACEHOLDER_PATH_BYTES_MAX;
pub use crate::segment::runtime_root::{
    VARIABLE as RUNTIME_DIR_VARIABLE, group_runtime_path, group_runtime_root, has_runtime_root, make_runtime_root, runtime_root,
};
pub use crate::segment::{DirectoryKept, DirectoryPlaceholder, Distrust, FileRef, OtherVersion, SegmentError, Untrusted};
pub use apart::{MountedApart, mounted_apart};
pub use async_io::AsyncIo;
pub use give_up::UnsavedFile;
pub use io::Changes;
pub use io_request::{Finished, IoRequest, IoWork, Offered};
pub use keeper::Keeper;
pub use keeper_process::KeeperProgram;
pub use known_directories::KnownDirectories;
pub use listing::DirItem;
pub use lock_range::{LockConflict, LockKind, LockRange};
pub use locks::Locks;
pub use mapped::{MapRefusal, Mapped};
pub use mount_paths::MountPath;
pub use mount_spec::{MountSpec, SpecError};
pub use observer::{Observer, Retained, SharedMemory};
pub use open_directories::mount_of_directory_placeholder;
pub use other_layout::OtherLayout;
pub use owner_locks::{DESCRIPTION_LOCKS_EXCLUSIVE, DESCRIPTION_LOCKS_LIMIT, OwnerLocks, holder_of_lock};
pub use processes::{MountProcess, MountProcesses, processes_of};
pub use read_ahead::EarlyRead;
pub use record_locks::RecordLocks;
pub use wal_index::{WalIndexInUse, WalIndexSide, claim_wal_index, is_wal_index_name, is_wal_index_path};
pub use walk::{Entry, LastName, Object, OpenDirectory, PathEnd, Walk};

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::path::Path;
use std::sync::Arc;

use crate::activity::Activity;
use crate::client::Client;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{FileHandle, FsError};
use crate::options::{ClosePolicy, StablePolicy};
use crate::process::this_process;
use crate::retention::Retention;
use crate::segment::Segment;
use crate::segment::layout::{ActivityCell, CELL_COUNT, Slot};
use crate::segment::url_notes::UrlRoot;
use crate::sys::internal_fd::InternalFd;
use crate::url::NfsUrl;
use directories::Directories;

/// Files known at once: [`FileRef::slot`] is below this.
pub const SLOTS_MAX: u32 = crate::segment::layout::SLOT_COUNT;

/// A mount, attached by this process.
#[derive(Debug)]
pub struct Mount {
    local_path: Vec<u8>,
    who: Credentials,
    /// Index + 1 of these credentials in the segment's table; 0: not looked up yet.
    credentials_place: AtomicU32,
    client: Client,
    segment: Segment,
    directories: Directories,
    locks: Locks,
    stable: StablePolicy,
    close: ClosePolicy,
    /// Uncommitted data that the client may have to resend.
    retention: Arc<Retention>,
    /// Data that was read ahead.
    read_ahead: read_ahead::ReadAhead,
    /// Clients for calls with other credentials, by their index.
    others: users::Others,
    /// The URL of the mount. The clients in `others` are made from it.
    url: NfsUrl,
    /// Other hosts write too: the client asks for sizes and attributes each time.
    shared_use: bool,
    /// No other host changes anything: the client never asks again for what it knows.
    single_owner: bool,
    /// The lock that marks this process as a user of the mount. `None` in the keeper.
    _user: Option<Arc<InternalFd>>,
    /// Whether the server keeps the access time that a new file is given.
    keeps_access_times: create::KeepsAccessTimes,
    /// The file whose attributes this process last changed, and the last file that it created exclusively.
    last_set: latest::Latest,
    last_made: latest::Latest,
    log_writes: log_writes::LogWrites,
    /// Whether consecutive small writes are sent together.
    gather: bool,
    /// Until when writes wait for a keeper that is starting, in ms of the monotonic clock.
    keeper_expected_ms: AtomicU64,
    sequences: sequences::Sequences,
    /// When files unlinked while open were last searched for, on the monotonic clock.
    swept_ms: AtomicU64,
}

/// How to open a file: the flags of open(2) that concern the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// O_RDONLY or O_RDWR.
    pub read: bool,
    /// O_WRONLY or O_RDWR.
    pub write: bool,
    /// O_APPEND.
    pub append: bool,
    /// O_CREAT.
    pub create: bool,
    /// O_EXCL.
    pub exclusive: bool,
    /// O_TRUNC.
    pub truncate: bool,
    /// O_DIRECTORY.
    pub directory: bool,
    /// Permission bits of a new file, after the umask.
    pub mode: u32,
}

/// The object of an operation: an open file or a name.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An open file.
    File(FileRef),
    /// What a walk found.
    Entry(&'a Entry),
}

/// Calls and payload bytes of all processes since the segment was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// READ calls.
    pub read_calls: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// WRITE calls.
    pub write_calls: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// COMMIT calls.
    pub commit_calls: u64,
    /// Number of syncs that waited for another caller's COMMIT instead of sending one.
    pub commits_shared: u64,
    /// Those of `read_bytes` that were read ahead and that no program has read yet.
    pub unused_read_bytes: u64,
}

impl Mount {
    /// The path that programs use: absolute, without a slash at the end.
    #[must_use]
    pub fn local_path(&self) -> &[u8] {
        &self.local_path
    }

    /// Directory in memory with the placeholders of files, `p/<slot>.<generation>`, and, while they are created, those of
    /// directories, `d/<random>/d`.
    #[must_use]
    pub fn runtime_dir(&self) -> &Path {
        self.segment.directory().path()
    }

    /// The client of the mount, for calls that name no file of a program.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The locks of programs on files of the mount.
    #[must_use]
    pub const fn locks(&self) -> &Locks {
        &self.locks
    }

    /// The inode number of the object with this handle, if processes of this host have it open or recently had it open.
    /// Allocates nothing and takes no lock.
    #[must_use]
    pub fn known_fileid(&self, handle: &FileHandle) -> Option<u64> {
        let file = self.segment.find(handle.as_bytes())?;
        self.segment.slot(file).map(|slot| slot.fileid.load(Relaxed))
    }

    /// Called in a child after fork, before any other function of the mount. Async-signal-safe.
    pub fn after_fork_child(&self) {
        self.client.after_fork_child();
        self.others.after_fork_child();
        self.read_ahead.after_fork_child();
    }

    /// Called after [`crate::expect_sharing`]: takes the locks that a child that shares the memory cannot take itself. Without
    /// them, operations that need them fail in that child.
    pub fn before_sharing_memory(&self) {
        let _ = self.segment.members().join();
    }

    /// Called before this process changes its root directory: opens what its writes need from the runtime directory, which
    /// cannot be reached afterwards.
    pub fn before_new_root(&self) {
        if let Ok(Some(retention)) = self.retention() {
            retention.reserve();
            let _ = retention.owner();
        }
    }

    /// Counts of the calls of all processes on this export.
    #[must_use]
    pub fn totals(&self) -> Totals {
        totals_of(&self.segment)
    }

    /// Activity of all processes on the export since the segment was created: sizes, times, slots,
    /// waits.
    #[must_use]
    pub fn activity(&self) -> Activity {
        Activity::of(self.segment.cells(), self.segment.call_table())
    }

    fn cell(&self) -> &ActivityCell {
        &self.segment.cells()[this_process().identity.process_id() as usize % CELL_COUNT]
    }

    fn url_root(&self) -> UrlRoot {
        let parts = self.client.parts();
        UrlRoot { identity: self.segment.header().identity.load(Relaxed), root: parts.root, host: parts.host }
    }

    fn is_keeper(&self) -> bool {
        self._user.is_none()
    }

    /// Calls `act` again while other processes take over a lock that it holds. Repeats only what it had not sent.
    fn again<T>(&self, mut act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        loop {
            match act() {
                Err(Error::TakenOver) if self.segment.members().may_send() => {}
                done => return done,
            }
        }
    }

    /// Whether the server now exports another volume. Every call here then fails with ESTALE, and the path must be attached
    /// again.
    #[inline]
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.segment.is_retired()
    }

    /// Reports, once for each process, that the server now exports another volume.
    pub fn report_replaced(&self) {
        let _ = self.client.volume_replaced();
    }

    /// The slot of an open file. The caller's descriptor locks the placeholder, so the slot stays, unless the volume
    /// was replaced.
    fn live(&self, file: FileRef) -> Result<&Slot, Error> {
        self.segment.slot(file).filter(|_| !self.is_retired()).ok_or(Error::Fs(FsError::Stale))
    }
}

fn totals_of(segment: &Segment) -> Totals {
    let sum = segment.cells().iter().fold(Totals::default(), |sum, cell| Totals {
        read_calls: sum.read_calls + cell.reads.calls.load(Relaxed),
        read_bytes: sum.read_bytes + cell.reads.bytes.load(Relaxed),
        write_calls: sum.write_calls + cell.writes.calls.load(Relaxed),
        write_bytes: sum.write_bytes + cell.writes.bytes.load(Relaxed),
        commit_calls: sum.commit_calls + cell.commits.calls.load(Relaxed),
        commits_shared: sum.commits_shared + cell.shared_commits.load(Relaxed),
        // A cell counts down when a program reads the bytes, so a single value may wrap.
        unused_read_bytes: sum.unused_read_bytes.wrapping_add(cell.unused_read_bytes.load(Relaxed)),
    });
    Totals { unused_read_bytes: u64::try_from(sum.unused_read_bytes.cast_signed()).unwrap_or(0), ..sum }
}

/// The handle of a slot's file. Does not allocate.
fn handle_of(slot: &Slot) -> Result<FileHandle, Error> {
    let (bytes, length) = slot.handle_array();
    bytes.get(..length).and_then(FileHandle::new).ok_or(Error::Fs(FsError::BadHandle))
}
