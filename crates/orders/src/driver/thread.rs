//! One thread of a run: its sessions, each a task, and the tasks that keep the time for them.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{JoinSet, spawn_local};

use super::arrivals::enqueue_due;
use super::scheduler::Scheduler;
use super::shared::Shared;
use super::snapshots::keep_time;
use super::worker::Worker;
use crate::database::Database;
use crate::error::OrdersError;
use crate::limits::{GRACE_S, GRACE_S_MAX};
use crate::measure::Measure;

/// Interval between two checks for the end of the run and of a second.
const TICK: Duration = Duration::from_millis(100);

/// Runs the share of thread number `thread` to its end; `None` if the run never started.
pub(super) fn run<D: Database>(database: &D, shared: &Arc<Shared>, thread: u32) -> Option<Measure> {
    // Sessions are tasks of the runtime itself: a set of local tasks on top of it would poll the
    // sockets once more for each wake-up.
    let runtime = match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            shared.fail(OrdersError::Thread { what: format!("a thread of the driver: {error}") });
            return None;
        }
    };
    runtime.block_on(drive(database, shared, thread))
}

async fn drive<D: Database>(database: &D, shared: &Arc<Shared>, thread: u32) -> Option<Measure> {
    let sessions = open_sessions(database, shared, thread).await?;
    let mut start = shared.start.subscribe();
    let schedule = (*start.wait_for(Option::is_some).await.ok()?)??;
    let scheduler = Rc::new(Scheduler::new(shared, schedule, thread));
    let mut helpers = vec![spawn_local(tick(Rc::clone(&scheduler)))];
    if let Some(snapshot_sender) = &shared.snapshot_sender {
        let (from, upto) = (schedule.measure_from, schedule.measure_upto);
        let timed = Rc::clone(&scheduler);
        let send_due = move |now| timed.measure().send_snapshots(now);
        helpers.push(spawn_local(keep_time(send_due, snapshot_sender.every_s(), from, upto)));
    }
    let arrivals = Rc::clone(&scheduler);
    helpers.push(spawn_local(async move {
        let shared = Arc::clone(&arrivals.shared);
        if let Err(error) = enqueue_due(arrivals, thread).await {
            shared.fail(OrdersError::Thread { what: format!("a timer of the driver: {error}") });
        }
    }));
    let mut workers = JoinSet::new();
    for (number, session) in sessions {
        workers.spawn_local(Worker::new(number, database.clone(), Rc::clone(&scheduler), session).run());
    }
    wait_for(workers, &scheduler).await;
    for helper in helpers {
        helper.abort();
        // The task has ended or was aborted, so it no longer holds the scheduler.
        let _ = helper.await;
    }
    Some(Rc::into_inner(scheduler)?.close())
}

async fn open_sessions<D: Database>(database: &D, shared: &Shared, thread: u32) -> Option<Vec<(u32, D::Terminal)>> {
    let mut sessions = Vec::new();
    for number in (thread..shared.shares.connections).step_by(shared.shares.threads as usize) {
        if shared.stopped() {
            return None;
        }
        match database.terminal().await {
            Ok(session) => sessions.push((number, session)),
            Err(error) => {
                shared.fail(error);
                return None;
            }
        }
        shared.connected.fetch_add(1, Ordering::Relaxed);
    }
    Some(sessions)
}

/// Waits for the sessions to end. Abandons those that still run after the grace period: their
/// statements hang in the database, and closing the session ends them.
async fn wait_for(mut workers: JoinSet<()>, scheduler: &Scheduler) {
    let all = async {
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                scheduler.shared.fail(OrdersError::Thread { what: format!("a session of the driver: {error}") });
            }
        }
    };
    let all_ended = tokio::select! {
        () = all => true,
        () = grace(scheduler) => false,
    };
    if !all_ended {
        scheduler.shared.unfinished.fetch_add(u64::from(scheduler.in_flight()), Ordering::Relaxed);
        workers.shutdown().await;
    }
}

/// Waits until the grace period after the interval is over. The interval may end early.
async fn grace(scheduler: &Scheduler) {
    while !grace_is_over(scheduler.end_of_interval(), Instant::now(), scheduler.shared.since_success()) {
        tokio::time::sleep(TICK).await;
    }
}

/// Whether transactions that still run at `now` are abandoned. On slow storage, transactions can continue to end for minutes after
/// the interval; if no transaction ends, the wait is shorter.
fn grace_is_over(end_of_interval: Instant, now: Instant, since_success: Duration) -> bool {
    let over = now.saturating_duration_since(end_of_interval);
    over.min(since_success) >= Duration::from_secs(GRACE_S) || over >= Duration::from_secs(GRACE_S_MAX)
}

/// Closes the seconds of the series even if no transaction ends for long, and wakes sessions that wait for
/// work when there will be no more.
async fn tick(scheduler: Rc<Scheduler>) {
    loop {
        let now = Instant::now();
        scheduler.measure().tell_series(now);
        if scheduler.is_over(now) {
            return scheduler.wake_all();
        }
        tokio::time::sleep_until((now + TICK).min(scheduler.schedule.measure_upto).into()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_given_up_after_a_minute_in_which_none_ended_and_after_four_in_any_case() {
        let end = Instant::now() + Duration::from_secs(1_000);
        let over = |after_s: i64, since_success_s| {
            let now = if after_s < 0 {
                end - Duration::from_secs(after_s.unsigned_abs())
            } else {
                end + Duration::from_secs(after_s.unsigned_abs())
            };
            grace_is_over(end, now, Duration::from_secs(since_success_s))
        };
        assert!(!over(-1, 500), "the interval has not ended");
        assert!(!over(59, 300) && over(60, 300), "none ended since before the end");
        assert!(!over(100, 59) && over(100, 60), "one ended a minute ago");
        assert!(!over(239, 1) && over(240, 1), "they still end");
    }
}
