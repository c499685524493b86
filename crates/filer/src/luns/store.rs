//! A block device of a volume as the store of a logical unit.

use std::cell::{Cell, RefCell};

use iscsi_proto::scsi::{Extent, Store, StoreError};
use volume::{BlockDevice, BlockError, DeferredFlush, Durable, Error};

use crate::episode::Episode;

/// The bytes of a LUN.
#[derive(Debug)]
pub(crate) struct LunStore {
    device: BlockDevice,
    /// TARGET/LUN, for the log.
    name: String,
    full: Episode,
}

thread_local! {
    static MAY_NOT_WAIT: Cell<bool> = const { Cell::new(false) };
    static WOULD_WAIT: Cell<bool> = const { Cell::new(false) };
    static DEFERS: Cell<bool> = const { Cell::new(false) };
    static DEFERRED: RefCell<Vec<DeferredFlush>> = const { RefCell::new(Vec::new()) };
}

/// Sets a switch of this thread until it is dropped, also by a panic. If the switch stayed set, later writes would be answered before
/// they are durable.
struct Switched(&'static std::thread::LocalKey<Cell<bool>>);

impl Switched {
    fn on(switch: &'static std::thread::LocalKey<Cell<bool>>) -> Self {
        switch.set(true);
        Self(switch)
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Runs work in which this thread's reads of LUNs do not wait for the store. `None` if a read would have waited and failed: the result of
/// the work is discarded. Only for commands that change no data.
pub(crate) fn without_waiting<T>(work: impl FnOnce() -> T) -> Option<T> {
    let switched = Switched::on(&MAY_NOT_WAIT);
    WOULD_WAIT.set(false);
    let done = work();
    drop(switched);
    (!WOULD_WAIT.get()).then_some(done)
}

/// Runs work in which this thread's durable writes of LUNs leave their flush to the caller, who answers after the flush.
pub(crate) fn deferring_flushes<T>(work: impl FnOnce() -> T) -> (T, Vec<DeferredFlush>) {
    let switched = Switched::on(&DEFERS);
    let done = work();
    drop(switched);
    (done, DEFERRED.take())
}

impl LunStore {
    pub(super) fn new(device: BlockDevice, name: String) -> Self {
        Self { device, name, full: Episode::default() }
    }

    pub(crate) const fn device(&self) -> &BlockDevice {
        &self.device
    }

    /// Converts the error of a write. Lack of space is logged once per episode.
    fn write_refused(&self, error: BlockError) -> StoreError {
        let error = refused(error);
        if error == StoreError::NoSpace && self.full.begins() {
            tracing::warn!(lun = self.name, "the LUN refuses writes: its volume has no space or is over a quota");
        }
        error
    }
}

impl Store for LunStore {
    fn size_bytes(&self) -> u64 {
        self.device.size()
    }

    fn block_bytes(&self) -> u32 {
        self.device.block_bytes()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        if MAY_NOT_WAIT.get() {
            return match self.device.read_now(offset, buffer).map_err(refused)? {
                true => Ok(()),
                false => {
                    WOULD_WAIT.set(true);
                    Err(StoreError::Busy)
                }
            };
        }
        self.device.read(offset, buffer).map_err(refused)
    }

    fn write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), StoreError> {
        if durable && DEFERS.get() {
            let flush = self.device.write_deferred(offset, data).map_err(|error| self.write_refused(error))?;
            DEFERRED.with_borrow_mut(|deferred| deferred.extend(flush));
            return Ok(());
        }
        let durable = if durable { Durable::OnReturn } else { Durable::OnFlush };
        self.device.write(offset, data, durable).map_err(|error| self.write_refused(error))
    }

    fn write_zeroes(&self, offset: u64, bytes: u64, durable: bool) -> Result<(), StoreError> {
        let durable = if durable { Durable::OnReturn } else { Durable::OnFlush };
        self.device.write_zeroes(offset, bytes, durable).map_err(|error| self.write_refused(error))
    }

    fn unmap(&self, offset: u64, bytes: u64) -> Result<(), StoreError> {
        self.device.discard(offset, bytes).map_err(refused)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.device.flush().map_err(refused)
    }

    fn loss_epoch(&self) -> u64 {
        self.device.loss_epoch()
    }

    fn extent(&self, offset: u64) -> Extent {
        // An extent that the host does not report counts as mapped.
        let (bytes, mapped) = self.device.extent(offset).unwrap_or((self.device.size().saturating_sub(offset), true));
        Extent { bytes: bytes.max(u64::from(self.device.block_bytes())), mapped }
    }
}

fn refused(error: BlockError) -> StoreError {
    match error {
        BlockError::OutOfRange { .. } => StoreError::OutOfRange,
        BlockError::Volume(error) => match error {
            Error::NoSpace | Error::Quota | Error::TooBig => StoreError::NoSpace,
            Error::ReadOnly | Error::Access | Error::NotPermitted => StoreError::WriteProtected,
            Error::Poisoned => StoreError::Poisoned,
            Error::Busy => StoreError::Busy,
            _ => StoreError::Medium,
        },
        _ => StoreError::Medium,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_no_thread_that_answers_before_it_flushes() {
        let panicked = std::panic::catch_unwind(|| deferring_flushes(|| panic!("a bug")));
        assert!(panicked.is_err() && !DEFERS.get());
        let panicked = std::panic::catch_unwind(|| without_waiting(|| panic!("a bug")));
        assert!(panicked.is_err() && !MAY_NOT_WAIT.get());
        assert_eq!(without_waiting(|| 7), Some(7));
    }
}
