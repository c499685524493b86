//! Where a process reports events, and how often.

use crate::limits::REPORT_EVERY_MS;
use crate::rpc::events::Event;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reporter of a process. A child has that of its parent.
pub(crate) struct Reports {
    reporter: OnceLock<fn(Event)>,
    /// When a denial was last reported, for any mount, in ms of the monotonic clock; 0: never.
    denied_ms: AtomicU64,
}

impl Reports {
    pub(super) const fn new() -> Self {
        Self { reporter: OnceLock::new(), denied_ms: AtomicU64::new(0) }
    }

    /// Registers the reporter. Only the first registration counts.
    pub(super) fn register(&self, reporter: fn(Event)) {
        let _ = self.reporter.set(reporter);
    }

    /// Reports an event if there is a reporter.
    pub(crate) fn report(&self, event: Event) {
        if let Some(reporter) = self.reporter.get() {
            reporter(event);
        }
    }

    /// Whether the caller may report a denial now: at most one in [`REPORT_EVERY_MS`].
    pub(crate) fn take_denial_turn(&self, now_ms: u64) -> bool {
        let reported_ms = self.denied_ms.load(Ordering::Relaxed);
        let is_due = reported_ms == 0 || now_ms.saturating_sub(reported_ms) >= REPORT_EVERY_MS;
        is_due && self.denied_ms.compare_exchange(reported_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
