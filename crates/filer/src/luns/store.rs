//! A block device of a volume as what a logical unit stands on.

use std::cell::{Cell, RefCell};

use iscsi_proto::scsi::{Extent, Store, StoreError};
use volume::{BlockDevice, BlockError, DeferredFlush, Durable, Error};

/// The bytes of a LUN.
#[derive(Debug)]
pub(crate) struct LunStore(BlockDevice);

thread_local! {
    static MAY_NOT_WAIT: Cell<bool> = const { Cell::new(false) };
    static WOULD_WAIT: Cell<bool> = const { Cell::new(false) };
    static DEFERS: Cell<bool> = const { Cell::new(false) };
    static DEFERRED: RefCell<Vec<DeferredFlush>> = const { RefCell::new(Vec::new()) };
}

/// Sets a switch of this thread until this is dropped, by a panic too: one that stayed would have later writes answered before
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

/// Does work in which this thread's reads of LUNs do not wait for the store. None: one had to, and failed; what that made of the work
/// is void. Only for commands that change nothing.
pub(crate) fn without_waiting<T>(work: impl FnOnce() -> T) -> Option<T> {
    let switched = Switched::on(&MAY_NOT_WAIT);
    WOULD_WAIT.set(false);
    let done = work();
    drop(switched);
    (!WOULD_WAIT.get()).then_some(done)
}

/// Does work in which this thread's durable writes of LUNs leave their flush to the caller, who answers behind it.
pub(crate) fn deferring_flushes<T>(work: impl FnOnce() -> T) -> (T, Vec<DeferredFlush>) {
    let switched = Switched::on(&DEFERS);
    let done = work();
    drop(switched);
    (done, DEFERRED.take())
}

impl LunStore {
    pub(super) const fn new(device: BlockDevice) -> Self {
        Self(device)
    }

    pub(crate) const fn device(&self) -> &BlockDevice {
        &self.0
    }
}

impl Store for LunStore {
    fn size_bytes(&self) -> u64 {
        self.0.size()
    }

    fn block_bytes(&self) -> u32 {
        self.0.block_bytes()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        if MAY_NOT_WAIT.get() {
            return match self.0.read_now(offset, buffer).map_err(refused)? {
                true => Ok(()),
                false => {
                    WOULD_WAIT.set(true);
                    Err(StoreError::Busy)
                }
            };
        }
        self.0.read(offset, buffer).map_err(refused)
    }

    fn write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), StoreError> {
        if durable && DEFERS.get() {
            let flush = self.0.write_deferred(offset, data).map_err(refused)?;
            DEFERRED.with_borrow_mut(|deferred| deferred.extend(flush));
            return Ok(());
        }
        let durable = if durable { Durable::OnReturn } else { Durable::OnFlush };
        self.0.write(offset, data, durable).map_err(refused)
    }

    fn write_zeroes(&self, offset: u64, bytes: u64, durable: bool) -> Result<(), StoreError> {
        let durable = if durable { Durable::OnReturn } else { Durable::OnFlush };
        self.0.write_zeroes(offset, bytes, durable).map_err(refused)
    }

    fn unmap(&self, offset: u64, bytes: u64) -> Result<(), StoreError> {
        self.0.discard(offset, bytes).map_err(refused)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.0.flush().map_err(refused)
    }

    fn loss_epoch(&self) -> u64 {
        self.0.loss_epoch()
    }

    fn extent(&self, offset: u64) -> Extent {
        // What cannot be told counts as mapped.
        let (bytes, mapped) = self.0.extent(offset).unwrap_or((self.0.size().saturating_sub(offset), true));
        Extent { bytes: bytes.max(u64::from(self.0.block_bytes())), mapped }
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
