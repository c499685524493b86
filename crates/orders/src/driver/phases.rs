//! The phases of a run: connect, warm-up, measured interval.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use results::orders_run::CpuTime;
use tokio::sync::oneshot;

use super::options::Event;
use super::shared::{Schedule, Shared};
use crate::error::OrdersError;
use crate::measure::process_cpu;

/// Lead time of an early end, so that every thread knows of it in time.
const END_AHEAD: Duration = Duration::from_millis(20);
/// Interval between two checks whether the run was asked to end.
const LOOK: Duration = Duration::from_millis(100);

/// The barrier of a coordinated run: this side reports that all sessions are open, the other side sends the start of the warm-up.
pub(super) type StartBarrier = (oneshot::Sender<()>, oneshot::Receiver<Instant>);

/// Result of a wait.
#[derive(PartialEq, Eq)]
enum Waited {
    /// The moment was reached.
    Reached,
    /// The run was asked to end.
    Interrupted,
    /// The run failed.
    Stopped,
}

/// Starts the clock when all sessions are connected, and reports each phase. `None` if the run failed, or was interrupted before
/// it measured anything.
pub(super) async fn run_phases(
    shared: &Shared,
    barrier: Option<StartBarrier>,
    on_event: &mut impl FnMut(&Event),
) -> Option<(Schedule, CpuTime)> {
    let connections = u64::from(shared.shares.connections);
    while shared.connected.load(Ordering::Relaxed) < connections {
        if shared.is_interrupted() {
            shared.fail(OrdersError::NothingMeasured);
        }
        if shared.stopped() {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    on_event(&Event::Connected);
    let began = match barrier {
        Some((connected, start)) => {
            // If the receiver is gone, the start fails below.
            let _ = connected.send(());
            tokio::select! {
                begun = start => begun.ok()?,
                () = interrupted(shared) => {
                    shared.fail(OrdersError::NothingMeasured);
                    return None;
                }
            }
        }
        None => Instant::now(),
    };
    shared.succeeded(began);
    let measure_from = began + Duration::from_secs(shared.options.warmup_s);
    let measure_upto = measure_from + Duration::from_secs(shared.options.measured_s);
    let schedule = Schedule { began, measure_from, measure_upto };
    shared.start.send_replace(Some(Some(schedule)));
    let mut reports = Reports { began, last: began };
    match reports.wait_until(shared, measure_from, on_event).await {
        Waited::Reached => {}
        Waited::Interrupted => {
            shared.fail(OrdersError::NothingMeasured);
            return None;
        }
        Waited::Stopped => return None,
    }
    let cpu_before = process_cpu().unwrap_or_default();
    on_event(&Event::Measuring);
    match reports.wait_until(shared, measure_upto, on_event).await {
        Waited::Reached => {}
        Waited::Interrupted => shared.interrupt((Instant::now() + END_AHEAD).min(measure_upto)),
        Waited::Stopped => return None,
    }
    let cpu_after = process_cpu().unwrap_or_default();
    on_event(&Event::Measured);
    let driver_cpu = CpuTime { user_s: cpu_after.user_s - cpu_before.user_s, sys_s: cpu_after.sys_s - cpu_before.sys_s };
    Some((schedule, driver_cpu))
}

/// Waits until the run is asked to end.
async fn interrupted(shared: &Shared) {
    while !shared.is_interrupted() {
        tokio::time::sleep(LOOK).await;
    }
}

/// The progress reports.
struct Reports {
    began: Instant,
    last: Instant,
}

impl Reports {
    /// Waits until `until`, and sends the progress reports that are due.
    async fn wait_until(&mut self, shared: &Shared, until: Instant, on_event: &mut impl FnMut(&Event)) -> Waited {
        loop {
            for warning in shared.take_warnings() {
                on_event(&Event::Warning(warning));
            }
            if shared.stopped() {
                return Waited::Stopped;
            }
            if shared.is_interrupted() {
                return Waited::Interrupted;
            }
            let now = Instant::now();
            let due = self.due(shared);
            if due.is_some_and(|due| now >= due) {
                self.report(shared, now, on_event);
            }
            if now >= until {
                return Waited::Reached;
            }
            let next = due.map_or(until, |due| until.min(due));
            tokio::time::sleep(next.saturating_duration_since(now).min(LOOK)).await;
        }
    }

    /// When the next report is due: at a multiple of the requested interval.
    fn due(&self, shared: &Shared) -> Option<Instant> {
        let every_s = shared.options.progress_s?.max(1);
        let reported = (self.last - self.began).as_secs() / every_s;
        Some(self.began + Duration::from_secs((reported + 1) * every_s))
    }

    fn report(&mut self, shared: &Shared, now: Instant, on_event: &mut impl FnMut(&Event)) {
        let mut progress = shared.progress.take((now - self.last).as_secs_f64());
        progress.elapsed_s = (now - self.began).as_secs_f64();
        progress.orders = shared.orders.load(Ordering::Relaxed);
        progress.connection_losses = shared.connection_losses.load(Ordering::Relaxed);
        self.last = now;
        on_event(&Event::Progress(progress));
    }
}
