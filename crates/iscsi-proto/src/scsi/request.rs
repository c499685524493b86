//! What comes with a command, and what a unit asks of its target.

use super::nexus::{Lun, Nexus};

/// A command with its data.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The CDB; bytes beyond the command's length are ignored, as iSCSI always sends 16.
    pub cdb: &'a [u8],
    /// How many bytes the initiator expects to transfer (RFC 7143 11.3.4). Commands whose data must have one length (COMPARE AND WRITE,
    /// WRITE SAME) refuse another one.
    pub expected_bytes: u32,
    /// What the initiator sent: at most [`Expected::bytes`](super::Expected::bytes) of [`Direction::Out`](super::Direction::Out),
    /// fewer when it announced fewer. A medium access then writes the whole blocks that are there.
    pub data_out: &'a [u8],
    /// The target's units, for REPORT LUNS.
    pub directory: &'a dyn Directory,
}

/// The units of a target.
pub trait Directory {
    /// The LUNs that an initiator may see, in ascending order.
    fn luns(&self) -> Vec<Lun>;

    /// REPORT LUNS told this nexus of all of them: what is pending of REPORTED LUNS DATA HAS CHANGED is to be taken away from every
    /// unit, by [`LogicalUnit::luns_reported`](super::LogicalUnit::luns_reported) (SPC-4 6.33). No lock of a unit is held.
    fn luns_reported(&self, nexus: &Nexus);
}

/// The host could not keep what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("reservations not kept")]
pub struct HostError;

/// What a unit asks of the program it is part of.
pub trait Host: Send + Sync {
    /// Keeps the reservations, durably, before it returns: the whole state each time, empty when nothing is to be kept. The same
    /// bytes are given to [`LogicalUnit::new`](super::LogicalUnit::new) after a restart. Called by one thread at a time.
    ///
    /// # Errors
    /// They could not be kept; the command is then refused and changes nothing.
    fn keep_reservations(&self, bytes: &[u8]) -> Result<(), HostError>;

    /// Ends the commands of a nexus whose registration PREEMPT AND ABORT took away, those that have not begun: they are not
    /// answered (TAS is 0). Those that run are waited for by the unit itself. No lock of the unit is held.
    fn abort_commands(&self, nexus: &Nexus);

    /// Called once, when completed writes may be lost. The unit accepts no further write.
    fn failed(&self) {}
}
