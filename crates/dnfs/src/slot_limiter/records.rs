//! What the segment holds of leases and of connections that stay open.

use crate::sys::atomic::{AtomicU32, AtomicU64};

use crate::limits::KEPT_CONNECTIONS_MAX;

/// One lease, in the segment.
#[repr(C, align(64))]
pub(crate) struct LeaseRecord {
    /// Turn and state.
    pub(super) state: AtomicU64,
    /// When the holder last renewed it, in ms of the monotonic clock.
    pub(super) stamp_ms: AtomicU64,
    /// High half of the holder's owner words.
    pub(super) process: AtomicU32,
    /// The holder's thread in its process.
    pub(super) thread: AtomicU32,
    /// 1: the holder may have a call in flight that must not reach the server after the takeover, so the taker fences the
    /// holder.
    pub(super) is_strong: AtomicU32,
}

/// The holder of each place, and the current limit.
#[repr(C)]
pub(crate) struct KeptTable {
    /// Owner word; 0 if the place is free.
    pub(crate) places: [AtomicU64; KEPT_CONNECTIONS_MAX],
    /// Until when the limit is `low`, in ms of the monotonic clock.
    pub(crate) low_until_ms: AtomicU64,
    pub(crate) low: AtomicU32,
    pub(crate) reserved: AtomicU32,
}
