//! SCSI: the commands of a direct access block device (SBC-3, SPC-4, SAM-5), and the state of a logical unit.
//!
//! A target has a [`LogicalUnit`] for each LUN, on a [`Store`] of the caller. For each command, the target calls
//! [`LogicalUnit::expected_data`] to learn how much data the CDB transfers and in which direction, receives that data (limited by
//! the number of bytes that the initiator announced), and calls [`LogicalUnit::execute`] on any thread. For a LUN without a unit
//! it calls [`execute_absent`]. This module has no clock, thread or file. It passes state that must be stored to the [`Host`].
//!
//! **Order.** Commands that run at the same time are simple tasks. The initiator orders commands that exclude each other. Every
//! command that begins after a write has completed sees that write. COMPARE AND WRITE, ORWRITE and WRITE ATOMIC exclude others on
//! the same blocks. A PERSISTENT RESERVE OUT or RESERVE completes after the writes that it forbids have ended.
//!
//! **Durability.** With the write cache off (the default), a write is durable when it completes. With the cache on (WCE of the
//! Caching mode page), a write is durable after a FUA write or SYNCHRONIZE CACHE. If a flush fails, or if the store's loss epoch
//! changes while writes are not durable, every nexus gets a deferred error once, and the unit refuses writes from then on. Reads
//! continue.

mod absent;
mod attention;
mod call;
mod capacity;
mod cdb;
mod command_table;
mod compare_and_write;
mod completion;
mod copy_results;
mod device_control;
mod durability;
mod execute;
mod expected;
mod extended_copy;
mod identity;
mod inquiry;
mod luns;
mod media;
mod mode_pages;
mod mode_select;
mod mode_sense;
mod nexus;
mod provisioning;
mod range_locks;
mod report_opcodes;
mod request;
mod reservations;
mod reserve_commands;
mod sense;
mod store;
mod target_ports;
mod unit;
mod write_checks;

pub use absent::execute_absent;
pub use completion::{Completion, Residual, Status};
pub use expected::{Direction, Expected, expected_data};
pub use identity::{Identity, IdentityError, PRODUCT_BYTES_MAX, REVISION_BYTES_MAX, SERIAL_BYTES_MAX, TargetPort, VENDOR};
pub use inquiry::{LOSS_EPOCH_PAGE, read_loss_epoch};
pub use nexus::{Lun, NameError, Nexus};
pub use request::{Directory, Host, HostError, Request};
pub use sense::{Asc, FIXED_SENSE_BYTES, FieldPointer, SENSE_BYTES_MAX, Sense, SenseKey};
pub use store::{Extent, Store, StoreError};
pub use unit::{LogicalUnit, Settings, UnitError};
