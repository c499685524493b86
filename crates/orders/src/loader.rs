//! Loads a fresh database: jobs copy rows in parallel, then build indexes and statistics.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use host::Unpoisoned;
use serde::Serialize;

use crate::database::{Config, Copier, Database, DiskSpace, Unfinished};
use crate::error::OrdersError;
use crate::limits::{DROP_ATTEMPTS_MAX, LOAD_BESIDE_BYTES, LOAD_CORE_S_PER_WAREHOUSE, THREADS_MAX, WAREHOUSES_MAX};
use crate::random::{NuRandConstants, stream};
use crate::tables::{Unit, rows_expected, units};

/// Stream of the load's seed that draws the constants; the tables' streams are above 2^56 or
/// belong to table 0, warehouse 0.
const CONSTANTS_STREAM: u64 = u64::MAX;

/// Options of a load.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// Warehouses, at least 1.
    pub warehouses: u32,
    /// Sessions that copy in parallel.
    pub jobs: u32,
    /// Seed of all rows.
    pub seed: u64,
    /// Whether to resume an interrupted load instead of starting a new one.
    pub resume: bool,
    /// Whether to load even if the disk seems too small.
    pub no_space_check: bool,
}

/// Estimate of a load, printed before it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPlan {
    /// Approximate number of rows.
    pub rows: u64,
    /// Approximate bytes of tables and indexes.
    pub bytes: u64,
    /// Bytes needed while loading: the tables, the log and the sorts.
    pub bytes_needed: u64,
    /// Approximate seconds if nothing else uses the cores.
    pub seconds: f64,
    /// Disk space of the server, if this host can read it.
    pub disk_space: Option<DiskSpace>,
}

/// Progress of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Current step.
    pub step: String,
    /// Rows copied so far.
    pub rows: u64,
    /// Rows expected in all.
    pub rows_expected: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// Estimated remaining time, once it is known.
    pub remaining: Option<Duration>,
}

/// Result of a load.
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
    /// Rows of the complete load.
    pub rows: u64,
    /// Of these, the rows that an earlier, interrupted load had copied.
    pub rows_before: u64,
    /// Size of tables and indexes.
    pub bytes: u64,
    /// Total seconds.
    pub seconds: f64,
    /// Seconds for copying the rows alone.
    pub copy_seconds: f64,
}

/// Loads `options.warehouses` warehouses into an empty schema.
///
/// `progress` is called about twice a second. If the load fails, or `interrupted` is set, the loaded rows
/// stay, and a load with `resume` continues with the missing ones. If no rows were committed, the schema is dropped.
///
/// # Errors
/// [`OrdersError::SchemaNotEmpty`] and similar refusals before anything is created;
/// [`OrdersError::CutOff`] around any error of the database afterwards.
pub async fn load<D: Database>(
    database: &D,
    options: LoadOptions,
    interrupted: Arc<AtomicBool>,
    mut progress: impl FnMut(&Progress),
) -> Result<LoadReport, OrdersError> {
    bounded("--warehouses", options.warehouses, WAREHOUSES_MAX)?;
    bounded("--jobs", options.jobs, THREADS_MAX)?;
    let began = Instant::now();
    let done = if options.resume {
        let done = database.unfinished().await?;
        let (found, asked) = ((done.config.warehouses, done.config.seed), (options.warehouses, options.seed));
        if found != asked {
            return Err(OrdersError::OtherLoad { found, asked });
        }
        done
    } else {
        plan(database, options).await?.check(options)?;
        let constants = NuRandConstants::draw(&mut stream(options.seed, CONSTANTS_STREAM));
        let done = Unfinished::new(Config { warehouses: options.warehouses, seed: options.seed, constants });
        database.create(&done.config).await?;
        done
    };
    let outcome = match fill(database, &done, options.jobs, &interrupted, &mut progress).await {
        Ok(filled) => finish(database).await.map(|bytes| (filled, bytes)),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(((rows, copy_seconds), bytes)) => Ok(LoadReport {
            schema: 1,
            warehouses: options.warehouses,
            seed: options.seed,
            jobs: options.jobs,
            rows,
            rows_before: done.rows,
            bytes,
            seconds: began.elapsed().as_secs_f64(),
            copy_seconds,
        }),
        // All jobs have ended here, so none copies into a schema that is being examined and dropped.
        Err(error) => Err(cut_off(database, options, error).await),
    }
}

/// Whether the database already holds this load, complete. Changes nothing.
///
/// # Errors
/// [`OrdersError::OtherLoad`] if it holds a complete load of another size or seed; [`OrdersError::HalfLoaded`] and similar.
pub async fn is_loaded<D: Database>(database: &D, options: LoadOptions) -> Result<bool, OrdersError> {
    let config = match database.config().await {
        Err(OrdersError::MissingSchema { .. }) => return Ok(false),
        outcome => outcome?,
    };
    let (found, asked) = ((config.warehouses, config.seed), (options.warehouses, options.seed));
    if found == asked { Ok(true) } else { Err(OrdersError::OtherLoad { found, asked }) }
}

/// Estimates a load. Changes nothing.
///
/// # Errors
/// The database cannot be reached.
pub async fn plan<D: Database>(database: &D, options: LoadOptions) -> Result<LoadPlan, OrdersError> {
    let warehouses = u64::from(options.warehouses);
    let bytes = database.warehouse_bytes() * warehouses;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let lanes = cores.min(f64::from(options.jobs));
    Ok(LoadPlan {
        rows: rows_expected(options.warehouses),
        bytes,
        // The sort of the largest index needs space in addition to its table, and the log is kept until a checkpoint.
        bytes_needed: bytes + bytes / 8 + LOAD_BESIDE_BYTES.min(bytes),
        seconds: LOAD_CORE_S_PER_WAREHOUSE * warehouses as f64 / lanes,
        disk_space: database.disk_space().await?,
    })
}

impl LoadPlan {
    fn check(&self, options: LoadOptions) -> Result<(), OrdersError> {
        match &self.disk_space {
            Some(space) if space.free_bytes < self.bytes_needed && !options.no_space_check => Err(OrdersError::NoSpace {
                directory: space.directory.clone(),
                needed_mib: self.bytes_needed >> 20,
                free_mib: space.free_bytes >> 20,
            }),
            _ => Ok(()),
        }
    }
}

async fn finish<D: Database>(database: &D) -> Result<u64, OrdersError> {
    let bytes = database.complete().await?;
    database.prepare().await?;
    Ok(bytes)
}

/// Keeps the loaded rows and returns [`OrdersError::CutOff`]; drops a schema without committed rows.
async fn cut_off<D: Database>(database: &D, options: LoadOptions, error: OrdersError) -> OrdersError {
    let (source, schema) = (Box::new(error), database.schema());
    match database.unfinished().await {
        Ok(done) if done.units.is_empty() => match drop_all(database).await {
            Ok(()) => *source,
            Err(dropping) => OrdersError::LeftBehind { schema, dropping: Box::new(dropping), source },
        },
        Ok(done) => {
            let rows_expected = rows_expected(options.warehouses);
            OrdersError::CutOff { schema, rows: done.rows, rows_expected, source }
        }
        // The server no longer answers; its schema stays marked as half loaded.
        Err(_) => OrdersError::CutOff { schema, rows: 0, rows_expected: rows_expected(options.warehouses), source },
    }
}

/// Drops what the load created. Waits for a server that has crashed.
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
    done: &Unfinished,
    jobs: u32,
    interrupted: &Arc<AtomicBool>,
    progress: &mut impl FnMut(&Progress),
) -> Result<(u64, f64), OrdersError> {
    let began = Instant::now();
    let expected = rows_expected(done.config.warehouses);
    let mut rows = done.rows;
    let mut copy_seconds = 0.0;
    for stage in stages(database, done) {
        let copying = matches!(stage, Stage::Rows(_));
        let work = Arc::new(Work::new(stage, rows, Arc::clone(interrupted)));
        let threads: Vec<_> = (0..jobs)
            .map(|_| {
                let (database, work) = (database.clone(), Arc::clone(&work));
                tokio::task::spawn_blocking(move || work.run_thread(&database))
            })
            .collect();
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        while !threads.iter().all(tokio::task::JoinHandle::is_finished) {
            ticks.tick().await;
            progress(&work.progress(began.elapsed(), expected, done.rows));
        }
        for thread in threads {
            let ended = thread.await;
            ended.map_err(|error| OrdersError::Thread { what: format!("a loading job: {error}") })?;
        }
        work.outcome()?;
        rows = work.rows.load(Ordering::Relaxed);
        if copying {
            copy_seconds = began.elapsed().as_secs_f64();
        }
    }
    Ok((rows, copy_seconds))
}

/// The remaining work: first the rows, then each stage of steps. The sessions stay open for all stages.
fn stages<D: Database>(database: &D, done: &Unfinished) -> Vec<Stage> {
    let copied: HashSet<Unit> = done.units.iter().copied().collect();
    let left = units(done.config.warehouses).into_iter().filter(|unit| !copied.contains(unit)).collect();
    let mut stages = vec![Stage::Rows(left)];
    let mut next = 0;
    for names in database.finishing_steps() {
        let numbered: Vec<(usize, &'static str)> = (next..).zip(names).collect();
        next += numbered.len();
        stages.push(Stage::Steps(numbered.into_iter().filter(|(index, _)| !done.steps.contains(index)).collect()));
    }
    stages
}

enum Stage {
    Rows(Vec<Unit>),
    /// Index over all stages, and name, of each step.
    Steps(Vec<(usize, &'static str)>),
}

impl Stage {
    const fn len(&self) -> usize {
        match self {
            Self::Rows(units) => units.len(),
            Self::Steps(steps) => steps.len(),
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
    fn new(stage: Stage, rows: u64, interrupted: Arc<AtomicBool>) -> Self {
        Self {
            stage,
            next: AtomicUsize::new(0),
            rows: AtomicU64::new(rows),
            interrupted,
            failed: Mutex::new(None),
            now: SystemTime::now(),
        }
    }

    /// One job: it has its own runtime and session, so that generating rows uses every core.
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
            Stage::Steps(steps) => copier.finish(steps[index].0).await,
        }
    }

    async fn wait_for_interrupt(&self) {
        while !self.interrupted.load(Ordering::Relaxed) && !self.has_failed() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn fail(&self, error: OrdersError) {
        let mut failed = self.failed.lock().unpoisoned();
        // The first error is the cause; later errors are from jobs that stopped because of it.
        failed.get_or_insert(error);
    }

    fn has_failed(&self) -> bool {
        self.failed.lock().unpoisoned().is_some()
    }

    fn outcome(&self) -> Result<(), OrdersError> {
        let mut failed = self.failed.lock().unpoisoned();
        failed.take().map_or(Ok(()), Err)
    }

    fn progress(&self, elapsed: Duration, rows_expected: u64, rows_before: u64) -> Progress {
        let started = self.next.load(Ordering::Relaxed).min(self.stage.len());
        let rows = self.rows.load(Ordering::Relaxed);
        let (step, copying) = match &self.stage {
            Stage::Rows(_) => ("rows".to_owned(), true),
            Stage::Steps(steps) => {
                (steps.get(started.saturating_sub(1)).map_or_else(String::new, |step| step.1.to_owned()), false)
            }
        };
        // The rate of this load only: rows of an earlier, interrupted load do not count.
        let (copied, left) = (rows.saturating_sub(rows_before), rows_expected.saturating_sub(rows));
        let remaining = (copying && copied > 0 && left > 0).then(|| {
            // Indexes and statistics take about a third of the time of the rows.
            let copy_left = elapsed.as_secs_f64() * left as f64 / copied as f64;
            Duration::from_secs_f64(copy_left + (elapsed.as_secs_f64() + copy_left) * 0.33)
        });
        Progress { step, rows, rows_expected, elapsed, remaining }
    }
}
