//! A run: terminals that share database sessions on a few threads.
//!
//! Each thread has a runtime of its own and its share of the terminals and of the sessions, so that
//! a transaction never crosses threads in the driver. A terminal is data, not a task; when its
//! transaction is due, it waits in the queue of its thread until a session is free.

mod conduct;
mod desk;
mod queue;
mod release;
mod shared;
mod terminal;
mod thread;
mod timer;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use results::orders_run::{CpuTime, OrdersRun, SeriesSecond};
use tokio::sync::{mpsc, oneshot};

use crate::ack_log::AckLog;
use crate::cuts::{self, Cutter};
use crate::database::Database;
use crate::error::OrdersError;
use crate::limits::{CONNECTIONS_MAX, DUE_QUEUE_MAX, SECONDS_MAX, THREADS_MAX, USERS_MAX};
use crate::loader::bounded;
use crate::measure::{Measure, RunFacts};
use crate::mix::MixRule;
use crate::model::{LoadModel, Terminals};
use conduct::{Gate, conduct};
use shared::Shared;

/// What to run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Where transactions come from.
    pub model: LoadModel,
    /// How a terminal chooses its warehouse.
    pub terminals: Terminals,
    /// Terminals.
    pub users: u32,
    /// Database sessions they share; never more than users.
    pub connections: u32,
    /// Warehouses the run works on, from the first; all when absent.
    pub active_warehouses: Option<u32>,
    /// Whether a Delivery is only queued by its terminal and done behind it.
    pub deferred_deliveries: bool,
    /// Threads that drive them; never more than sessions.
    pub threads: u32,
    /// Seconds before the measured interval.
    pub warmup_s: u64,
    /// Seconds of the measured interval.
    pub measured_s: u64,
    /// Seed of every choice.
    pub seed: u64,
    /// How the next transaction is chosen.
    pub mix: MixRule,
    /// Where acknowledged orders are noted.
    pub ack_log: Option<PathBuf>,
    /// Whether lost connections are opened again.
    pub reconnect: bool,
    /// Number of the first user: 0, or what drivers before this one drive in the same run.
    pub first_user: u32,
}

/// What ties a run to other drivers of the same run.
#[derive(Debug)]
pub struct Companions {
    /// Told when every user is connected.
    pub connected: oneshot::Sender<()>,
    /// When the warm-up begins; dropped, the run is given up.
    pub start: oneshot::Receiver<Instant>,
    /// Seconds of the interval between two cuts.
    pub cut_every_s: u64,
    /// Gets the record of what was measured up to each cut, in order.
    pub cuts: mpsc::UnboundedSender<OrdersRun>,
}

impl Companions {
    /// Begins to collect the cuts of the threads; gives the gate to the start and where to tell the cuts.
    fn welcome(self, threads: u32, facts: &RunFacts) -> (Gate, Cutter) {
        let (to, parts) = mpsc::unbounded_channel();
        tokio::spawn(cuts::collect(parts, threads, facts.clone(), self.cuts));
        ((self.connected, self.start), Cutter::new(self.cut_every_s, to))
    }
}

/// What happens in a run, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Every session is open; the warm-up begins.
    Connected,
    /// The measured interval begins.
    Measuring,
    /// The measured interval ended.
    Measured,
    /// About once a second: seconds since the start, new orders committed so far, connections
    /// lost so far.
    Tick {
        /// Seconds since the start of the warm-up.
        elapsed_s: u64,
        /// New orders committed since then.
        orders: u64,
        /// Connections lost since then.
        connection_losses: u64,
        /// The last second of the measured interval that is over.
        last_second: Option<SeriesSecond>,
    },
    /// A transaction ended by an error, or a connection was lost; only the first few are told.
    Trouble(String),
}

/// Runs the load and gives its record.
///
/// `on_event` is called on the calling task. The clock starts when every session is open and
/// has prepared its statements.
///
/// # Errors
/// [`OrdersError::could_not_run`] tells refusals before the start from failures of a run.
pub async fn run<D: Database>(
    database: &D,
    options: &RunOptions,
    on_event: impl FnMut(&Event),
) -> Result<OrdersRun, OrdersError> {
    run_with(database, options, None, on_event).await
}

/// The same beside other drivers, who agree on the start and hear of the measurements.
///
/// # Errors
/// As [`run`]; [`OrdersError::Thread`] when the start is never told.
pub async fn run_with<D: Database>(
    database: &D,
    options: &RunOptions,
    companions: Option<Companions>,
    mut on_event: impl FnMut(&Event),
) -> Result<OrdersRun, OrdersError> {
    check_options(options)?;
    let config = database.config().await?;
    database.prepare().await?;
    let facts = facts(database, options, config.warehouses, database.version().await?)?;
    let ack_log = options.ack_log.as_deref().map(AckLog::open).transpose()?;
    let RunFacts { threads, connections, active_warehouses, .. } = facts;
    let (gate, cutter) = companions.map(|companions| companions.welcome(threads, &facts)).unzip();
    let lot = shared::Lot { threads, connections, active_warehouses, constants: config.constants };
    let shared = Arc::new(Shared::new(options, lot, ack_log, cutter));
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let (database, shared) = (database.clone(), Arc::clone(&shared));
            tokio::task::spawn_blocking(move || thread::run(&database, &shared, thread))
        })
        .collect();
    let outcome = conduct(&shared, gate, &mut on_event).await;
    if outcome.is_none() {
        shared.stop.store(true, Ordering::Relaxed);
    }
    // Threads that still wait for the start see that there will be none.
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
    for trouble in shared.take_troubles() {
        on_event(&Event::Trouble(trouble));
    }
    if let Some(error) = shared.take_failure() {
        return Err(error);
    }
    let (Some((schedule, driver_cpu)), false) = (outcome, measures.is_empty()) else {
        return Err(OrdersError::Thread { what: "the run ended before it began".to_owned() });
    };
    let mut measure = Measure::new(schedule.measure_from, schedule.measure_upto);
    for part in &measures {
        measure.merge(part);
    }
    Ok(measure.into_record(RunFacts {
        connection_losses: shared.connection_losses.load(Ordering::Relaxed),
        unfinished: shared.unfinished.load(Ordering::Relaxed),
        driver_cpu,
        series: shared.series.finish(),
        ..facts
    }))
}

/// What the record says of a run that has not begun.
fn facts<D: Database>(
    database: &D,
    options: &RunOptions,
    warehouses: u32,
    database_version: String,
) -> Result<RunFacts, OrdersError> {
    let active_warehouses = options.active_warehouses.unwrap_or(warehouses);
    bounded("active-warehouses", active_warehouses, warehouses)?;
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
        series: Vec::new(),
    })
}

fn check_options(options: &RunOptions) -> Result<(), OrdersError> {
    bounded("users", options.users, USERS_MAX)?;
    bounded("connections", options.connections.min(options.users), CONNECTIONS_MAX)?;
    if let LoadModel::Open { queue_limit, .. } = options.model {
        bounded("queue", queue_limit, DUE_QUEUE_MAX)?;
    }
    bounded("threads", options.threads, THREADS_MAX)?;
    for (name, value, min) in [("seconds", options.measured_s, 1), ("warm-up seconds", options.warmup_s, 0)] {
        if !(min..=SECONDS_MAX).contains(&value) {
            return Err(OrdersError::OutOfRange { name, value, min, max: SECONDS_MAX });
        }
    }
    Ok(())
}
