//! Looking at a mount from outside: what all processes of a user did on an export, for whoever measures them.

use std::path::Path;

use super::attach::identity_of;
use super::runtime_dir::RuntimeDir;
use super::{Totals, totals_of};
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

    /// What all processes did on the export since the segment was made.
    #[must_use]
    pub fn totals(&self) -> Totals {
        totals_of(&self.segment)
    }
}
