//! What a logical unit stands on.

use thiserror::Error;

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The host could not read or write the bytes.
    #[error("medium error")]
    Medium,
    /// No space, or beyond a quota.
    #[error("no space left")]
    NoSpace,
    /// The store is read-only by its configuration.
    #[error("write protected")]
    WriteProtected,
    /// A flush failed earlier; nothing durable can be promised any more.
    #[error("an earlier flush failed: no write can be made durable")]
    Poisoned,
    /// Not now: a snapshot or a restore holds I/O back. The initiator is told to try again.
    #[error("busy")]
    Busy,
    /// The range lies beyond the end, because the store was made smaller meanwhile.
    #[error("range beyond the end")]
    OutOfRange,
}

/// A run of blocks of a store with one provisioning status (SBC-3 5.4, GET LBA STATUS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of the run from the offset asked for: at least one block.
    pub bytes: u64,
    /// False: a hole, which reads as zeros and has no space.
    pub mapped: bool,
}

/// The bytes of a logical unit. Offsets and lengths are whole blocks within `size_bytes`; many threads call at once.
///
/// A write that returned is seen by every read that begins later. The unit orders commands that must not mix (COMPARE AND
/// WRITE); the store need not.
pub trait Store: Send + Sync {
    /// Bytes of the unit: a whole number of blocks. It may change (the caller then calls
    /// [`LogicalUnit::capacity_changed`](super::LogicalUnit::capacity_changed)).
    fn size_bytes(&self) -> u64;

    /// Bytes of a logical block: a power of two from 512 to 4096 that never changes.
    fn block_bytes(&self) -> u32;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// The bytes could not be read; the buffer's content is then undefined.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError>;

    /// Writes `data` at `offset`.
    ///
    /// **Durability**: on return when `durable`, else after the next [`Self::flush`] that succeeds.
    ///
    /// # Errors
    /// Each block of the range may then be old or new.
    fn write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), StoreError>;

    /// Makes `bytes` from `offset` read as zeros and keeps space for them.
    ///
    /// **Durability**: as [`Self::write`].
    ///
    /// # Errors
    /// As [`Self::write`].
    fn write_zeroes(&self, offset: u64, bytes: u64, durable: bool) -> Result<(), StoreError>;

    /// Makes `bytes` from `offset` read as zeros and gives their space back where that can be done.
    ///
    /// **Durability**: after the next [`Self::flush`] that succeeds.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn unmap(&self, offset: u64, bytes: u64) -> Result<(), StoreError>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// What was written since the last successful one may be lost.
    fn flush(&self) -> Result<(), StoreError>;

    /// A number that moves when writes that were not durable may have been lost.
    fn loss_epoch(&self) -> u64;

    /// The run of one provisioning status that begins at `offset`. A store that does not know says that all is mapped.
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
