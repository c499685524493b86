//! A logical unit and its state.

use std::ops::Range;

use thiserror::Error;

use super::attention::{Attentions, Condition};
use super::call::Call;
use super::cdb::{Blocks, Cdb};
use super::command_table::Command;
use super::completion::Failure;
use super::copy_results::CopyResults;
use super::durability::Durability;
use super::expected::{Expected, expected_data};
use super::identity::Identity;
use super::mode_pages::{Bits, ModeState};
use super::nexus::Nexus;
use super::range_locks::{Exclusive, RangeLocks, Shared, Writing};
use super::request::Host;
use super::reservations::Reservations;
use super::sense::{Asc, Sense};
use super::store::Store;
use crate::limits::SCSI_TRANSFER_BYTES_MAX;

/// The behaviour of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether the write cache is on until an initiator turns it off (WCE). By default it is off: a write is durable when it completes.
    pub write_cache: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether the store can free space. If so, the unit supports UNMAP (LBPME).
    pub thin: bool,
    /// Bytes that the store writes at once. For a smaller write, the store must read first, so initiators align their writes (LOGICAL
    /// BLOCKS PER PHYSICAL BLOCK EXPONENT). A power of two, at least one block.
    pub physical_block_bytes: u32,
}

impl Default for Settings {
    /// Writes are durable, no write is refused, no space is freed, and physical blocks are pages.
    fn default() -> Self {
        Self { write_cache: false, read_only: false, thin: false, physical_block_bytes: 4096 }
    }
}

/// Why a unit cannot be created.
#[derive(Debug, Error)]
pub enum UnitError {
    /// The kept reservations cannot be decoded. Without them, the unit would admit initiators that they exclude.
    #[error("read kept reservations of {bytes} bytes: {reason} at byte {offset}")]
    Reservations {
        /// Length of the kept reservations, in bytes.
        bytes: usize,
        /// Offset at which decoding failed.
        offset: usize,
        /// The reason.
        reason: &'static str,
    },
    /// The size or a block size is not valid for a unit.
    #[error("make a logical unit of {size_bytes} bytes in blocks of {block_bytes}, physical ones of {physical_block_bytes}")]
    Geometry {
        /// Size of the store, in bytes.
        size_bytes: u64,
        /// Size of a block, in bytes.
        block_bytes: u32,
        /// Size of a physical block, in bytes.
        physical_block_bytes: u32,
    },
}

/// A logical unit: a direct access block device on a [`Store`]. Several threads may call it at the same time.
pub struct LogicalUnit<S> {
    pub(super) store: S,
    pub(super) identity: Identity,
    pub(super) settings: Settings,
    pub(super) host: Box<dyn Host>,
    pub(super) attentions: Attentions,
    pub(super) modes: ModeState,
    pub(super) durability: Durability,
    pub(super) reservations: Reservations,
    pub(super) copy_results: CopyResults,
    ranges: RangeLocks,
}

impl<S: Store> LogicalUnit<S> {
    /// A unit. `kept_reservations` are the bytes of the last call of [`Host::keep_reservations`]. Empty if there was no call.
    ///
    /// # Errors
    /// The reservations cannot be decoded. The store has no block, or its block size is not a power of two from 512 to 4096. The physical
    /// block size is not a power of two from one block to 1 MiB.
    pub fn new(
        store: S,
        identity: Identity,
        settings: Settings,
        host: Box<dyn Host>,
        kept_reservations: &[u8],
    ) -> Result<Self, UnitError> {
        let (size_bytes, block_bytes) = (store.size_bytes(), store.block_bytes());
        let physical_block_bytes = settings.physical_block_bytes;
        let whole = block_bytes.is_power_of_two()
            && (512..=4096).contains(&block_bytes)
            && physical_block_bytes.is_power_of_two()
            && (block_bytes..=1 << 20).contains(&physical_block_bytes);
        if !whole || size_bytes == 0 || !size_bytes.is_multiple_of(u64::from(block_bytes)) || size_bytes > i64::MAX as u64 {
            return Err(UnitError::Geometry { size_bytes, block_bytes, physical_block_bytes });
        }
        let reservations = Reservations::read(kept_reservations).map_err(|error| UnitError::Reservations {
            bytes: kept_reservations.len(),
            offset: error.offset,
            reason: error.reason,
        })?;
        Ok(Self {
            durability: Durability::new(store.loss_epoch()),
            store,
            identity,
            settings,
            host,
            attentions: Attentions::default(),
            modes: ModeState::new(settings.write_cache),
            reservations,
            copy_results: CopyResults::default(),
            ranges: RangeLocks::default(),
        })
    }

    /// The store of the unit.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The names and numbers by which the unit identifies itself.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The data that a CDB transfers.
    #[must_use]
    pub fn expected_data(&self, cdb: &[u8]) -> Expected {
        expected_data(cdb, self.store.block_bytes())
    }

    /// Registers a nexus (a session that logged in). Its first command reports the unit attention: [`Asc::POWER_ON_OCCURRED`] after a start
    /// that may have lost writes, [`Asc::I_T_NEXUS_LOSS_OCCURRED`] after one that lost no writes,
    /// [`Asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET`] for the first login since. `None` reports nothing.
    ///
    /// A nexus that is not attached may send commands, and gets no unit attentions that are for all.
    pub fn attach(&self, nexus: &Nexus, attention: Option<Asc>) {
        self.attentions.attach(nexus);
        if let Some(asc) = attention {
            self.attentions.add(nexus, Condition::Attention(asc));
        }
    }

    /// Adds a unit attention for a nexus, if it is attached.
    pub fn report(&self, nexus: &Nexus, attention: Asc) {
        self.attentions.add_to_known(nexus, Condition::Attention(attention));
    }

    /// Removes a nexus whose session has ended, also by logout. Its RESERVE ends and its unit attentions are forgotten. Registrations stay
    /// (SPC-4 5.13.1).
    pub fn detach(&self, nexus: &Nexus) {
        self.reservations.end_reserve(Some(nexus));
        self.attentions.detach(nexus);
        self.copy_results.forget(nexus);
    }

    /// Performs a logical unit reset (SAM-5 6.3.3). The caller has ended the unit's commands before. RESERVE ends, and mode pages have
    /// their defaults. Every nexus gets this unit attention: [`Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED`] for LOGICAL UNIT RESET and the
    /// target resets. Persistent reservations stay.
    ///
    /// **Durability**: unchanged. The write cache of a unit that has one is on again.
    pub fn reset(&self, attention: Asc) {
        self.reservations.end_reserve(None);
        self.attentions.add_to_all(None, Condition::Attention(attention));
        let turns_cache_on = self.settings.write_cache && !self.modes.has_write_cache();
        self.modes.set(Bits::default_of(self.settings.write_cache));
        if turns_cache_on {
            // Initiators that know the write cache as off must send flushes again.
            self.attentions.add_to_all(None, Condition::Attention(Asc::MODE_PARAMETERS_CHANGED));
        }
    }

    /// Reports to every nexus that the size of the store has changed.
    pub fn capacity_changed(&self) {
        self.attentions.add_to_all(None, Condition::Attention(Asc::CAPACITY_DATA_HAS_CHANGED));
    }

    /// Reports to every nexus that the LUNs of the target have changed.
    pub fn luns_changed(&self) {
        self.attentions.add_to_all(None, Condition::Attention(Asc::REPORTED_LUNS_DATA_HAS_CHANGED));
    }

    /// Removes that report for a nexus that has read the list of LUNs. See [`Directory::luns_reported`](super::Directory::luns_reported).
    pub fn luns_reported(&self, nexus: &Nexus) {
        self.attentions.remove(nexus, Condition::Attention(Asc::REPORTED_LUNS_DATA_HAS_CHANGED));
    }

    /// Whether the unit refuses writes because earlier ones may be lost.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.durability.has_failed()
    }

    /// Whether the write cache is on now (WCE).
    #[must_use]
    pub fn has_write_cache(&self) -> bool {
        self.modes.has_write_cache()
    }

    /// Logical blocks in a physical block.
    pub(super) fn physical_blocks(&self) -> u32 {
        self.settings.physical_block_bytes / self.store.block_bytes()
    }

    pub(super) fn block_bytes(&self) -> u64 {
        u64::from(self.store.block_bytes())
    }

    /// Number of blocks of the unit.
    pub(super) fn block_count(&self) -> u64 {
        self.store.size_bytes() / self.block_bytes()
    }

    /// Whether the unit supports the command.
    pub(super) fn supports(&self, command: Command) -> bool {
        self.settings.thin || command != Command::Unmap
    }

    /// The byte range of a CDB's blocks.
    ///
    /// # Errors
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub(super) fn bytes_of(&self, blocks: Blocks) -> Result<Range<u64>, Sense> {
        let end = blocks.lba.checked_add(blocks.count).filter(|end| *end <= self.block_count());
        let end = end.ok_or(Sense::illegal(Asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE))?;
        Ok(blocks.lba * self.block_bytes()..end * self.block_bytes())
    }

    /// The byte range of a CDB that transfers its blocks.
    ///
    /// # Errors
    /// As [`Self::bytes_of`]. INVALID FIELD IN CDB above MAXIMUM TRANSFER LENGTH.
    pub(super) fn transfer_of(&self, cdb: &Cdb) -> Result<Range<u64>, Sense> {
        let bytes = self.bytes_of(cdb.blocks())?;
        if bytes.end - bytes.start > SCSI_TRANSFER_BYTES_MAX {
            return Err(Sense::cdb_field(cdb.count_byte(), None));
        }
        Ok(bytes)
    }

    /// Begins a read of the medium. The reservation is checked after the lock is taken. A later reservation does not wait for this read.
    pub(super) fn begin_read(&self, call: &Call<'_>, bytes: &Range<u64>) -> Result<Shared<'_>, Failure> {
        let lock = self.ranges.reading(bytes.clone());
        self.reservations.check(call)?;
        Ok(lock)
    }

    /// Begins a write to the medium. Other commands may run at the same time. The reservation is checked after the lock is taken, so a
    /// later reservation waits for this write.
    pub(super) fn begin_write(&self, call: &Call<'_>, bytes: &Range<u64>) -> Result<Writing<'_>, Failure> {
        let lock = self.ranges.writing(bytes.clone());
        self.reservations.check(call)?;
        Ok(lock)
    }

    /// Begins a write to the medium during which no other command uses its blocks.
    pub(super) fn begin_exclusive(&self, call: &Call<'_>, bytes: &Range<u64>) -> Result<Exclusive<'_>, Failure> {
        let lock = self.ranges.exclusive(bytes.clone());
        self.reservations.check(call)?;
        Ok(lock)
    }

    /// Waits for the writes that began before this call.
    pub(super) fn drain_writes(&self) {
        self.ranges.drain_writes();
    }
}
