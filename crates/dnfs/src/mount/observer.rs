//! Looking at a mount from outside: what all processes of a user did on an export, for whoever measures them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::attach::identity_of;
use super::{Totals, totals_of};
use crate::activity::Activity;
use crate::segment::runtime_dir::RuntimeDir;
use crate::segment::{Segment, SegmentError};
use crate::url::NfsUrl;

/// The shared segment of a mount, looked at and never changed. Makes no connection.
#[derive(Debug)]
pub struct Observer {
    segment: Segment,
}

impl Observer {
    /// Finds the segment of the user `uid` for the export of `url` below `runtime` (the `MILLRACE_RUNTIME_DIR` of the
    /// processes that mounted it); none while nobody mounted it.
    ///
    /// # Errors
    /// When the segment may not be opened, or is none of this version.
    pub fn open(runtime: &Path, uid: u32, url: &NfsUrl) -> Result<Option<Self>, SegmentError> {
        let identity = identity_of(url, uid);
        let directory = RuntimeDir::made_by_another(runtime, identity);
        Ok(Segment::attach_of(&directory, identity, uid)?.map(|segment| Self { segment }))
    }

    /// The segment in this directory, one of [`Self::directories`]; none when there is none.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn at(directory: &Path) -> Result<Option<Self>, SegmentError> {
        let named = directory.parent().zip(directory.file_name().and_then(|name| name.to_str()));
        let Some((runtime, name)) = named else { return Ok(None) };
        let Ok(identity) = u64::from_str_radix(name, 16) else { return Ok(None) };
        let Ok(owner) = std::fs::metadata(directory.join("segment")).map(|found| found.uid()) else { return Ok(None) };
        let segment = Segment::attach_of(&RuntimeDir::made_by_another(runtime, identity), identity, owner)?;
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

    /// The sums of it.
    #[must_use]
    pub fn totals(&self) -> Totals {
        totals_of(&self.segment)
    }
}
