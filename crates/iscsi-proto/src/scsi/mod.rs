//! SCSI: the commands of a direct access block device (SBC-3, SPC-4, SAM-5), and what a logical unit remembers.
//!
//! A target keeps a [`LogicalUnit`] for each LUN, over a [`Store`] of its own making. For a command that arrived it asks
//! [`LogicalUnit::expected_data`] how much data the CDB moves and in which direction, receives that (bounded by what the initiator
//! announced), and calls [`LogicalUnit::execute`] on any thread. For a LUN without a unit it calls [`execute_absent`].
//! Nothing here has a clock, a thread or a file; what must be kept is handed to the [`Host`].
//!
//! **Order.** Commands that run at the same time are simple tasks: the initiator orders those that must not mix. A write that
//! completed is seen by every command that begins later. COMPARE AND WRITE, ORWRITE and WRITE ATOMIC exclude others on the same
//! blocks. A PERSISTENT RESERVE OUT or RESERVE that completed has waited for the writes that it forbids.
//!
//! **Durability.** With the write cache off (the default) a write is durable when it completes. With it on (WCE of the Caching
//! mode page), after a FUA write or SYNCHRONIZE CACHE. When a flush fails or the store's loss epoch moves while writes are not
//! durable, every nexus is told once by a deferred error and the unit refuses writes from then on; reads go on.

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
