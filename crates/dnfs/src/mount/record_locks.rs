//! What programs' record locks need of the state that processes share.
//!
//! A placeholder takes no exclusive lock, since it is not open for writing. POSIX locks lie on a file beside it; those
//! of an open description are put together of shared ones by the preload library, which needs to be alone meanwhile.

use super::{FileRef, Mount};
use crate::error::Error;
use crate::segment::QuietLock;
use crate::segment::runtime_dir::PLACEHOLDER_PATH_BYTES_MAX;

/// Nobody else changes record locks of open descriptions on this mount until this is dropped. No signal handler runs in
/// this thread meanwhile.
pub struct RecordLocks<'m>(#[expect(dead_code, reason = "held, not used")] QuietLock<'m>);

impl Mount {
    /// The file that the POSIX record locks of an open file lie on, ended by a NUL; made by who sets the first.
    #[must_use]
    pub fn lock_file_path(&self, file: FileRef) -> [u8; PLACEHOLDER_PATH_BYTES_MAX] {
        self.segment.directory().lock_file_array(file)
    }

    /// Waits until nobody else changes record locks of open descriptions.
    ///
    /// # Errors
    /// The kernel's.
    pub fn record_locks(&self) -> Result<RecordLocks<'_>, Error> {
        Ok(RecordLocks(self.segment.lock_quietly(&self.segment.header().record_lock)?))
    }

    /// Whether an open description ever had record locks on the file.
    #[must_use]
    pub fn has_description_locks(&self, file: FileRef) -> bool {
        self.segment.has_description_locks(file)
    }

    /// To be called before the first one has.
    pub fn note_description_locks(&self, file: FileRef) {
        self.segment.note_description_locks(file);
    }
}
