//! A run: a closed loop of terminals on a few threads.
//!
//! Each thread has a runtime of its own and its share of the users, so that a transaction never
//! crosses threads in the driver.

mod user;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use results::orders_run::{CpuTime, OrdersRun};
use tokio::sync::{mpsc, oneshot, watch};

use crate::ack_log::AckLog;
use crate::cuts::{self, Cutter};
use crate::database::{Config, Database};
use crate::error::OrdersError;
use crate::limits::{ERRORS_PRINTED_MAX, SECONDS_MAX, THREADS_MAX, USERS_MAX};
use crate::loader::bounded;
use crate::measure::{Measure, RunFacts, process_cpu};
use crate::mix::MixRule;

/// What to run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Terminals, each with its own connection.
    pub users: u32,
    /// Threads that drive them; never more than users.
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
    /// Every user is connected; the warm-up begins.
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
    },
    /// A transaction ended by an error, or a connection was lost; only the first few are told.
    Trouble(String),
}

/// Runs the load and gives its record.
///
/// `on_event` is called on the calling task. The clock starts when every user is connected and
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
    let database_version = database.version().await?;
    let threads = options.threads.min(options.users);
    let ack_log = options.ack_log.as_deref().map(AckLog::open).transpose()?;
    let facts = RunFacts {
        warehouses: config.warehouses,
        users: options.users,
        threads,
        seed: options.seed,
        mix: options.mix,
        mode: database.mode(),
        isolation: database.isolation(),
        database_version,
        warmup: Duration::from_secs(options.warmup_s),
        connection_losses: 0,
        unfinished: 0,
        driver_cpu: CpuTime::default(),
    };
    let (gate, cutter) = companions.map(|companions| companions.welcome(threads, &facts)).unzip();
    let shared = Arc::new(Shared::new(options, config, ack_log, cutter));
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let (database, shared) = (database.clone(), Arc::clone(&shared));
            tokio::task::spawn_blocking(move || run_thread(&database, &shared, thread, threads))
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
        ..facts
    }))
}

fn check_options(options: &RunOptions) -> Result<(), OrdersError> {
    bounded("users", options.users, USERS_MAX)?;
    bounded("threads", options.threads, THREADS_MAX)?;
    for (name, value, min) in [("seconds", options.measured_s, 1), ("warm-up seconds", options.warmup_s, 0)] {
        if !(min..=SECONDS_MAX).contains(&value) {
            return Err(OrdersError::OutOfRange { name, value, min, max: SECONDS_MAX });
        }
    }
    Ok(())
}

/// When a run starts, measures and ends.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    measure_from: Instant,
    measure_upto: Instant,
}

/// What the threads of a run share.
struct Shared {
    options: RunOptions,
    config: Config,
    ack_log: Option<AckLog>,
    /// Where threads tell their cuts, when somebody asked for them.
    cutter: Option<Cutter>,
    /// `None` until all users are connected; then the schedule, or `Some(None)`: never.
    start: watch::Sender<Option<Option<Schedule>>>,
    stop: AtomicBool,
    connected: AtomicU64,
    orders: AtomicU64,
    connection_losses: AtomicU64,
    unfinished: AtomicU64,
    /// When a transaction last succeeded, in milliseconds since `began`.
    success_ms: AtomicU64,
    told: AtomicU64,
    troubles: Mutex<Vec<String>>,
    failed: Mutex<Option<OrdersError>>,
    began: Instant,
}

impl Shared {
    fn new(options: &RunOptions, config: Config, ack_log: Option<AckLog>, cutter: Option<Cutter>) -> Self {
        Self {
            options: options.clone(),
            config,
            ack_log,
            cutter,
            start: watch::channel(None).0,
            stop: AtomicBool::new(false),
            connected: AtomicU64::new(0),
            orders: AtomicU64::new(0),
            connection_losses: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
            success_ms: AtomicU64::new(0),
            told: AtomicU64::new(0),
            troubles: Mutex::new(Vec::new()),
            failed: Mutex::new(None),
            began: Instant::now(),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the run; the first failure is the one reported.
    fn fail(&self, error: OrdersError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn take_failure(&self) -> Option<OrdersError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes a trouble for the user, unless there were too many already.
    fn trouble(&self, text: impl FnOnce() -> String) {
        if self.told.fetch_add(1, Ordering::Relaxed) < ERRORS_PRINTED_MAX {
            self.troubles.lock().unwrap_or_else(PoisonError::into_inner).push(text());
        }
    }

    fn take_troubles(&self) -> Vec<String> {
        std::mem::take(&mut *self.troubles.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn succeeded(&self) {
        self.success_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        let last_ms = self.success_ms.load(Ordering::Relaxed);
        Duration::from_millis(self.now_ms().saturating_sub(last_ms))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Where others are told that all users are connected, and tell when the warm-up begins.
type Gate = (oneshot::Sender<()>, oneshot::Receiver<Instant>);

/// Starts the clock when all are connected and tells the marks; `None` when the run failed.
async fn conduct(shared: &Shared, gate: Option<Gate>, on_event: &mut impl FnMut(&Event)) -> Option<(Schedule, CpuTime)> {
    let users = u64::from(shared.options.users);
    while shared.connected.load(Ordering::Relaxed) < users {
        if shared.stopped() {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    on_event(&Event::Connected);
    let began = match gate {
        Some((connected, start)) => {
            // A receiver that is gone shows in the start that never comes.
            let _ = connected.send(());
            start.await.ok()?
        }
        None => Instant::now(),
    };
    shared.succeeded();
    let measure_from = began + Duration::from_secs(shared.options.warmup_s);
    let measure_upto = measure_from + Duration::from_secs(shared.options.measured_s);
    let schedule = Schedule { measure_from, measure_upto };
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
    let mut elapsed_told_s = began.elapsed().as_secs();
    loop {
        for trouble in shared.take_troubles() {
            on_event(&Event::Trouble(trouble));
        }
        if shared.stopped() {
            return None;
        }
        let elapsed_s = began.elapsed().as_secs();
        if elapsed_s > elapsed_told_s {
            elapsed_told_s = elapsed_s;
            on_event(&Event::Tick {
                elapsed_s,
                orders: shared.orders.load(Ordering::Relaxed),
                connection_losses: shared.connection_losses.load(Ordering::Relaxed),
            });
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Some(());
        }
        tokio::time::sleep(left.min(Duration::from_millis(100))).await;
    }
}

/// One thread: users number `thread`, `thread + threads`, … on a runtime of their own.
fn run_thread<D: Database>(database: &D, shared: &Arc<Shared>, thread: u32, threads: u32) -> Option<Measure> {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            shared.fail(OrdersError::Thread { what: format!("a thread of the driver: {error}") });
            return None;
        }
    };
    let users: Vec<u32> = (thread..shared.options.users).step_by(threads as usize).collect();
    let local = tokio::task::LocalSet::new();
    runtime.block_on(local.run_until(user::run_all(database, shared, &users)))
}
