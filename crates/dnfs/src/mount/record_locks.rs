//! The shared state that programs' record locks need.
//!
//! A placeholder cannot have an exclusive lock, since it is not open for writing. POSIX locks are on a file beside it. The
//! preload library builds the locks of an open description from shared ones, for which it needs exclusive access.

use super::{FileRef, Locks};
use crate::error::Error;
use crate::segment::QuietLock;
use crate::segment::runtime_dir::PLACEHOLDER_PATH_BYTES_MAX;

/// No other thread changes record locks of open descriptions on this mount until this is dropped. No signal handler runs in
/// this thread meanwhile.
pub struct RecordLocks<'m>(#[expect(dead_code, reason = "held, not used")] QuietLock<'m>);

impl Locks {
    /// The path, with a NUL, of the file for the POSIX record locks of an open file. The process that sets the first lock
    /// creates it.
    #[must_use]
    pub fn lock_file_path(&self, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.segment.directory().lock_file_array(file)
    }

    /// Waits until no other thread changes record locks of open descriptions.
    ///
    /// # Errors
    /// The lock cannot be taken.
    pub fn record_locks(&self) -> Result<RecordLocks<'_>, Error> {
        Ok(RecordLocks(self.segment.lock_quietly(&self.segment.header().record_lock)?))
    }

    /// Whether an open description ever had record locks on the file.
    #[must_use]
    pub fn has_description_locks(&self, file: FileRef) -> bool {
        self.segment.has_description_locks(file)
    }

    /// Called before the first such lock is set.
    pub fn note_description_locks(&self, file: FileRef) {
        self.segment.note_description_locks(file);
    }
}
