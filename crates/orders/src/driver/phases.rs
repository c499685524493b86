//! The phases of a run: connect, warm-up, measured interval.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use results::orders_run::CpuTime;
use tokio::sync::oneshot;

use super::options::Event;
use super::shared::{Schedule, Shared};
use crate::measure::process_cpu;

/// The barrier of a coordinated run: this side says that all sessions are open, the other when the warm-up begins.
pub(super) type StartBarrier = (oneshot::Sender<()>, oneshot::Receiver<Instant>);

/// Starts the clock when all are connected and reports each phase; `None` when the run failed.
pub(super) async fn run_phases(
    shared: &Shared,
    barrier: Option<StartBarrier>,
    on_event: &mut impl FnMut(&Event),
) -> Option<(Schedule, CpuTime)> {
    let connections = u64::from(shared.shares.connections);
    while shared.connected.load(Ordering::Relaxed) < connections {
        if shared.stopped() {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    on_event(&Event::Connected);
    let began = match barrier {
        Some((connected, start)) => {
            // A receiver that is gone shows in the start that never comes.
            let _ = connected.send(());
            start.await.ok()?
        }
        None => Instant::now(),
    };
    shared.succeeded(began);
    let measure_from = began + Duration::from_secs(shared.options.warmup_s);
    let measure_upto = measure_from + Duration::from_secs(shared.options.measured_s);
    let schedule = Schedule { began, measure_from, measure_upto };
    shared.start.send_replace(Some(Some(schedule)));
    wait_until(shared, began, measure_from, on_event).await?;
    let cpu_before = process_cpu().unwrap_or_default();
    on_event(&Event::Measuring);
    wait_until(shared, began, measure_upto, on_event).await?;
    let cpu_after = process_cpu().unwrap_or_default();
    on_event(&Event::Measured);
    let driver_cpu = CpuTime { user_s: cpu_after.user_s - cpu_before.user_s, sys_s: cpu_after.sys_s - cpu_before.sys_s };
    Some((schedule, driver_cpu))
}

/// Waits, ticking once a second; `None` when the run was stopped.
async fn wait_until(shared: &Shared, began: Instant, until: Instant, on_event: &mut impl FnMut(&Event)) -> Option<()> {
    let mut elapsed_shown_s = began.elapsed().as_secs();
    loop {
        for warning in shared.take_warnings() {
            on_event(&Event::Warning(warning));
        }
        if shared.stopped() {
            return None;
        }
        let elapsed_s = began.elapsed().as_secs();
        if elapsed_s > elapsed_shown_s {
            elapsed_shown_s = elapsed_s;
            on_event(&Event::Tick {
                elapsed_s,
                orders: shared.orders.load(Ordering::Relaxed),
                connection_losses: shared.connection_losses.load(Ordering::Relaxed),
                last_second: shared.series.last_closed(),
            });
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Some(());
        }
        tokio::time::sleep(left.min(Duration::from_millis(100))).await;
    }
}
