//! The inputs of a command, and the interfaces that a unit needs from its target and its host.

use super::nexus::{Lun, Nexus};

/// A command with its data.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The CDB. Bytes beyond the command's length are ignored, because iSCSI always sends 16.
    pub cdb: &'a [u8],
    /// Number of bytes that the initiator expects to transfer (RFC 7143 11.3.4). Commands whose data has a fixed length (COMPARE AND
    /// WRITE, WRITE SAME) refuse another number.
    pub expected_bytes: u32,
    /// The data that the initiator sent: at most [`Expected::bytes`](super::Expected::bytes) of
    /// [`Direction::Out`](super::Direction::Out), or fewer if it announced fewer. A medium access then writes the whole blocks that
    /// were received.
    pub data_out: &'a [u8],
    /// The target's units, for REPORT LUNS.
    pub directory: &'a dyn Directory,
}

/// The units of a target.
pub trait Directory {
    /// The LUNs that an initiator may see, in ascending order.
    fn luns(&self) -> Vec<Lun>;

    /// Called when REPORT LUNS has reported all LUNs to this nexus. The target must remove the waiting REPORTED LUNS DATA HAS CHANGED
    /// of the nexus from every unit, by [`LogicalUnit::luns_reported`](super::LogicalUnit::luns_reported) (SPC-4 6.33). No lock of a
    /// unit is held.
    fn luns_reported(&self, nexus: &Nexus);
}

/// The host could not store the reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("reservations not kept")]
pub struct HostError;

/// The interface of a unit to the program that it is part of.
pub trait Host: Send + Sync {
    /// Stores the reservations. `bytes` is the complete state, and is empty if nothing must be kept. After a restart, the caller passes
    /// the same bytes to [`LogicalUnit::new`](super::LogicalUnit::new). Only one thread calls this at a time.
    ///
    /// **Durability**: the reservations must be durable when this returns.
    ///
    /// # Errors
    /// The reservations could not be stored. The command is then refused and changes nothing.
    fn keep_reservations(&self, bytes: &[u8]) -> Result<(), HostError>;

    /// Aborts the commands of a nexus whose registration PREEMPT AND ABORT removed, if they have not begun. They get no reply (TAS is
    /// 0). The unit itself waits for those in progress. No lock of the unit is held.
    fn abort_commands(&self, nexus: &Nexus);

    /// Called once, when completed writes may be lost. The unit accepts no further write.
    fn failed(&self) {}
}
