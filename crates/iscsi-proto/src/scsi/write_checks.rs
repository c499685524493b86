//! Checks whether a write may begin, makes writes durable, and handles failures of that.

use std::sync::atomic::Ordering;

use super::attention::Condition;
use super::completion::{Failure, Status};
use super::nexus::Nexus;
use super::sense::{Asc, Sense, SenseKey};
use super::store::{Store, StoreError};
use super::unit::LogicalUnit;

/// The sense data of writes after a loss.
const FAILED: Sense = Sense::new(SenseKey::HardwareError, Asc::LOGICAL_UNIT_FAILURE);

/// Converts the error of a read.
pub(super) const fn read_failure(error: StoreError) -> Failure {
    match error {
        StoreError::Busy => Failure::Status(Status::Busy),
        StoreError::OutOfRange => Failure::Check(Sense::illegal(Asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE)),
        _ => Failure::Check(Sense::new(SenseKey::MediumError, Asc::UNRECOVERED_READ_ERROR)),
    }
}

impl<S: Store> LogicalUnit<S> {
    /// Whether a write may begin.
    ///
    /// # Errors
    /// DATA PROTECT, or the sense data after a loss.
    pub(super) fn may_write(&self, nexus: &Nexus) -> Result<(), Failure> {
        if self.settings.read_only {
            return Err(Sense::new(SenseKey::DataProtect, Asc::WRITE_PROTECTED).into());
        }
        self.check_loss(nexus)
    }

    /// Checks whether writes that were not durable may be lost.
    pub(super) fn check_loss(&self, nexus: &Nexus) -> Result<(), Failure> {
        let durability = &self.durability;
        if durability.has_failed() {
            return Err(FAILED.into());
        }
        let epoch = self.store.loss_epoch();
        if epoch == durability.epoch.load(Ordering::SeqCst) {
            return Ok(());
        }
        if durability.are_unflushed(durability.changes()) {
            self.fail(Some(nexus));
            return Err(Condition::Deferred(Asc::WRITE_ERROR).sense().into());
        }
        // All changes were durable, so this unit lost no data.
        durability.epoch.fetch_max(epoch, Ordering::SeqCst);
        Ok(())
    }

    /// Changes the store. `durable` says whether the change must be durable on return.
    ///
    /// # Errors
    /// The error of the store as sense data.
    pub(super) fn change(
        &self,
        nexus: &Nexus,
        durable: bool,
        run: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), Failure> {
        if durable {
            return run().map_err(|error| self.write_failure(nexus, error));
        }
        // Noted before the write, so that a loss during it is detected. Noted after it too, because a flush that ran meanwhile may not
        // have covered it.
        self.durability.note_change();
        let result = run();
        self.durability.note_change();
        result.map_err(|error| self.write_failure(nexus, error))
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// The flush failed. The unit accepts no write from then on.
    pub(super) fn flush(&self, nexus: &Nexus) -> Result<(), Failure> {
        self.check_loss(nexus)?;
        let durability = &self.durability;
        let changes = durability.changes();
        // Read before the flush, because a write that begins during it may set a newer epoch.
        let epoch = durability.epoch.load(Ordering::SeqCst);
        match self.store.flush() {
            // If data was lost or an earlier flush failed, a flush that succeeds afterwards does not cover the lost changes.
            Ok(()) if durability.are_unflushed(changes) && (self.store.loss_epoch() != epoch || self.has_failed()) => {
                self.fail(Some(nexus));
                Err(Sense::new(SenseKey::MediumError, Asc::WRITE_ERROR).into())
            }
            Ok(()) => {
                durability.note_flushed(changes);
                Ok(())
            }
            Err(StoreError::Busy) => Err(Failure::Status(Status::Busy)),
            Err(_) => {
                self.fail(Some(nexus));
                Err(Sense::new(SenseKey::MediumError, Asc::WRITE_ERROR).into())
            }
        }
    }

    /// Makes the unit refuse further writes. Reports that to every nexus except `but`, whose command fails with the same error.
    fn fail(&self, but: Option<&Nexus>) {
        if !self.durability.failed.swap(true, Ordering::SeqCst) {
            self.host.failed();
            self.attentions.add_to_all(but, Condition::Deferred(Asc::WRITE_ERROR));
        }
    }

    fn write_failure(&self, nexus: &Nexus, error: StoreError) -> Failure {
        match error {
            StoreError::Busy => Failure::Status(Status::Busy),
            StoreError::Medium => Sense::new(SenseKey::MediumError, Asc::WRITE_ERROR).into(),
            StoreError::NoSpace => Sense::new(SenseKey::DataProtect, Asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT).into(),
            StoreError::WriteProtected => Sense::new(SenseKey::DataProtect, Asc::WRITE_PROTECTED).into(),
            StoreError::OutOfRange => Sense::illegal(Asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE).into(),
            StoreError::Poisoned => {
                self.fail(Some(nexus));
                FAILED.into()
            }
        }
    }
}
