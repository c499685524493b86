//! What the connections of all services hold together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Sums over all connections.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Sizes of the buffers, in bytes.
    pub(super) buffer_bytes: AtomicUsize,
    /// Slow requests and their replies until these have left, in bytes.
    pub(super) slow_bytes: AtomicUsize,
}

impl Totals {
    /// Sizes of the buffers of all connections, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes.load(Ordering::Relaxed)
    }
}
