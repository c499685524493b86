//! What a client shares with the other processes of its mount while it waits for replies. A client without a segment, as while
//! mounting, shares nothing.

use crate::call_notes::{CallNotes, NotedCall};
use crate::segment::Segment;
use crate::slot_limiter::Members;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A client's part in its mount.
#[derive(Clone, Debug, Default)]
pub(crate) struct Membership {
    /// Notes of calls that wait.
    call_notes: Option<CallNotes>,
    /// The members whose leases the callers hold (docs/design/028-stopped-processes.md).
    pub(crate) leases: Option<Arc<Members>>,
    /// Proves to Millrace's filer that this process belongs to the mount, so that it may fence other processes of the mount. 0
    /// without a segment.
    pub(crate) secret: u64,
}

impl Membership {
    /// Shows the calls that wait to all processes that have this segment.
    pub(super) fn share(&mut self, segment: &Segment) {
        self.call_notes = Some(CallNotes::new(segment.memory(), Arc::clone(segment.members())));
        self.secret = segment.header().instance.load(Ordering::Relaxed);
    }

    /// Lets the callers hold leases of these members.
    pub(crate) fn hold_leases(&mut self, members: Arc<Members>) {
        self.leases = Some(members);
    }

    /// The notes of calls that wait.
    pub(crate) const fn call_notes(&self) -> Option<&CallNotes> {
        self.call_notes.as_ref()
    }

    /// Notes a call that has waited for this time. `None` if it is not noted.
    pub(crate) fn note_call(&self, procedure: u32, waited: Duration) -> Option<NotedCall> {
        self.call_notes.as_ref()?.note(procedure, waited)
    }

    /// Removes the note of a call.
    pub(crate) fn forget_call(&self, noted: Option<NotedCall>) {
        if let (Some(noted), Some(notes)) = (noted, &self.call_notes) {
            notes.forget(noted);
        }
    }

    /// Renews the leases of the thread's current call, so that waiters see that the thread runs.
    #[inline]
    pub(crate) fn renew_leases(&self) {
        if let Some(members) = &self.leases {
            members.renew_leases();
        }
    }

    /// Whether no other process has taken over the locks of the thread's current call.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.leases.as_ref().is_none_or(|members| members.may_send())
    }

    /// Waits until the server has executed what the thread's current call sent, or never will, because other processes take
    /// over the call's locks. `without_limit` on a hard mount.
    #[cold]
    pub(super) fn finish_revocations(&self, without_limit: bool) {
        if let Some(members) = &self.leases {
            members.finish_revocations(without_limit);
        }
    }
}
