//! Puts transactions into the queue of a thread when they are due.

use std::io;
use std::rc::Rc;
use std::time::Instant;

use super::desk::Desk;
use super::timer::Timer;
use crate::model::LoadModel;
use crate::open::ArrivalTimes;
use crate::random::stream;

/// Arrivals after which the sessions get a turn, when the driver itself is late.
const ARRIVALS_AT_ONCE: u32 = 64;
/// Streams of arrivals, apart from those of the terminals.
const ARRIVAL_STREAMS: u64 = 1 << 40;

/// Releases what is due until the interval ends; `thread` is the number of the thread.
pub(super) async fn release(desk: Rc<Desk>, thread: u32) -> io::Result<()> {
    match desk.shared.options.model {
        LoadModel::Closed => Ok(()),
        LoadModel::Paced { .. } => release_paced(&desk).await,
        LoadModel::Open { rate, arrivals, .. } => {
            let options = &desk.shared.options;
            // Poisson processes of several drivers differ by the numbers of their users.
            let rng = stream(options.seed, ARRIVAL_STREAMS + u64::from(options.first_user) * 1_000 + u64::from(thread));
            let times = ArrivalTimes::new(arrivals, rate, thread, desk.shared.lot.threads, rng);
            release_open(&desk, times).await
        }
    }
}

async fn release_paced(desk: &Desk) -> io::Result<()> {
    let timer = Timer::new()?;
    loop {
        let now = Instant::now();
        if desk.is_over(now) {
            return Ok(());
        }
        desk.release(now);
        match desk.next_due() {
            Some(due) => tokio::select! {
                waited = timer.wait_until(due) => waited?,
                () = desk.earlier() => {}
            },
            None => desk.earlier().await,
        }
    }
}

async fn release_open(desk: &Desk, mut times: ArrivalTimes) -> io::Result<()> {
    let timer = Timer::new()?;
    let (mut terminal, mut at_once) = (0, 0);
    let mut now = Instant::now();
    loop {
        let due = desk.schedule.began + times.next_after_start();
        if due >= desk.schedule.measure_upto || desk.shared.stopped() {
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
        desk.arrive(terminal, due, now);
        terminal = (terminal + 1) % desk.terminal_count();
    }
}
