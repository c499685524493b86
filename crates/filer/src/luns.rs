//! LUNs: files of a volume that are served as block devices.
//!
//! Each volume has a table of its LUNs ([`Luns`]). A LUN ([`Lun`]) is a file of the volume, opened as a block device, with a
//! logical unit of `iscsi-proto`. Its state is in the volume ([`record`], [`files`]) and in the volume's state directory
//! ([`kept`]).

mod error;
mod files;
mod kept;
mod lun;
mod naming;
mod record;
mod stats;
mod store;
mod table;

pub(crate) use error::LunError;
pub(crate) use lun::{Knows, Lun, Unit};
pub(crate) use naming::Naming;
pub(crate) use record::{ANY, LunOptions};
pub(crate) use stats::{CountedRow, InitiatorStats, Operation};
pub(crate) use store::{deferring_flushes, without_waiting};
pub(crate) use table::{Luns, NewLun};
