//! Makes changes durable that no descriptor can flush: new symbolic links and special files, and changes of their attributes.
//!
//! syncfs would write the data of all files too.
//!
//! - ext4 with a journal and XFS write the changes of names and attributes of a file system to one log, in their order. A flush of a
//!   file that was created after a change writes the log up to the creation, and so the change too (jbd2: `jbd2_complete_transaction` of
//!   the file's transaction; XFS: `xfs_log_force_seq` of its checkpoint). So the volume creates an unnamed file and flushes it.
//! - btrfs logs single objects. A flush of a directory logs its new entries, but not changed attributes. Before Linux 5.19 it logged a
//!   renamed symbolic link without its content (fstests generic/690). So the volume commits the transaction, which takes about a
//!   millisecond.
//! - Other file systems are synced as a whole.
//!
//! Callers that wait at the same time share one such flush.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::group_commit::GroupCommit;
use crate::sys;

/// How all earlier changes of names and attributes of a file system are made durable.
#[derive(Clone, Copy)]
enum Means {
    /// Flush a new file.
    NewFile,
    /// Commit the current transaction of btrfs.
    Transaction,
    /// Sync the whole file system.
    WholeSync,
}

/// The log of the file system that a volume is on.
pub(crate) struct MetadataLog {
    means: Means,
    commits: GroupCommit,
}

impl MetadataLog {
    /// The log of the file system that this directory is on.
    pub(crate) fn of(root: &sys::RawStat, kind: Option<i64>) -> Self {
        let means = match kind {
            Some(sys::XFS) => Means::NewFile,
            Some(sys::EXT4) if has_journal(root.dev) => Means::NewFile,
            Some(sys::BTRFS) => Means::Transaction,
            _ => Means::WholeSync,
        };
        Self { means, commits: GroupCommit::default() }
    }

    /// Makes all earlier changes of names and attributes durable. Callers that wait at the same time share the flush.
    pub(crate) fn commit(&self, root: impl AsFd) -> io::Result<()> {
        let flush = |_| match self.means {
            Means::NewFile => flush_new_file(&root),
            Means::Transaction => sys::commit_transaction(&root),
            Means::WholeSync => sys::sync_file_system(&root),
        };
        self.commits.flush(true, flush).map_err(io::Error::from_raw_os_error)
    }
}

/// Creates an unnamed file and flushes it. Syncs the whole file system if the host cannot create unnamed files.
fn flush_new_file(root: impl AsFd) -> io::Result<()> {
    match sys::open_at(&root, b".", libc::O_TMPFILE | libc::O_RDWR, 0o600) {
        Ok(file) => sys::fsync(file),
        Err(_) => sys::sync_file_system(root),
    }
}

/// Whether ext4 on this device has a journal. Without a journal, a flush covers only its own file.
fn has_journal((major, minor): (u32, u32)) -> bool {
    let device = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let name = device.ok().and_then(|device| device.file_name().map(std::ffi::OsStr::to_owned));
    name.is_some_and(|name| Path::new("/sys/fs/ext4").join(name).join("journal_task").exists())
}
