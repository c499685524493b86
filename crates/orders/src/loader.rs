//! Loads a fresh database: jobs copy rows side by side, then indexes and statistics.

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

/// What to load, and how.
#[derive(Debug, Clone, Copy)]
pub struct LoadOptions {
    /// Warehouses, at least 1.
    pub warehouses: u32,
    /// Sessions that copy side by side.
    pub jobs: u32,
    /// Seed of every row.
    pub seed: u64,
    /// Whether to go on with a load that was interrupted, instead of beginning one.
    pub resume: bool,
    /// Whether to load although the disk seems too small.
    pub no_space_check: bool,
}

/// What a load will come to, told before it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPlan {
    /// Rows, about.
    pub rows: u64,
    /// Bytes of tables and indexes, about.
    pub bytes: u64,
    /// Bytes needed while loading: the tables, the log and the sorts.
    pub bytes_needed: u64,
    /// Seconds, about, when nothing else uses the cores.
    pub seconds: f64,
    /// DiskSpace on the server, when that can be seen from here.
    pub disk_space: Option<DiskSpace>,
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
    /// Rows of the whole load.
    pub rows: u64,
    /// Those of them that an earlier, interrupted load had copied.
    pub rows_before: u64,
    /// Size of tables and indexes.
    pub bytes: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Seconds of the rows alone.
    pub copy_seconds: f64,
}

/// Loads `options.warehouses` warehouses into a schema that holds nothing.
///
/// `progress` is called about twice a second. When anything fails, or `interrupted` is set, what is
/// loaded stays, and a load with `resume` goes on with what is missing; a load of which no rows
/// are committed is dropped again.
///
/// # Errors
/// [`OrdersError::SchemaNotEmpty`] and the like before anything is made;
/// [`OrdersError::CutOff`] around any error of the database afterwards.
pub async fn load<D: Database>(
    database: &D,
    options: LoadOptions,
    interrupted: Arc<AtomicBool>,
    mut progress: impl FnMut(&Progress),
) -> Result<LoadReport, OrdersError> {
    bounded("warehouses", options.warehouses, WAREHOUSES_MAX)?;
    bounded("jobs", options.jobs, THREADS_MAX)?;
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
        // All jobs have ended here: nothing copies into what is looked at and dropped.
        Err(error) => Err(cut_off(database, options, error).await),
    }
}

/// Whether the database holds this load already, complete. Nothing is made.
///
/// # Errors
/// [`OrdersError::OtherLoad`] where it holds a complete load of another size or seed; [`OrdersError::HalfLoaded`] and the like.
pub async fn is_loaded<D: Database>(database: &D, options: LoadOptions) -> Result<bool, OrdersError> {
    let config = match database.config().await {
        Err(OrdersError::MissingSchema { .. }) => return Ok(false),
        outcome => outcome?,
    };
    let (found, asked) = ((config.warehouses, config.seed), (options.warehouses, options.seed));
    if found == asked { Ok(true) } else { Err(OrdersError::OtherLoad { found, asked }) }
}

/// What the load will come to. Nothing is made yet.
///
/// # Errors
/// When the database cannot be reached.
pub async fn plan<D: Database>(database: &D, options: LoadOptions) -> Result<LoadPlan, OrdersError> {
    let warehouses = u64::from(options.warehouses);
    let bytes = database.warehouse_bytes() * warehouses;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let lanes = cores.min(f64::from(options.jobs));
    Ok(LoadPlan {
        rows: rows_expected(options.warehouses),
        bytes,
        // The largest index is sorted beside its table, and the log is kept until a checkpoint.
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

/// Keeps what is loaded and says so; drops a schema without committed rows.
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
        // The server does not answer any more; its schema is marked as half loaded.
        Err(_) => OrdersError::CutOff { schema, rows: 0, rows_expected: rows_expected(options.warehouses), source },
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

/// What is left to do: first the rows; then each stage of steps, with the sessions opened once for all.
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
    /// Numbers over all stages, and names.
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
        // The first error is the cause; those after it are jobs that stopped for it.
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
        // At the pace of this load, not of the one that was interrupted before it.
        let (copied, left) = (rows.saturating_sub(rows_before), rows_expected.saturating_sub(rows));
        let remaining = (copying && copied > 0 && left > 0).then(|| {
            // Indexes and statistics take about as long again as a third of the rows.
            let copy_left = elapsed.as_secs_f64() * left as f64 / copied as f64;
            Duration::from_secs_f64(copy_left + (elapsed.as_secs_f64() + copy_left) * 0.33)
        });
        Progress { step, rows, rows_expected, elapsed, remaining }
    }
}
