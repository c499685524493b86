//! Loads a fresh database: jobs copy rows side by side, then indexes and statistics.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::database::{Config, Copier, Database, SCHEMA};
use crate::error::OrdersError;
use crate::limits::{DROP_ATTEMPTS_MAX, THREADS_MAX, WAREHOUSES_MAX};
use crate::random::{NuRandConstants, stream};
use crate::rows::{Unit, rows_expected, units};

/// Stream of the load's seed that draws the constants; the tables' streams are above 2^56 or
/// belong to table 0, warehouse 0.
const CONSTANTS_STREAM: u64 = u64::MAX;

/// What to load, and how.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// Warehouses, at least 1.
    pub warehouses: u32,
    /// Sessions that copy side by side.
    pub jobs: u32,
    /// Seed of every row.
    pub seed: u64,
}

/// How far a load is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub step: String,
    /// Rows copied so far.
    pub rows: u64,
    /// Rows expected in all.
    pub rows_expected: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// Time still to go, once it can be told.
    pub remaining: Option<Duration>,
}

/// What was loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// Version of this record.
    pub schema: u32,
    /// Warehouses loaded.
    pub warehouses: u32,
    /// Seed of the load.
    pub seed: u64,
    /// Sessions used.
    pub jobs: u32,
    /// Rows copied.
    pub rows: u64,
    /// Size of tables and indexes.
    pub bytes: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Seconds of the rows alone.
    pub copy_seconds: f64,
}

/// Loads `options.warehouses` warehouses into a schema that holds nothing.
///
/// `progress` is called about twice a second. When anything fails, or `interrupted` is set, what
/// was made is dropped again.
///
/// # Errors
/// [`OrdersError::SchemaNotEmpty`] and the like before anything is made; any error of the
/// database afterwards.
pub async fn load<D: Database>(
    database: &D,
    options: LoadOptions,
    interrupted: Arc<AtomicBool>,
    mut progress: impl FnMut(&Progress),
) -> Result<LoadReport, OrdersError> {
    bounded("warehouses", options.warehouses, WAREHOUSES_MAX)?;
    bounded("jobs", options.jobs, THREADS_MAX)?;
    let constants = NuRandConstants::draw(&mut stream(options.seed, CONSTANTS_STREAM));
    let config = Config { warehouses: options.warehouses, seed: options.seed, constants };
    let began = Instant::now();
    database.create(&config).await?;
    let outcome = match fill(database, &config, options.jobs, &interrupted, &mut progress).await {
        Ok(filled) => match database.complete().await {
            Ok(bytes) => database.prepare().await.map(|()| (filled, bytes)),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    match outcome {
        Ok(((rows, copy_seconds), bytes)) => Ok(LoadReport {
            schema: 1,
            warehouses: options.warehouses,
            seed: options.seed,
            jobs: options.jobs,
            rows,
            bytes,
            seconds: began.elapsed().as_secs_f64(),
            copy_seconds,
        }),
        // All jobs have ended here: nothing copies into what is dropped.
        Err(error) => match drop_all(database).await {
            Ok(()) => Err(error),
            Err(dropping) => {
                Err(OrdersError::LeftBehind { schema: SCHEMA, dropping: Box::new(dropping), source: Box::new(error) })
            }
        },
    }
}

/// Drops what was made, waiting for a server that has crashed.
async fn drop_all<D: Database>(database: &D) -> Result<(), OrdersError> {
    for _ in 1..DROP_ATTEMPTS_MAX {
        match database.drop_all().await {
            Err(OrdersError::Connect { .. }) => tokio::time::sleep(Duration::from_secs(1)).await,
            outcome => return outcome,
        }
    }
    database.drop_all().await
}

/// Refuses a number that is 0 or above `max`.
pub(crate) fn bounded(name: &'static str, value: u32, max: u32) -> Result<(), OrdersError> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(OrdersError::OutOfRange { name, value: value.into(), min: 1, max: max.into() })
}

async fn fill<D: Database>(
    database: &D,
    config: &Config,
    jobs: u32,
    interrupted: &Arc<AtomicBool>,
    progress: &mut impl FnMut(&Progress),
) -> Result<(u64, f64), OrdersError> {
    let began = Instant::now();
    let expected = rows_expected(config.warehouses);
    let steps = database.finishing_steps();
    // First the rows; then each stage of steps, with the sessions opened once for all.
    let mut stages = vec![Stage::Rows(units(config.warehouses))];
    let mut first = 0;
    for names in steps {
        let count = names.len();
        stages.push(Stage::Steps { first, names });
        first += count;
    }
    let mut rows = 0;
    let mut copy_seconds = 0.0;
    for stage in stages {
        let copying = matches!(stage, Stage::Rows(_));
        let work = Arc::new(Work::new(stage, Arc::clone(interrupted)));
        let threads: Vec<_> = (0..jobs)
            .map(|_| {
                let (database, work) = (database.clone(), Arc::clone(&work));
                tokio::task::spawn_blocking(move || work.run_thread(&database))
            })
            .collect();
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        while !threads.iter().all(tokio::task::JoinHandle::is_finished) {
            ticks.tick().await;
            progress(&work.progress(began.elapsed(), rows, expected, copying));
        }
        for thread in threads {
            let ended = thread.await;
            ended.map_err(|error| OrdersError::Thread { what: format!("a loading job: {error}") })?;
        }
        work.outcome()?;
        if copying {
            rows = work.rows.load(Ordering::Relaxed);
            copy_seconds = began.elapsed().as_secs_f64();
        }
    }
    Ok((rows, copy_seconds))
}

enum Stage {
    Rows(Vec<Unit>),
    Steps { first: usize, names: Vec<&'static str> },
}

impl Stage {
    const fn len(&self) -> usize {
        match self {
            Self::Rows(units) => units.len(),
            Self::Steps { names, .. } => names.len(),
        }
    }
}

/// The work of one stage, shared by all jobs.
struct Work {
    stage: Stage,
    next: AtomicUsize,
    rows: AtomicU64,
    interrupted: Arc<AtomicBool>,
    failed: Mutex<Option<OrdersError>>,
    now: SystemTime,
}

impl Work {
    fn new(stage: Stage, interrupted: Arc<AtomicBool>) -> Self {
        Self {
            stage,
            next: AtomicUsize::new(0),
            rows: AtomicU64::new(0),
            interrupted,
            failed: Mutex::new(None),
            now: SystemTime::now(),
        }
    }

    /// One job: its own runtime and session, so that generating rows uses every core.
    fn run_thread<D: Database>(&self, database: &D) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = match runtime {
            Ok(runtime) => runtime.block_on(self.run_job(database)),
            Err(error) => Err(OrdersError::Thread { what: format!("a loading job: {error}") }),
        };
        if let Err(error) = outcome {
            self.fail(error);
        }
    }

    async fn run_job<D: Database>(&self, database: &D) -> Result<(), OrdersError> {
        if self.next.load(Ordering::Relaxed) >= self.stage.len() {
            return Ok(());
        }
        let mut copier = database.copier().await?;
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.stage.len() || self.has_failed() {
                return Ok(());
            }
            let one = self.one(&mut copier, index);
            tokio::select! {
                outcome = one => outcome?,
                () = self.wait_for_interrupt() => return Err(OrdersError::Interrupted),
            }
        }
    }

    async fn one<C: Copier>(&self, copier: &mut C, index: usize) -> Result<(), OrdersError> {
        match &self.stage {
            Stage::Rows(units) => {
                let rows = copier.copy(&units[index], self.now).await?;
                self.rows.fetch_add(rows, Ordering::Relaxed);
                Ok(())
            }
            Stage::Steps { first, .. } => copier.finish(first + index).await,
        }
    }

    async fn wait_for_interrupt(&self) {
        while !self.interrupted.load(Ordering::Relaxed) && !self.has_failed() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn fail(&self, error: OrdersError) {
        let mut failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The first error is the cause; those after it are jobs that stopped for it.
        failed.get_or_insert(error);
    }

    fn has_failed(&self) -> bool {
        self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_some()
    }

    fn outcome(&self) -> Result<(), OrdersError> {
        let mut failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    fn progress(&self, elapsed: Duration, rows_before: u64, rows_expected: u64, copying: bool) -> Progress {
        let started = self.next.load(Ordering::Relaxed).min(self.stage.len());
        let rows = if copying { self.rows.load(Ordering::Relaxed) } else { rows_before };
        let step = match &self.stage {
            Stage::Rows(_) => "rows".to_owned(),
            Stage::Steps { names, .. } => names[started.saturating_sub(1)].to_owned(),
        };
        let remaining = (copying && rows > 0 && rows < rows_expected).then(|| {
            // Indexes and statistics take about as long again as a third of the rows.
            let copy_total = elapsed.as_secs_f64() * rows_expected as f64 / rows as f64;
            Duration::from_secs_f64((copy_total * 1.33 - elapsed.as_secs_f64()).max(0.0))
        });
        Progress { step, rows, rows_expected, elapsed, remaining }
    }
}
