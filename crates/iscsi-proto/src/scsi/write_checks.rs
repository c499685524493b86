//! Whether a write may begin, how it is made durable, and what happens when it cannot be.

use std::sync::atomic::Ordering;

use super::attention::Condition;
use super::completion::{Failure, Status};
use super::nexus::Nexus;
use super::sense::{Asc, Sense, SenseKey};
use super::store::{Store, StoreError};
use super::unit::LogicalUnit;

/// What a write is refused with after a loss.
const FAILED: Sense = Sense::new(SenseKey::HardwareError, Asc::LOGICAL_UNIT_FAILURE);

/// A read that the store could not do.
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
    /// DATA PROTECT; a loss.
    pub(super) fn may_write(&self, nexus: &Nexus) -> Result<(), Failure> {
        if self.settings.read_only {
            return Err(Sense::new(SenseKey::DataProtect, Asc::WRITE_PROTECTED).into());
        }
        self.check_loss(nexus)
    }

    /// Notices that writes which were not durable may be gone.
    pub(super) fn check_loss(&self, nexus: &Nexus) -> Result<(), Failure> {
        let durability = &self.durability;
        if durability.has_failed() {
            return Err(FAILED.into());
        }
        let epoch = self.store.loss_epoch();
        if epoch == durability.epoch.load(Ordering::SeqCst) {
            return Ok(());
        }
        if durability.unflushed.load(Ordering::SeqCst) {
            self.fail(Some(nexus));
            return Err(Condition::Deferred(Asc::WRITE_ERROR).sense().into());
        }
        // All was durable: this unit lost nothing.
        durability.epoch.store(epoch, Ordering::SeqCst);
        Ok(())
    }

    /// Runs a change of the store, which is to be durable on return or not.
    ///
    /// # Errors
    /// What the store fails with, as sense data.
    pub(super) fn change(
        &self,
        nexus: &Nexus,
        durable: bool,
        run: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), Failure> {
        if durable {
            return run().map_err(|error| self.write_failure(nexus, error));
        }
        // Before: a loss during the write is seen. After: a flush that ran meanwhile may not have covered it.
        self.durability.unflushed.store(true, Ordering::SeqCst);
        let result = run();
        self.durability.unflushed.store(true, Ordering::SeqCst);
        result.map_err(|error| self.write_failure(nexus, error))
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// A failed flush, after which no write is accepted.
    pub(super) fn flush(&self, nexus: &Nexus) -> Result<(), Failure> {
        self.check_loss(nexus)?;
        // Before `unflushed` is cleared: a write that begins during the flush may take over an epoch that moved meanwhile.
        let epoch = self.durability.epoch.load(Ordering::SeqCst);
        let unflushed = self.durability.unflushed.swap(false, Ordering::SeqCst);
        match self.store.flush() {
            Ok(()) if unflushed && self.store.loss_epoch() != epoch => {
                // A flush that succeeded after a loss covers nothing of what was lost.
                self.fail(Some(nexus));
                Err(Sense::new(SenseKey::MediumError, Asc::WRITE_ERROR).into())
            }
            Ok(()) => Ok(()),
            Err(StoreError::Busy) => {
                self.durability.unflushed.store(true, Ordering::SeqCst);
                Err(Failure::Status(Status::Busy))
            }
            Err(_) => {
                self.fail(Some(nexus));
                Err(Sense::new(SenseKey::MediumError, Asc::WRITE_ERROR).into())
            }
        }
    }

    /// A flush that no command waits for: its failure is told to every nexus.
    pub(super) fn flush_for_nobody(&self) {
        if self.durability.unflushed.swap(false, Ordering::SeqCst) && self.store.flush().is_err() {
            self.fail(None);
        }
    }

    /// Accepts no write from now on, and tells every nexus but one, whose command fails with it.
    fn fail(&self, but: Option<&Nexus>) {
        if !self.durability.failed.swap(true, Ordering::SeqCst) {
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
