//! Finds segments that no process uses and that keep nothing, and removes them.

use super::Observer;
use super::give_up;
use super::keeper_process::Alone;
use crate::retention::Retention;
use crate::segment::{Segment, SegmentError, local};

impl Observer {
    /// Whether a process uses the mount or a keeper serves it.
    ///
    /// # Errors
    /// A lock cannot be opened or taken.
    pub fn is_in_use(&self) -> Result<bool, SegmentError> {
        Ok(Alone::take(self.segment.directory())?.is_none())
    }

    /// Whether no process uses the mount, and removing its state loses nothing: no unstable data, no unreported error, no file
    /// without a name. False in doubt.
    ///
    /// # Errors
    /// A lock cannot be opened or taken.
    pub fn is_dead(&self) -> Result<bool, SegmentError> {
        let Some(_alone) = Alone::take(self.segment.directory())? else { return Ok(false) };
        self.holds_nothing()
    }

    /// Removes the directory of the mount if the mount is dead. Returns whether it was.
    ///
    /// # Errors
    /// A lock cannot be opened or taken; the directory cannot be removed.
    pub fn remove_if_dead(&self) -> Result<bool, SegmentError> {
        let directory = self.segment.directory();
        let Some(_alone) = Alone::take(directory)? else { return Ok(false) };
        if !self.holds_nothing()? {
            return Ok(false);
        }
        self.segment.retire();
        self.segment.export_state().forget_urls();
        give_up::remove(directory)?;
        Ok(true)
    }

    /// Whether programs use the mount, or have a file of it open that they have not touched since exec.
    ///
    /// # Errors
    /// A lock cannot be opened or taken.
    pub fn is_used(&self) -> Result<bool, SegmentError> {
        Ok(give_up::without_users(self.segment.directory()).is_none() || self.has_open_files()?)
    }

    pub(super) fn has_open_files(&self) -> Result<bool, SegmentError> {
        has_open_files(&self.segment)
    }

    fn holds_nothing(&self) -> Result<bool, SegmentError> {
        holds_nothing(&self.segment, &self.retention())
    }
}

/// Whether the segment keeps nothing. No process can attach meanwhile.
///
/// # Errors
/// A lock cannot be opened or taken.
pub(super) fn holds_nothing(segment: &Segment, retention: &Retention) -> Result<bool, SegmentError> {
    retention.members().watch().map_err(local("open a lock"))?;
    let keeps_data = match retention.map_if_there() {
        Ok(true) => retention.usage(segment).bytes > 0 || retention.has_left_records(),
        Ok(false) => false,
        Err(_) => true, // the area has another version
    };
    if keeps_data || segment.has_silly_files() || segment.live_files().any(|(_, slot)| !slot.may_go()) {
        return Ok(false);
    }
    // A program that called exec with a file open uses the mount again when it uses that file.
    Ok(!has_open_files(segment)?)
}

/// Whether a process has a file of the segment open.
pub(super) fn has_open_files(segment: &Segment) -> Result<bool, SegmentError> {
    for (file, _) in segment.live_files() {
        if segment.if_unopened(file)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}
