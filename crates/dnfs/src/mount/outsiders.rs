//! Writes of a process that has no place among the members (slot_limiter/members.rs), because all are taken or because it
//! cannot lock one. Other processes could not find out whether it is alive. So it holds no lock in the shared memory and
//! retains no data there. Its writes are stable when they return. It commits what others retain of the file before and after
//! each write, so that no resend overwrites newer data with older data. The keeper does for it what only a member may do.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use super::{FileRef, Mount};
use crate::error::Error;
use crate::file::{Attributes, FileHandle, SetAttributes, Stability};
use crate::limits::OUTSIDER_WAIT_MS;
use crate::payload::Payload;
use crate::retention::Retention;
use crate::segment::SegmentError;
use crate::segment::layout::Slot;
use crate::sys::clock::{monotonic_ms, sleep};

/// Pause between two checks of the keeper's progress.
const PAUSE: Duration = Duration::from_millis(2);

impl Mount {
    /// Writes the whole payload at `offset`, stable when it returns.
    pub(super) fn write_as_outsider(
        &self,
        (file, slot, handle): (FileRef, &Slot, &FileHandle),
        offset: u64,
        payload: &mut Payload<'_, '_>,
        wanted: Stability,
    ) -> Result<usize, Error> {
        self.commit_retained(file, slot)?;
        let done = self.write_until_acknowledged(file, slot, handle, offset, payload, wanted.max(Stability::DataSync))?;
        self.commit_retained(file, slot)?; // writes of other processes may have been in flight
        Ok(done.bytes)
    }

    /// SETATTR of a size (RFC 1813 3.3.2).
    pub(super) fn set_size_as_outsider(
        &self,
        file: FileRef,
        slot: &Slot,
        handle: &FileHandle,
        set: &SetAttributes,
    ) -> Result<Option<Attributes>, Error> {
        self.commit_retained(file, slot)?;
        let done = self.client.setattr(handle, set, None);
        self.commit_retained(file, slot)?;
        done
    }

    /// Commits what processes of this host retain of a file. The file's next sync reports a refusal or a loss.
    pub(super) fn commit_retained(&self, file: FileRef, slot: &Slot) -> Result<(), Error> {
        match if slot.has_retained() { self.commit_writes(file, slot) } else { Ok(()) } {
            Err(Error::Fs(_)) => Ok(()),
            other => other,
        }
    }

    /// Waits until the keeper has sent the current coalesced writes of a file.
    pub(super) fn await_run_sent(&self, retention: &Retention, slot: &Slot) -> Result<(), Error> {
        let run = || {
            let number = slot.run.load(SeqCst);
            retention.run(number).map(|run| (number, run.since_ms.load(Relaxed)))
        };
        let first = run();
        self.await_keeper(retention, || first.is_none() || run() != first)
    }

    /// Waits until the keeper has resent what the server lost.
    pub(super) fn await_settled(&self, retention: &Retention) -> Result<(), Error> {
        self.await_keeper(retention, || self.segment.verifiers().restarted().is_empty())
    }

    /// Waits until `is_done` returns true.
    ///
    /// # Errors
    /// [`SegmentError::Retained`] if there was no keeper for `OUTSIDER_WAIT_MS`, or this process is
    /// the keeper.
    fn await_keeper(&self, retention: &Retention, is_done: impl Fn() -> bool) -> Result<(), Error> {
        let mut heard_ms = monotonic_ms();
        while !is_done() {
            let now_ms = monotonic_ms();
            if retention.has_keeper() {
                heard_ms = now_ms;
            }
            if self.is_keeper() || now_ms - heard_ms > OUTSIDER_WAIT_MS {
                return Err(SegmentError::Retained.into());
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}
