//! Adds transactions to the queue of a thread when they are due.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use super::scheduler::Scheduler;
use super::timer::Timer;
use crate::model::LoadModel;
use crate::open::ArrivalTimes;
use crate::random::stream;

/// Arrivals after which the sessions get a turn if the driver is late.
const ARRIVALS_AT_ONCE: u32 = 64;
/// Offset of the random streams of arrivals, so that they differ from those of the terminals.
const ARRIVAL_STREAMS: u64 = 1 << 40;

/// Adds due transactions to the queue until the interval ends; `thread` is the number of the thread.
pub(super) async fn enqueue_due(scheduler: Rc<Scheduler>, thread: u32) -> io::Result<()> {
    match scheduler.shared.options.model {
        LoadModel::Closed => Ok(()),
        LoadModel::Paced { .. } => enqueue_paced(&scheduler).await,
        LoadModel::Open { rate, arrivals, .. } => {
            let options = &scheduler.shared.options;
            // The number of its first user gives each driver its own Poisson process.
            let rng = stream(options.seed, ARRIVAL_STREAMS + u64::from(options.first_user) * 1_000 + u64::from(thread));
            let times = ArrivalTimes::new(arrivals, rate, thread, scheduler.shared.shares.threads, rng);
            enqueue_open(&scheduler, times).await
        }
    }
}

async fn enqueue_paced(scheduler: &Scheduler) -> io::Result<()> {
    let timer = Timer::new()?;
    loop {
        let now = Instant::now();
        if scheduler.is_over(now) {
            return Ok(());
        }
        scheduler.enqueue_due(now);
        match scheduler.next_due() {
            Some(due) => tokio::select! {
                waited = timer.wait_until(due) => waited?,
                () = scheduler.earlier() => {}
            },
            None => scheduler.earlier().await,
        }
    }
}

async fn enqueue_open(scheduler: &Scheduler, mut times: ArrivalTimes) -> io::Result<()> {
    let timer = Timer::new()?;
    let (mut terminal, mut at_once) = (0, 0);
    let mut now = Instant::now();
    loop {
        let due = scheduler.schedule.began + times.next_after_start();
        if due >= scheduler.end_of_interval() || scheduler.shared.stopped() {
            return Ok(());
        }
        if due > now {
            timer.wait_until(due).await?;
            now = Instant::now();
            at_once = 0;
        } else {
            at_once += 1;
            if at_once % ARRIVALS_AT_ONCE == 0 {
                tokio::task::yield_now().await;
                now = Instant::now();
            }
        }
        scheduler.arrive(terminal, due, now);
        terminal = (terminal + 1) % scheduler.terminal_count();
    }
}
