//! State that the threads of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use host::Unpoisoned;
use tokio::sync::watch;

use super::options::RunOptions;
use super::progress::Parts;
use crate::ack_log::AckLog;
use crate::error::OrdersError;
use crate::limits::ERRORS_PRINTED_MAX;
use crate::measure::Measure;
use crate::random::NuRandConstants;
use crate::series::Series;
use crate::snapshots::SnapshotSender;

/// The moments at which a run starts, measures and ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    pub(super) began: Instant,
    pub(super) measure_from: Instant,
    pub(super) measure_upto: Instant,
}

/// The totals that are divided among the threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    pub(super) threads: u32,
    pub(super) connections: u32,
    pub(super) active_warehouses: u32,
    pub(super) constants: NuRandConstants,
}

/// State that the threads of a run share.
pub(super) struct Shared {
    pub(super) options: RunOptions,
    pub(super) shares: Shares,
    pub(super) ack_log: Option<AckLog>,
    /// Sender of the threads' snapshots, if the run is coordinated with other drivers.
    pub(super) snapshot_sender: Option<SnapshotSender<Measure>>,
    pub(super) series: std::sync::Arc<Series>,
    pub(super) progress: Parts,
    /// `None` until all sessions are open; then the schedule, or `Some(None)` if the run does not start.
    pub(super) start: watch::Sender<Option<Option<Schedule>>>,
    pub(super) stop: AtomicBool,
    /// End of the measured interval, if it ends early.
    interrupted_at: OnceLock<Instant>,
    pub(super) connected: AtomicU64,
    pub(super) orders: AtomicU64,
    pub(super) connection_losses: AtomicU64,
    pub(super) unfinished: AtomicU64,
    /// When a transaction last succeeded, in milliseconds since `began`.
    success_ms: AtomicU64,
    warned: AtomicU64,
    warnings: Mutex<Vec<String>>,
    failed: Mutex<Option<OrdersError>>,
    began: Instant,
}

impl Shared {
    pub(super) fn new(
        options: &RunOptions,
        shares: Shares,
        ack_log: Option<AckLog>,
        snapshot_sender: Option<SnapshotSender<Measure>>,
    ) -> Self {
        let seconds = usize::try_from(options.measured_s).unwrap_or(usize::MAX);
        Self {
            options: options.clone(),
            shares,
            ack_log,
            snapshot_sender,
            progress: Parts::new(if options.progress_s.is_some() { shares.threads } else { 0 }),
            series: std::sync::Arc::new(Series::new(seconds, shares.threads)),
            start: watch::channel(None).0,
            stop: AtomicBool::new(false),
            interrupted_at: OnceLock::new(),
            connected: AtomicU64::new(0),
            orders: AtomicU64::new(0),
            connection_losses: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
            success_ms: AtomicU64::new(0),
            warned: AtomicU64::new(0),
            warnings: Mutex::new(Vec::new()),
            failed: Mutex::new(None),
            began: Instant::now(),
        }
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the run was asked to end now.
    pub(super) fn is_interrupted(&self) -> bool {
        self.options.interrupted.load(Ordering::Relaxed)
    }

    /// Ends the measured interval at `at`, as if that had been the planned end.
    pub(super) fn interrupt(&self, at: Instant) {
        // Only the first end counts.
        let _ = self.interrupted_at.set(at);
    }

    /// The early end of the measured interval, if there is one.
    pub(super) fn interrupted_at(&self) -> Option<Instant> {
        self.interrupted_at.get().copied()
    }

    /// Ends the run. The first failure is reported.
    pub(super) fn fail(&self, error: OrdersError) {
        self.failed.lock().unpoisoned().get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn take_failure(&self) -> Option<OrdersError> {
        self.failed.lock().unpoisoned().take()
    }

    /// Adds a warning for the user, unless there were already too many.
    pub(super) fn warning(&self, text: impl FnOnce() -> String) {
        if self.warned.fetch_add(1, Ordering::Relaxed) < ERRORS_PRINTED_MAX {
            self.warnings.lock().unpoisoned().push(text());
        }
    }

    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unpoisoned())
    }

    /// Notes that a transaction succeeded at `now`.
    pub(super) fn succeeded(&self, now: Instant) {
        self.success_ms.store(self.since_began_ms(now), Ordering::Relaxed);
    }

    /// Time since the last successful transaction.
    pub(super) fn since_success(&self) -> Duration {
        let last_ms = self.success_ms.load(Ordering::Relaxed);
        Duration::from_millis(self.since_began_ms(Instant::now()).saturating_sub(last_ms))
    }

    fn since_began_ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}
