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

/// How a unit behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The write cache is on until an initiator turns it off (WCE; off by default: a write is durable when it completes).
    pub write_cache: bool,
    /// Writes are refused.
    pub read_only: bool,
    /// The store gives space back: UNMAP is offered (LBPME).
    pub thin: bool,
    /// Bytes that the store writes at once, smaller writes costing it a read: initiators align by it (LOGICAL BLOCKS PER PHYSICAL
    /// BLOCK EXPONENT). A power of two, at least a block.
    pub physical_block_bytes: u32,
}

impl Default for Settings {
    /// Writes are durable, nothing is refused or given back, and physical blocks are pages.
    fn default() -> Self {
        Self { write_cache: false, read_only: false, thin: false, physical_block_bytes: 4096 }
    }
}

/// A unit that cannot be made.
#[derive(Debug, Error)]
pub enum UnitError {
    /// The kept reservations cannot be read: the unit would let in whom they keep out.
    #[error("read kept reservations of {bytes} bytes: {reason} at byte {offset}")]
    Reservations {
        /// How many bytes they have.
        bytes: usize,
        /// Where reading failed.
        offset: usize,
        /// Why.
        reason: &'static str,
    },
    /// The store has no size that a unit can have.
    #[error("make a logical unit of {size_bytes} bytes in blocks of {block_bytes}, physical ones of {physical_block_bytes}")]
    Geometry {
        /// Bytes of the store.
        size_bytes: u64,
        /// Bytes of a block.
        block_bytes: u32,
        /// Bytes of a physical block.
        physical_block_bytes: u32,
    },
}

/// A logical unit: a direct access block device over a [`Store`]. Many threads call it at once.
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
    /// A unit. `kept_reservations` are the bytes that [`Host::keep_reservations`] was given last, empty when it never was.
    ///
    /// # Errors
    /// Reservations that cannot be read; a store without a block, or with a block that is not a power of two from 512 to 4096; a physical
    /// block that is not a power of two from a block to 1 MiB.
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

    /// What it stands on.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// What it says of itself.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What a CDB asks to transfer.
    #[must_use]
    pub fn expected_data(&self, cdb: &[u8]) -> Expected {
        expected_data(cdb, self.store.block_bytes())
    }

    /// A nexus was made (a session logged in): it is told so by this unit attention with its first command.
    /// [`Asc::POWER_ON_OCCURRED`] after a start that may have lost writes, [`Asc::I_T_NEXUS_LOSS_OCCURRED`] after one that lost
    /// none, [`Asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET`] for the first login since; `None` to tell it nothing.
    ///
    /// A nexus that is not attached may send commands, and is not told what concerns all.
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

    /// A nexus was lost (its session ended, by logout too): its RESERVE ends and its unit attentions are forgotten.
    /// Registrations stay (SPC-4 5.13.1).
    pub fn detach(&self, nexus: &Nexus) {
        self.reservations.end_reserve(Some(nexus));
        self.attentions.detach(nexus);
        self.copy_results.forget(nexus);
    }

    /// A logical unit reset (SAM-5 6.3.3), after the caller has ended the unit's commands: RESERVE ends, mode
    /// pages have their defaults, every nexus is told by this unit attention: [`Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED`] for LOGICAL
    /// UNIT RESET and the target resets. Persistent reservations stay.
    ///
    /// **Durability**: unchanged. The write cache of a unit that has one is on again.
    pub fn reset(&self, attention: Asc) {
        self.reservations.end_reserve(None);
        self.attentions.add_to_all(None, Condition::Attention(attention));
        let turns_cache_on = self.settings.write_cache && !self.modes.has_write_cache();
        self.modes.set(Bits::default_of(self.settings.write_cache));
        if turns_cache_on {
            // Initiators that think the write cache is off must send flushes again.
            self.attentions.add_to_all(None, Condition::Attention(Asc::MODE_PARAMETERS_CHANGED));
        }
    }

    /// The store has another size now: every nexus is told.
    pub fn capacity_changed(&self) {
        self.attentions.add_to_all(None, Condition::Attention(Asc::CAPACITY_DATA_HAS_CHANGED));
    }

    /// The target has other LUNs now: every nexus is told.
    pub fn luns_changed(&self) {
        self.attentions.add_to_all(None, Condition::Attention(Asc::REPORTED_LUNS_DATA_HAS_CHANGED));
    }

    /// The nexus got the list of LUNs: it need not be told any more. See [`Directory::luns_reported`](super::Directory::luns_reported).
    pub fn luns_reported(&self, nexus: &Nexus) {
        self.attentions.remove(nexus, Condition::Attention(Asc::REPORTED_LUNS_DATA_HAS_CHANGED));
    }

    /// Whether the unit refuses writes because earlier ones may be lost.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.durability.has_failed()
    }

    /// Whether its write cache is on now (WCE).
    #[must_use]
    pub fn has_write_cache(&self) -> bool {
        self.modes.has_write_cache()
    }

    /// Logical blocks of a physical one.
    pub(super) fn physical_blocks(&self) -> u32 {
        self.settings.physical_block_bytes / self.store.block_bytes()
    }

    pub(super) fn block_bytes(&self) -> u64 {
        u64::from(self.store.block_bytes())
    }

    /// Blocks of the unit.
    pub(super) fn block_count(&self) -> u64 {
        self.store.size_bytes() / self.block_bytes()
    }

    /// Whether the unit has this command at all.
    pub(super) fn supports(&self, command: Command) -> bool {
        self.settings.thin || command != Command::Unmap
    }

    /// The bytes that a CDB's blocks are.
    ///
    /// # Errors
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub(super) fn bytes_of(&self, blocks: Blocks) -> Result<Range<u64>, Sense> {
        let end = blocks.lba.checked_add(blocks.count).filter(|end| *end <= self.block_count());
        let end = end.ok_or(Sense::illegal(Asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE))?;
        Ok(blocks.lba * self.block_bytes()..end * self.block_bytes())
    }

    /// The bytes of a CDB that transfers its blocks.
    ///
    /// # Errors
    /// As [`Self::bytes_of`]; INVALID FIELD IN CDB above MAXIMUM TRANSFER LENGTH.
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

    /// Begins a write to the medium. Others may run at the same time. The reservation is checked after the lock is taken, so a later reservation
    /// waits for this write.
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

    /// Waits for the writes that began before.
    pub(super) fn drain_writes(&self) {
        self.ranges.drain_writes();
    }
}
