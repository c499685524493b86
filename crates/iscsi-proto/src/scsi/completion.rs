//! The result of a command.

use super::sense::Sense;

/// SCSI status (SAM-5 5.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The command is complete.
    Good,
    /// The command failed. The sense data has the reason.
    CheckCondition,
    /// The unit cannot accept the command now. The initiator must try again.
    Busy,
    /// A reservation of another nexus forbids the command.
    ReservationConflict,
    /// The unit has the largest number of commands.
    TaskSetFull,
    /// A task management function of another nexus ended the command, and TAS is set.
    TaskAborted,
}

impl Status {
    /// The status byte.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Good => 0x00,
            Self::CheckCondition => 0x02,
            Self::Busy => 0x08,
            Self::ReservationConflict => 0x18,
            Self::TaskSetFull => 0x28,
            Self::TaskAborted => 0x40,
        }
    }
}

/// Why a command was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// CHECK CONDITION.
    Check(Sense),
    /// Another status.
    Status(Status),
}

impl From<Sense> for Failure {
    fn from(sense: Sense) -> Self {
        Self::Check(sense)
    }
}

impl From<Failure> for Completion {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Check(sense) => Self::check(sense),
            Failure::Status(status) => Self::status(status),
        }
    }
}

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Completion {
    /// The status.
    pub status: Status,
    /// The reason, for CHECK CONDITION.
    pub sense: Option<Sense>,
    /// Number of bytes at the start of the data-in buffer that the caller must send.
    pub data_in_bytes: usize,
    /// Number of bytes that the command would have transferred in its direction with large enough buffers (SPC-4 4.2.5.6: after
    /// truncation by the allocation length). 0 if the command failed before the transfer.
    pub transfer_bytes: u64,
}

/// The difference between the transfer and the number of bytes that the initiator expected (RFC 7143 11.4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residual {
    /// There is no difference.
    None,
    /// Number of expected bytes that were not transferred.
    Underflow(u32),
    /// Number of bytes beyond the expected ones that would have been transferred.
    Overflow(u32),
}

impl Completion {
    /// GOOD after a transfer of `transfer_bytes`, of which `data_in_bytes` are in the data-in buffer.
    pub const fn good(transfer_bytes: u64, data_in_bytes: usize) -> Self {
        Self { status: Status::Good, sense: None, data_in_bytes, transfer_bytes }
    }

    /// GOOD with parameter data, which is truncated to the allocation length and copied to the buffer (SPC-4 4.2.5.6).
    pub(super) fn data(data: &[u8], allocation: u64, buffer: &mut [u8]) -> Self {
        let transfer = (data.len() as u64).min(allocation);
        let bytes = buffer.len().min(transfer as usize);
        if let (Some(to), Some(from)) = (buffer.get_mut(..bytes), data.get(..bytes)) {
            to.copy_from_slice(from);
        }
        Self::good(transfer, bytes)
    }

    /// CHECK CONDITION.
    pub const fn check(sense: Sense) -> Self {
        Self { status: Status::CheckCondition, sense: Some(sense), data_in_bytes: 0, transfer_bytes: 0 }
    }

    /// A status without sense data or a transfer.
    pub const fn status(status: Status) -> Self {
        Self { status, sense: None, data_in_bytes: 0, transfer_bytes: 0 }
    }

    /// The residual for an initiator that expected to transfer this number of bytes.
    #[must_use]
    pub fn residual(&self, expected_bytes: u32) -> Residual {
        let expected = u64::from(expected_bytes);
        let clamp = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.transfer_bytes.cmp(&expected) {
            std::cmp::Ordering::Less => Residual::Underflow(clamp(expected - self.transfer_bytes)),
            std::cmp::Ordering::Equal => Residual::None,
            std::cmp::Ordering::Greater => Residual::Overflow(clamp(self.transfer_bytes - expected)),
        }
    }
}
