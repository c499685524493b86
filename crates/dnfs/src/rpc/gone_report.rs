//! Reports that a server no longer exports the volume of a mount: once when that begins and once when it is over.

use super::events::Event;
use crate::limits::REPORT_EVERY_MS;
use crate::process::this_process;
use crate::sys::clock::monotonic_ms;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What one process has reported.
#[derive(Debug, Default)]
pub(crate) struct GoneReport {
    /// Path of the export, as the URL has it.
    export: Arc<str>,
    is_reported: AtomicBool,
    is_replaced: AtomicBool,
    /// When it was last reported, on the monotonic clock; 0: never.
    reported_ms: AtomicU64,
    /// Since when the export is gone, on the same clock.
    since_ms: AtomicU64,
}

impl GoneReport {
    /// For the export of this path.
    pub(crate) fn of(export: &str) -> Self {
        Self { export: export.into(), ..Self::default() }
    }

    /// Notes that the server has refused the handle of the root for this time.
    pub(crate) fn gone(&self, server: SocketAddr, waited: Duration) {
        if self.is_reported.load(Relaxed) {
            return;
        }
        let (now_ms, reported_ms) = (monotonic_ms(), self.reported_ms.load(Relaxed));
        let is_due = reported_ms == 0 || now_ms.saturating_sub(reported_ms) >= REPORT_EVERY_MS;
        if is_due && !self.is_reported.swap(true, Relaxed) {
            self.reported_ms.store(now_ms, Relaxed);
            self.since_ms.store(now_ms.saturating_sub(waited.as_millis() as u64), Relaxed);
            this_process().reports.report(Event::ExportGone { server, export: Arc::clone(&self.export), waited });
        }
    }

    /// Notes that the server knows the handle of the root again.
    pub(crate) fn served(&self, server: SocketAddr) {
        if self.is_reported.swap(false, Relaxed) {
            let away_ms = monotonic_ms().saturating_sub(self.since_ms.load(Relaxed));
            this_process().reports.report(Event::ExportBack {
                server,
                export: Arc::clone(&self.export),
                away: Duration::from_millis(away_ms),
            });
        }
    }

    /// Notes that the server has the volume, but the directory of the mount was removed.
    pub(crate) fn removed(&self, server: SocketAddr) {
        if self.is_reported.swap(false, Relaxed) {
            this_process().reports.report(Event::DirectoryRemoved { server, export: Arc::clone(&self.export) });
        }
    }

    /// Notes that the server exports another volume under the path.
    pub(crate) fn replaced(&self, server: SocketAddr) {
        self.is_reported.store(false, Relaxed);
        if !self.is_replaced.swap(true, Relaxed) {
            this_process().reports.report(Event::VolumeReplaced { server, export: Arc::clone(&self.export) });
        }
    }
}
