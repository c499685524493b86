//! One thread of a run: its sessions, each a task, and what keeps their time.

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
use crate::limits::GRACE_S;
use crate::measure::Measure;

/// How often the end of the run and of a second is looked for.
const TICK: Duration = Duration::from_millis(100);

/// Runs the share of thread number `thread` to its end; `None` when the run never started.
pub(super) fn run<D: Database>(database: &D, shared: &Arc<Shared>, thread: u32) -> Option<Measure> {
    // Sessions are tasks of the runtime itself: a set of local tasks on top would cost a look at the
    // sockets each time one is woken.
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
        // Ended or aborted: either way it no longer holds the scheduler.
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

/// Waits for the sessions to end; what is still running when the grace ends is given up: its
/// statement hangs in the database, and closing the session ends it.
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

/// Waits until the grace after the interval is over; the interval may end before its time.
async fn grace(scheduler: &Scheduler) {
    loop {
        let (now, ends) = (Instant::now(), scheduler.end_of_interval() + Duration::from_secs(GRACE_S));
        if now >= ends {
            return;
        }
        tokio::time::sleep_until((now + TICK).min(ends).into()).await;
    }
}

/// Turns the seconds of the series, also when nothing ends for long, and wakes sessions that wait for
/// work when there will be none.
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
