//! A run: terminals that share database sessions on a few threads.
//!
//! Each thread has its own runtime and its share of the terminals and of the sessions, so that
//! a transaction never crosses threads in the driver. A terminal is data, not a task. When its
//! transaction is due, it waits in the queue of its thread until a session is free.

mod arrivals;
mod options;
mod phases;
mod progress;
mod queue;
mod scheduler;
mod shared;
mod snapshots;
mod terminal;
mod thread;
mod timer;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use results::orders_run::{CpuTime, OrdersRun, SeriesSecond};
use tokio::sync::{mpsc, oneshot};

use crate::ack_log::AckLog;
use crate::database::Database;
use crate::error::OrdersError;
use crate::limits::{CONNECTIONS_MAX, DUE_QUEUE_MAX, SECONDS_MAX, THREADS_MAX, USERS_MAX};
use crate::loader::bounded;
use crate::measure::{Measure, RunFacts};
use crate::model::LoadModel;
use crate::snapshots::SnapshotSender;
use phases::{StartBarrier, run_phases};
use shared::Shared;

pub use options::{Event, RunOptions};
pub use progress::Progress;

/// Connects a run with the other drivers of the same run.
#[derive(Debug)]
pub struct Coordination {
    /// Completed when every user is connected.
    pub connected: oneshot::Sender<()>,
    /// When the warm-up begins. If the sender is dropped, the run ends.
    pub start: oneshot::Receiver<Instant>,
    /// Seconds of the interval between two snapshots.
    pub snapshot_every_s: u64,
    /// Receives the record of the measurements up to each snapshot, in order.
    pub snapshots: mpsc::UnboundedSender<OrdersRun>,
}

impl Coordination {
    /// Starts merging the threads' snapshots. Returns the start barrier and the sender for the threads.
    fn begin(self, threads: u32, facts: &RunFacts) -> (StartBarrier, SnapshotSender<Measure>) {
        let (to, parts) = mpsc::unbounded_channel();
        tokio::spawn(snapshots::collect(parts, threads, facts.clone(), self.snapshots));
        ((self.connected, self.start), SnapshotSender::new(self.snapshot_every_s, to))
    }
}

/// Runs the load and returns its record.
///
/// `on_event` is called on the calling task. The warm-up starts when every session is open and
/// has prepared its statements.
///
/// # Errors
/// [`OrdersError::could_not_run`] distinguishes refusals before the start from failures of a run.
pub async fn run<D: Database>(
    database: &D,
    options: &RunOptions,
    on_event: impl FnMut(&Event),
) -> Result<OrdersRun, OrdersError> {
    run_with(database, options, None, on_event).await
}

/// As [`run`], together with other drivers, which agree on the start time and receive the snapshots.
///
/// # Errors
/// As [`run`]; [`OrdersError::Thread`] if there is no start.
pub async fn run_with<D: Database>(
    database: &D,
    options: &RunOptions,
    coordination: Option<Coordination>,
    mut on_event: impl FnMut(&Event),
) -> Result<OrdersRun, OrdersError> {
    check_options(options)?;
    let config = database.config().await?;
    database.prepare().await?;
    let facts = facts(database, options, config.warehouses, database.version().await?)?;
    let ack_log = options.ack_log.as_deref().map(AckLog::open).transpose()?;
    let RunFacts { threads, connections, active_warehouses, .. } = facts;
    let (barrier, snapshot_sender) = coordination.map(|coordination| coordination.begin(threads, &facts)).unzip();
    let shares = shared::Shares { threads, connections, active_warehouses, constants: config.constants };
    let shared = Arc::new(Shared::new(options, shares, ack_log, snapshot_sender));
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let (database, shared) = (database.clone(), Arc::clone(&shared));
            tokio::task::spawn_blocking(move || thread::run(&database, &shared, thread))
        })
        .collect();
    let outcome = run_phases(&shared, barrier, &mut on_event).await;
    if outcome.is_none() {
        shared.stop.store(true, Ordering::Relaxed);
        // Does not wait for threads that are still connecting: they have no measurements.
        if shared.is_interrupted() {
            return Err(shared.take_failure().unwrap_or(OrdersError::NothingMeasured));
        }
    }
    // Threads that still wait for the start receive `Some(None)`: there will be no start.
    shared.start.send_if_modified(|start| {
        let never = start.is_none();
        if never {
            *start = Some(None);
        }
        never
    });
    let mut measures = Vec::new();
    for handle in handles {
        let ended = handle.await;
        measures.extend(ended.map_err(|error| OrdersError::Thread { what: format!("a thread of the driver: {error}") })?);
    }
    for warning in shared.take_warnings() {
        on_event(&Event::Warning(warning));
    }
    if let Some(error) = shared.take_failure() {
        return Err(error);
    }
    let (Some((schedule, driver_cpu)), false) = (outcome, measures.is_empty()) else {
        return Err(OrdersError::Thread { what: "the run ended before it began".to_owned() });
    };
    let interrupted_at = shared.interrupted_at();
    let mut measure = Measure::new(schedule.measure_from, interrupted_at.unwrap_or(schedule.measure_upto));
    for part in &measures {
        measure.merge(part);
    }
    Ok(measure.into_record(RunFacts {
        connection_losses: shared.connection_losses.load(Ordering::Relaxed),
        unfinished: shared.unfinished.load(Ordering::Relaxed),
        driver_cpu,
        interrupted: interrupted_at.is_some(),
        series: whole_seconds(shared.series.finish(), interrupted_at.map(|at| at - schedule.measure_from)),
        ..facts
    }))
}

/// The seconds of the series that are complete at an early end.
fn whole_seconds(mut series: Vec<SeriesSecond>, measured: Option<Duration>) -> Vec<SeriesSecond> {
    if let Some(measured) = measured {
        series.truncate(usize::try_from(measured.as_secs()).unwrap_or(usize::MAX));
    }
    series
}

/// The parts of the record that are known before the run begins.
fn facts<D: Database>(
    database: &D,
    options: &RunOptions,
    warehouses: u32,
    database_version: String,
) -> Result<RunFacts, OrdersError> {
    let active_warehouses = options.active_warehouses.unwrap_or(warehouses);
    bounded("--active-warehouses", active_warehouses, warehouses)?;
    let connections = options.connections.min(options.users);
    Ok(RunFacts {
        warehouses,
        active_warehouses,
        users: options.users,
        connections,
        threads: options.threads.min(connections),
        model: options.model,
        terminals: options.terminals,
        deferred_deliveries: options.deferred_deliveries,
        seed: options.seed,
        mix: options.mix,
        mode: database.mode(),
        isolation: database.isolation(),
        database_version,
        warmup: Duration::from_secs(options.warmup_s),
        connection_losses: 0,
        unfinished: 0,
        driver_cpu: CpuTime::default(),
        interrupted: false,
        series: Vec::new(),
    })
}

fn check_options(options: &RunOptions) -> Result<(), OrdersError> {
    bounded("--users", options.users, USERS_MAX)?;
    bounded("--connections", options.connections.min(options.users), CONNECTIONS_MAX)?;
    if let LoadModel::Open { queue_limit, .. } = options.model {
        bounded("--queue", queue_limit, DUE_QUEUE_MAX)?;
    }
    bounded("--threads", options.threads, THREADS_MAX)?;
    for (name, value, min) in [("--seconds", options.measured_s, 1), ("--warmup", options.warmup_s, 0)] {
        if !(min..=SECONDS_MAX).contains(&value) {
            return Err(OrdersError::OutOfRange { name, value, min, max: SECONDS_MAX });
        }
    }
    Ok(())
}
