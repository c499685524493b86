//! The store of a logical unit: the interface to its data.

use thiserror::Error;

/// Why an operation of the store failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The host could not read or write the bytes.
    #[error("medium error")]
    Medium,
    /// There is no space, or a quota is reached.
    #[error("no space left")]
    NoSpace,
    /// The store is read-only by its configuration.
    #[error("the LUN is write-protected")]
    WriteProtected,
    /// An earlier flush failed. Nothing can be made durable any more.
    #[error("an earlier flush failed: no write can be made durable")]
    Poisoned,
    /// A snapshot or a restore is in progress. The initiator must try again.
    #[error("busy")]
    Busy,
    /// The range is beyond the end, because the size of the store was reduced.
    #[error("range beyond the end")]
    OutOfRange,
}

/// Consecutive blocks of a store with one provisioning status (SBC-3 5.4, GET LBA STATUS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of bytes from the requested offset on: at least one block.
    pub bytes: u64,
    /// False for a hole, which reads as zeros and occupies no space.
    pub mapped: bool,
}

/// The data of a logical unit. Offsets and lengths are whole blocks within `size_bytes`. Several threads may call at the
/// same time.
///
/// Every read that begins after a write has returned sees that write. The unit orders commands that exclude each other
/// (COMPARE AND WRITE). The store need not do that.
pub trait Store: Send + Sync {
    /// Size of the unit, in bytes: a whole number of blocks. When it changes, the caller calls
    /// [`LogicalUnit::capacity_changed`](super::LogicalUnit::capacity_changed).
    fn size_bytes(&self) -> u64;

    /// Size of a logical block, in bytes: a power of two from 512 to 4096 that never changes.
    fn block_bytes(&self) -> u32;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// The bytes could not be read. The content of the buffer is then undefined.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError>;

    /// Writes `data` at `offset`.
    ///
    /// **Durability**: durable on return if `durable` is set, otherwise after the next [`Self::flush`] that succeeds.
    ///
    /// # Errors
    /// After an error, each block of the range may have its old or its new content.
    fn write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), StoreError>;

    /// Makes `bytes` bytes from `offset` on read as zeros, and reserves space for them.
    ///
    /// **Durability**: as [`Self::write`].
    ///
    /// # Errors
    /// As [`Self::write`].
    fn write_zeroes(&self, offset: u64, bytes: u64, durable: bool) -> Result<(), StoreError>;

    /// Makes `bytes` bytes from `offset` on read as zeros, and frees their space if possible.
    ///
    /// **Durability**: after the next [`Self::flush`] that succeeds.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn unmap(&self, offset: u64, bytes: u64) -> Result<(), StoreError>;

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// Writes since the last successful flush may be lost.
    fn flush(&self) -> Result<(), StoreError>;

    /// A number that changes when writes that were not durable may have been lost.
    fn loss_epoch(&self) -> u64;

    /// The extent of one provisioning status that begins at `offset`. A store that has no such information reports all as
    /// mapped.
    fn extent(&self, offset: u64) -> Extent {
        Extent { bytes: self.size_bytes().saturating_sub(offset).max(u64::from(self.block_bytes())), mapped: true }
    }
}

impl<T: Store + ?Sized> Store for std::sync::Arc<T> {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }

    fn block_bytes(&self) -> u32 {
        (**self).block_bytes()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        (**self).read(offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), StoreError> {
        (**self).write(offset, data, durable)
    }

    fn write_zeroes(&self, offset: u64, bytes: u64, durable: bool) -> Result<(), StoreError> {
        (**self).write_zeroes(offset, bytes, durable)
    }

    fn unmap(&self, offset: u64, bytes: u64) -> Result<(), StoreError> {
        (**self).unmap(offset, bytes)
    }

    fn flush(&self) -> Result<(), StoreError> {
        (**self).flush()
    }

    fn loss_epoch(&self) -> u64 {
        (**self).loss_epoch()
    }

    fn extent(&self, offset: u64) -> Extent {
        (**self).extent(offset)
    }
}
