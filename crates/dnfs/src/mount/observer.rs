//! Looking at a mount from outside: what all processes did on an export, for whoever measures them.

use core::sync::atomic::Ordering::Relaxed;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::retention::Retained;

use super::attach::identity_of;
use super::{Totals, totals_of};
use crate::activity::Activity;
use crate::retention::Retention;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::{Segment, SegmentError};
use crate::slot_limiter::Members;
use crate::url::NfsUrl;

/// The shared segment of a mount, looked at and never changed. Makes no connection.
#[derive(Debug)]
pub struct Observer {
    segment: Segment,
}

impl Observer {
    /// Finds the segment for the export of `url` below `runtime` (the `MILLRACE_RUNTIME_DIR` of the
    /// processes that mounted it); none while nobody mounted it.
    ///
    /// # Errors
    /// When the segment may not be opened, or is none of this version.
    pub fn open(runtime: &Path, url: &NfsUrl) -> Result<Option<Self>, SegmentError> {
        let identity = |owner| identity_of(url, owner);
        let Some(directory) = RuntimeDir::made_by_another(runtime, identity) else { return Ok(None) };
        let owner = directory.sharing().owner;
        Ok(Segment::attach(&directory, identity(owner))?.map(|segment| Self { segment }))
    }

    /// The segment in this directory, one of [`Self::directories`]; none when there is none.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn at(directory: &Path) -> Result<Option<Self>, SegmentError> {
        let named = directory.parent().zip(directory.file_name().and_then(|name| name.to_str()));
        let Some((runtime, name)) = named else { return Ok(None) };
        let Ok(identity) = u64::from_str_radix(name, 16) else { return Ok(None) };
        let Some(directory) = RuntimeDir::made_by_another(runtime, |_| identity) else { return Ok(None) };
        let segment = Segment::attach(&directory, identity)?;
        Ok(segment.map(|segment| Self { segment }))
    }

    /// The directories of all exports that were mounted with this `MILLRACE_RUNTIME_DIR`, sorted; none when it can't be read.
    #[must_use]
    pub fn directories(runtime: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(runtime).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.join("segment").is_file()).collect();
        found.sort();
        found
    }

    /// What all processes did on the export since the segment was made: sizes, times, slots, waits.
    #[must_use]
    pub fn activity(&self) -> Activity {
        Activity::of(self.segment.cells(), self.segment.call_table())
    }

    /// Written data that is not stable yet and is kept to be sent again.
    #[must_use]
    pub fn retained(&self) -> Retained {
        let header = self.segment.header();
        let members = Arc::new(Members::shared(self.segment.memory(), self.segment.directory().lock_path("members")));
        let retention = Retention::new(self.segment.directory(), header.instance.load(Relaxed), members);
        match retention.map_if_there() {
            Ok(true) => retention.usage(&self.segment),
            _ => Retained { bytes: 0, bytes_max: header.retain_bytes.load(Relaxed) },
        }
    }

    /// The sums of it.
    #[must_use]
    pub fn totals(&self) -> Totals {
        totals_of(&self.segment)
    }
}
