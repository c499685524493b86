//! Segments that nobody uses any more: telling them from those that still keep something for somebody, and removing them.

use core::sync::atomic::Ordering::Relaxed;

use super::Observer;
use super::keeper_process::Alone;
use super::{mount_paths, stand_ins, url_roots};
use crate::segment::{SegmentError, local};
use crate::sys::local_file::{Errno, unlink};

impl Observer {
    /// Whether a process uses the mount, or one that looks after it lives.
    ///
    /// # Errors
    /// The kernel's, of the locks.
    pub fn is_in_use(&self) -> Result<bool, SegmentError> {
        Ok(Alone::take(self.segment.directory())?.is_none())
    }

    /// Whether nobody uses the mount, and forgetting all it knows loses nothing: no written data that is not stable, no error that
    /// nobody was told, no file without a name. In doubt it is not dead.
    ///
    /// # Errors
    /// The kernel's, of the locks.
    pub fn is_dead(&self) -> Result<bool, SegmentError> {
        let Some(_alone) = Alone::take(self.segment.directory())? else { return Ok(false) };
        self.holds_nothing()
    }

    /// Removes the segment with all that belongs to it, if it is dead; whether it was. The directory stays with its locks: who is
    /// about to attach waits for one of them, and then makes a new segment there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_if_dead(&self) -> Result<bool, SegmentError> {
        let directory = self.segment.directory();
        let Some(_alone) = Alone::take(directory)? else { return Ok(false) };
        if !self.holds_nothing()? {
            return Ok(false);
        }
        self.segment.retire();
        for (file, _) in self.segment.live_files() {
            directory.remove_mapped(file);
            directory.remove_placeholder(file)?;
        }
        url_roots::forget_all(&self.segment);
        mount_paths::remove(directory.path());
        stand_ins::remove(directory.path());
        for path in [directory.retained_path(self.segment.header().instance.load(Relaxed)), directory.segment_path()] {
            match unlink(&path) {
                Ok(()) | Err(Errno(libc::ENOENT)) => {}
                Err(errno) => return Err(local("remove a file")(errno)),
            }
        }
        Ok(true)
    }

    /// To be asked while nobody can attach.
    fn holds_nothing(&self) -> Result<bool, SegmentError> {
        let (segment, retention) = (&self.segment, self.retention());
        retention.members().watch().map_err(local("open a lock"))?;
        let keeps_data = match retention.map_if_there() {
            Ok(true) => retention.usage(segment).bytes > 0 || retention.has_left_records(),
            Ok(false) => false,
            Err(_) => true, // of another version
        };
        if keeps_data || segment.has_silly_files() || segment.live_files().any(|(_, slot)| !slot.may_go()) {
            return Ok(false);
        }
        // A program that came out of exec with a file open uses the mount again once it touches it.
        for (file, _) in segment.live_files() {
            if segment.if_unopened(file)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
