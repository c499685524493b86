//! The locks of programs on files of a mount: record locks of processes, of open descriptions and of other owners, and the lock of
//! a file's writer under `writers=one`.

use std::sync::Arc;

use crate::segment::Segment;
use crate::segment::layout::Slot;
use crate::slot_limiter::{Members, WriterGuard};

/// The locks of programs on files of a mount ([`super::Mount::locks`]).
#[derive(Clone, Debug)]
pub struct Locks {
    pub(super) segment: Segment,
    /// The members that hold files' locks, under `writers=one`.
    writers: Option<Arc<Members>>,
}

impl Locks {
    /// `one_writer`: a file has one writer at a time.
    pub(super) fn new(segment: &Segment, one_writer: bool) -> Self {
        let writers = one_writer.then(|| Arc::clone(segment.members()));
        Self { segment: segment.clone(), writers }
    }

    /// Whether a file has one writer at a time.
    #[inline]
    pub(super) const fn has_one_writer(&self) -> bool {
        self.writers.is_some()
    }

    /// Under `writers=one`, waits for the file's lock and holds it until dropped.
    pub(super) fn lock_for_writing<'s>(&'s self, slot: &'s Slot) -> Option<WriterGuard<'s>> {
        self.writers.as_ref().and_then(|members| members.lock_for_writing(slot))
    }

    /// Under `writers=one`, waits until no process writes to the file.
    #[inline]
    pub(super) fn wait_for_writer(&self, slot: &Slot) {
        if let Some(members) = &self.writers {
            members.wait_for_writer(slot);
        }
    }
}
