//! Operations as they begin and end: what changes something is counted, and can be stopped as a whole.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::changes::{InFlightChange, StillInFlight};
use crate::error::Error;
use crate::loss::{LossGuard, LossLock};
use crate::volume::{Volume, VolumeInner};

/// No change of the volume is in flight and none begins until this is dropped. Reads and flushes go on.
#[must_use = "changes go on as soon as this is dropped"]
pub struct Quiesced {
    volume: Volume,
    waited: Duration,
}

/// A volume that could not be quiesced; changes go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuiesceError {
    /// Changes were in flight at the end of the time.
    #[error("quiesce the volume: {in_flight} changes still in flight after {waited:?}")]
    InFlight {
        /// How many.
        in_flight: u64,
        /// How long they were waited for.
        waited: Duration,
    },
    /// Another caller had quiesced it and did not release it in that time.
    #[error("quiesce the volume: quiesced by another caller for {waited:?}")]
    AlreadyQuiesced {
        /// How long that was waited for.
        waited: Duration,
    },
}

impl Quiesced {
    /// How long the volume took to drain.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// Lets changes begin again, as dropping does.
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
    /// Stops new changes (of data, names, attributes; by files and block devices), waits until those in flight have
    /// returned to their callers, and keeps it so until the result is dropped. Changes that come meanwhile wait without limit:
    /// the holder bounds the time. The thread that holds the result must not change the volume itself.
    ///
    /// **Durability**: none; [`Volume::flush_all`] may be called while the volume is quiesced. A write whose flush was
    /// [deferred](Volume::write_deferred) has returned: its flush may come later.
    ///
    /// **Errors**: not within `timeout`; changes then go on as before.
    pub fn quiesce(&self, timeout: Duration) -> Result<Quiesced, QuiesceError> {
        match self.0.changes.stop(timeout) {
            Ok(waited) => Ok(Quiesced { volume: self.clone(), waited }),
            Err(StillInFlight { waited, count: 0 }) => Err(QuiesceError::AlreadyQuiesced { waited }),
            Err(StillInFlight { waited, count }) => Err(QuiesceError::InFlight { in_flight: count, waited }),
        }
    }

    /// Ends the service of the volume: stops changes for good, as a quiesce that is never released, flushes everything, and puts
    /// that on record: the write verifier stands then, also if the volume is next opened under another boot of the host. Reads go on.
    /// False: it could not be put on record, which is no loss, but the verifier will not stand over a reboot.
    ///
    /// **Durability**: everything is durable when it returns `Ok`. **Errors**: a failed flush, or [`Error::Busy`] when changes
    /// are still in flight after `timeout`; these go on then, and nothing was flushed.
    pub fn close(&self, timeout: Duration) -> Result<bool, Error> {
        self.0.changes.stop(timeout).map_err(|_| Error::Busy)?;
        self.flush_all()?;
        match self.0.loss_epoch.stopped_cleanly() {
            Err(Error::Poisoned) => Err(Error::Poisoned),
            recorded => Ok(recorded.is_ok()),
        }
    }

    /// The same as [`Volume::close`] for a volume that is still in use: it is closed when the last user drops it, or not, if
    /// `on` was taken back by then. What went wrong shows at the next open: the verifier has changed.
    pub fn close_when_unused(&self, on: bool) {
        self.0.closes_when_unused.store(on, Ordering::SeqCst);
    }

    /// Whether changes wait now, for a caller that would rather answer "later" than wait.
    #[must_use]
    pub fn is_quiesced(&self) -> bool {
        self.0.changes.are_stopped()
    }
}

impl Drop for VolumeInner {
    fn drop(&mut self) {
        // Nobody is left who could change anything.
        if *self.closes_when_unused.get_mut() && self.alive().is_ok() && self.flush_file_system().is_ok() {
            let _ = self.loss_epoch.stopped_cleanly();
        }
    }
}

/// A change of the volume in flight: a quiesce waits for it. With the loss layer it is the only operation.
pub(crate) struct Change<'v> {
    /// The loss epoch when the change began: see [`VolumeInner::check_kept`].
    pub(crate) epoch: u64,
    pub(crate) loss: Option<LossGuard<'v>>,
    _counted: InFlightChange<'v>,
}

impl VolumeInner {
    /// Taken by operations that change something, once, before they read what they change.
    pub(crate) fn begin_change(&self) -> Change<'_> {
        // In this order: a power cut stops the changes before it takes the loss layer.
        let counted = self.changes.begin();
        Change { epoch: self.loss_epoch.number(), loss: self.lock_loss(), _counted: counted }
    }

    /// Taken by operations that flush; `None` without the loss layer.
    pub(crate) fn lock_loss(&self) -> Option<LossGuard<'_>> {
        self.loss.as_ref().map(LossLock::write)
    }

    /// Taken by operations that change nothing: a power cut waits for them. `None` without the loss layer.
    pub(crate) fn begin_read(&self) -> Option<impl Drop + '_> {
        self.loss.as_ref().map(LossLock::read)
    }
}
