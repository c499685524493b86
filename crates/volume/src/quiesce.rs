//! The beginning and end of operations. Changes are counted, and can be stopped for the whole volume.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::changes::{InFlightChange, StillInFlight};
use crate::error::Error;
use crate::loss::{LossGuard, LossLock};
use crate::volume::{Volume, VolumeInner};

/// While this exists, no change of the volume is in flight and no change begins. Reads and flushes go on.
#[must_use = "changes go on as soon as this is dropped"]
pub struct Quiesced {
    volume: Volume,
    waited: Duration,
}

/// The volume could not be quiesced. Changes go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuiesceError {
    /// Changes were still in flight at the end of the time.
    #[error("quiesce the volume: {in_flight} changes still in flight after {waited:?}")]
    InFlight {
        /// Their number.
        in_flight: u64,
        /// How long this caller waited.
        waited: Duration,
    },
    /// Another caller had quiesced it and did not release it in time.
    #[error("quiesce the volume: quiesced by another caller for {waited:?}")]
    AlreadyQuiesced {
        /// How long this caller waited.
        waited: Duration,
    },
}

impl Quiesced {
    /// How long the volume took to drain.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// Lets changes begin again, as dropping this does.
    pub fn release(self) {}
}

impl Drop for Quiesced {
    fn drop(&mut self) {
        self.volume.0.changes.resume();
    }
}

impl std::fmt::Debug for Quiesced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quiesced").field("waited", &self.waited).finish_non_exhaustive()
    }
}

impl Volume {
    /// Stops new changes (of data, names and attributes, by files and block devices) and waits until those in flight have
    /// returned. Changes go on when the result is dropped. Until then, new changes wait without a time limit, so the holder must
    /// limit the time. The thread that holds the result must not change the volume itself.
    ///
    /// **Durability**: this flushes nothing; [`Volume::flush_all`] may be called while the volume is quiesced. A write whose flush
    /// was [deferred](Volume::write_deferred) has returned, so its flush may come later.
    ///
    /// **Errors**: it takes longer than `timeout`; then changes go on as before.
    pub fn quiesce(&self, timeout: Duration) -> Result<Quiesced, QuiesceError> {
        match self.0.changes.stop(timeout) {
            Ok(waited) => Ok(Quiesced { volume: self.clone(), waited }),
            Err(StillInFlight { waited, count: 0 }) => Err(QuiesceError::AlreadyQuiesced { waited }),
            Err(StillInFlight { waited, count }) => Err(QuiesceError::InFlight { in_flight: count, waited }),
        }
    }

    /// Ends the service of the volume: stops changes for good, flushes everything, and records that. The write verifier then stays
    /// the same when the volume is opened again, also under another boot of the host. Reads go on. Returns false if the record could
    /// not be written. Then no data is lost, but the verifier changes with a reboot.
    ///
    /// **Durability**: everything is durable when it returns `Ok`. **Errors**: a failed flush; [`Error::Busy`] if changes
    /// are still in flight after `timeout`. Then changes go on, and nothing was flushed.
    pub fn close(&self, timeout: Duration) -> Result<bool, Error> {
        self.0.changes.stop(timeout).map_err(|_| Error::Busy)?;
        self.flush_all()?;
        match self.0.loss_epoch.stopped_cleanly() {
            Err(Error::Poisoned) => Err(Error::Poisoned),
            recorded => Ok(recorded.is_ok()),
        }
    }

    /// As [`Volume::close`], for a volume that is still in use. With `on`, it is closed when its last clone is dropped; without,
    /// that is cancelled. If closing fails, the verifier changes at the next open.
    pub fn close_when_unused(&self, on: bool) {
        self.0.closes_when_unused.store(on, Ordering::SeqCst);
    }

    /// Whether changes would wait now. A server can then reply that the call should be tried again.
    #[must_use]
    pub fn is_quiesced(&self) -> bool {
        self.0.changes.are_stopped()
    }
}

impl Drop for VolumeInner {
    fn drop(&mut self) {
        // No clone of the volume is left, so no change can begin.
        if *self.closes_when_unused.get_mut() && self.alive().is_ok() && self.flush_file_system().is_ok() {
            let _ = self.loss_epoch.stopped_cleanly();
        }
    }
}

/// A change of the volume in flight. A quiesce waits for it. With the loss layer, no other operation runs meanwhile.
pub(crate) struct Change<'v> {
    /// The loss epoch when the change began: see [`VolumeInner::check_kept`].
    pub(crate) epoch: u64,
    pub(crate) loss: Option<LossGuard<'v>>,
    _counted: InFlightChange<'v>,
}

impl VolumeInner {
    /// Begins an operation that changes something. Called once, before the operation reads what it changes.
    pub(crate) fn begin_change(&self) -> Change<'_> {
        // In this order: a power cut stops the changes before it takes the loss layer.
        let counted = self.changes.begin();
        Change { epoch: self.loss_epoch.number(), loss: self.lock_loss(), _counted: counted }
    }

    /// The loss layer, for an operation that flushes. `None` if the volume has no loss layer.
    pub(crate) fn lock_loss(&self) -> Option<LossGuard<'_>> {
        self.loss.as_ref().map(LossLock::write)
    }

    /// Begins an operation that changes nothing. A power cut waits for it. `None` if the volume has no loss layer.
    pub(crate) fn begin_read(&self) -> Option<impl Drop + '_> {
        self.loss.as_ref().map(LossLock::read)
    }
}
