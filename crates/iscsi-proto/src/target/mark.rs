//! What a reply carries until it is stamped, and its residual count.

use crate::serial::StatSn;

/// Instructions for the sender about a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(pub(super) u32);

impl Mark {
    const TAKES_NUMBER: u32 = 1 << 31;
    const SHOWS_NUMBER: u32 = 1 << 30;
    const WAITS: u32 = 1 << 29;

    /// A PDU that belongs to no task and takes a StatSN.
    pub(super) const NUMBERED: Self = Self(Self::TAKES_NUMBER);
    /// A PDU that belongs to no task, takes a StatSN, and is sent when all aborted tasks have ended.
    pub(super) const WAITING: Self = Self(Self::TAKES_NUMBER | Self::WAITS);
    /// A PDU that belongs to no task and shows the StatSN of the next response.
    pub(super) const UNNUMBERED: Self = Self(Self::SHOWS_NUMBER);

    /// The PDU that ends a task.
    pub(super) const fn status(slot: u32) -> Self {
        Self(Self::TAKES_NUMBER | (slot + 1))
    }

    /// A PDU of a task that shows the StatSN of the next response.
    pub(super) const fn request(slot: u32) -> Self {
        Self(Self::SHOWS_NUMBER | (slot + 1))
    }

    /// A data PDU of a task without status. Its StatSN is reserved.
    pub(super) const fn data(slot: u32) -> Self {
        Self(slot + 1)
    }

    pub(super) const fn takes_number(self) -> bool {
        self.0 & Self::TAKES_NUMBER != 0
    }

    pub(super) const fn shows_number(self) -> bool {
        self.0 & (Self::TAKES_NUMBER | Self::SHOWS_NUMBER) != 0
    }

    pub(super) const fn waits(self) -> bool {
        self.0 & Self::WAITS != 0
    }

    pub(super) const fn slot(self) -> Option<u32> {
        (self.0 & 0xffff).checked_sub(1)
    }

    pub(super) const fn as_stat_sn(self) -> StatSn {
        StatSn(self.0)
    }
}

/// A residual count (RFC 7143 11.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Residual {
    pub(super) overflow: bool,
    pub(super) underflow: bool,
    pub(super) bytes: u32,
}

impl Residual {
    pub(super) fn new(expected: u32, transfer: u64) -> Self {
        let too_many = transfer.saturating_sub(u64::from(expected));
        let missing = u64::from(expected).saturating_sub(transfer);
        let bytes = u32::try_from(too_many.max(missing)).unwrap_or(u32::MAX);
        Self { overflow: too_many > 0, underflow: missing > 0, bytes }
    }
}
