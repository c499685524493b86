//! The comparison: prepares a work directory and a loaded state, carries out the runs of
//! the plan in interleaved order, and leaves a record. Ends everything it started and
//! removes everything it made, whatever happens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use results::compare::{Comparison, PathResult, PathStatus, PlanRecord, Run, SCHEMA};
use results::environment::Environment;
use results::orders_run::OrdersRun;

use crate::driver::Orders;
use crate::error::LabError;
use crate::limits::RUN_GROWTH_BYTES;
use crate::paths::{self, StoragePath};
use crate::plan::{self, Estimate, Plan};
use crate::postgres::binaries::Binaries;
use crate::postgres::cluster::{self, ClusterPlace, LOAD_OVERRIDES};
use crate::process;
use crate::progress::{Line, Progress};
use crate::report;
use crate::restore::{self, Method};
use crate::run::{Bench, DATA, Turn};
use crate::summary::{self, Common};
use crate::surroundings;
use crate::sys::{self, User};
use crate::workdir::{self, WorkDir};

/// What both sides on one host means.
pub const REHEARSAL_NOTE: &str =
    "REHEARSAL: filer, database and driver share this host, so this compares mechanisms, not products";

/// What the figures are not.
pub const DISCLAIMER: &str =
    "OETs are derived from the TPC-C specification; the results are not comparable to published TPC-C results";

/// What to compare, where to work, where to leave the record.
#[derive(Debug, Clone)]
pub struct Request {
    /// The plan.
    pub plan: Plan,
    /// Directory below which the work directory is made.
    pub work_base: PathBuf,
    /// Directory for `results.json` and `report.html`.
    pub out: PathBuf,
    /// Leave the work directory in place.
    pub keep: bool,
    /// Directory of PostgreSQL's server programs, when not to be searched.
    pub pg_bin: Option<PathBuf>,
    /// This program: serves, executes and loads as a child.
    pub program: PathBuf,
    /// Version of this program.
    pub version: String,
    /// Commit it was built from, when known.
    pub commit: Option<String>,
}

/// What a comparison will do, found without starting anything.
struct Prepared {
    binaries: Binaries,
    user: User,
    /// Paths to be measured, in order.
    measured: Vec<StoragePath>,
    /// The others, with the reason.
    skipped: Vec<(StoragePath, String)>,
    free_bytes: u64,
}

/// Carries the plan out, writes `results.json` and `report.html`, returns the record.
///
/// Must be called on the main thread. Catches SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
/// Whatever kept it from ending. Processes are ended and directories removed by then, save
/// logs, which are moved to `out/logs`.
pub fn compare(request: &Request, watcher: &mut dyn FnMut(&Line)) -> Result<Comparison, LabError> {
    crate::interrupt::catch();
    sys::adopt_orphans();
    let mut progress = Progress::new(watcher);
    let prepared = prepare(request)?;
    let out = Out::make(&request.out)?;
    for gone in workdir::sweep_stale(&request.work_base) {
        progress.step(&format!("removed {}, left by a comparison that was killed", gone.display()));
    }
    let work = WorkDir::create(&request.work_base, &prepared.user, request.keep)?;
    if request.keep {
        progress.step(&format!("the work directory {} will be kept", work.root().display()));
    }
    let outcome = carry_out(request, &prepared, &work, &mut progress);
    process::end_descendants();
    match &outcome {
        Ok(_) => {}
        Err(LabError::Interrupted) => out.unmake(),
        Err(_) => keep_logs(&work.path("logs"), &request.out),
    }
    let removed = work.remove();
    let comparison = outcome?;
    removed?;
    report::write(&comparison, &request.out)?;
    Ok(comparison)
}

/// What [`compare`] would do, as text. Starts nothing and writes nothing.
///
/// # Errors
/// What would keep it from starting.
pub fn dry_run(request: &Request) -> Result<String, LabError> {
    let prepared = prepare(request)?;
    let plan = &request.plan;
    let order = plan::interleave(&prepared.measured, plan.repeats);
    let names: Vec<&str> = order.iter().map(|(_, path)| path.name()).collect();
    let estimate = Estimate::of(plan);
    let mib = |bytes: u64| summary::grouped((bytes >> 20) as f64);
    let mut text = format!(
        "database   PostgreSQL {} from {}, as user {}\n\
         load       {} warehouses (about {} MiB), {} users on {} driver threads\n\
         buffers    about {} MiB ({} of the database)\n\
         runs       {} (each {} s warm-up and {} s measured)\n\
         space      {} MiB needed below {}, {} MiB free\n\
         time       about {} of {} allowed\n\
         record     {}\n",
        prepared.binaries.version,
        prepared.binaries.directory.display(),
        prepared.user.name,
        plan.warehouses,
        mib(plan.database_bytes()),
        plan.users,
        plan.threads,
        mib(plan.buffers_bytes(plan.database_bytes())),
        plan.buffers_share,
        names.join(" "),
        plan.warmup_seconds,
        plan.seconds,
        mib(plan.needed_bytes()),
        request.work_base.display(),
        mib(prepared.free_bytes),
        crate::progress::clock(estimate.whole(order.len())),
        crate::progress::clock(plan.budget),
        request.out.display(),
    );
    for (path, reason) in &prepared.skipped {
        text += &format!("skipped    {path}: {reason}\n");
    }
    Ok(text)
}

/// Exit code of a finished comparison: 0 measured, 1 a gate was missed, 3 not valid.
#[must_use]
pub fn exit_code(comparison: &Comparison) -> u8 {
    if !comparison.valid {
        3
    } else if comparison.gates.iter().any(|gate| !gate.passed) {
        1
    } else {
        0
    }
}

/// Finds what is needed and refuses early what can't work.
fn prepare(request: &Request) -> Result<Prepared, LabError> {
    let plan = &request.plan;
    let binaries = Binaries::find(request.pg_bin.as_deref())?;
    let user = database_user()?;
    let (mut measured, mut skipped) = (Vec::new(), Vec::new());
    for path in &plan.paths {
        match why_not(*path, &request.program) {
            None => measured.push(*path),
            Some(reason) => skipped.push((*path, reason)),
        }
    }
    if measured.is_empty() {
        let reasons: Vec<String> = skipped.iter().map(|(path, reason)| format!("{path} ({reason})")).collect();
        return Err(LabError::Missing {
            what: format!("measure any of the paths asked for: {}", reasons.join("; ")),
            hint: "millrace doctor shows what can be measured here".to_owned(),
        });
    }
    let free_bytes =
        sys::free_bytes(&request.work_base).map_err(LabError::file("look at the work directory's base", &request.work_base))?;
    check_reachable(&request.work_base, &user)?;
    if free_bytes < plan.needed_bytes() {
        return Err(LabError::Missing {
            what: format!(
                "work below {}: {} MiB are needed, {} MiB are free",
                request.work_base.display(),
                plan.needed_bytes() >> 20,
                free_bytes >> 20
            ),
            hint: "name a larger place with --work, or load fewer warehouses with --warehouses".to_owned(),
        });
    }
    Ok(Prepared { binaries, user, measured, skipped, free_bytes })
}

/// Why a path can't be measured with this program on this host.
pub(crate) fn why_not(path: StoragePath, program: &Path) -> Option<String> {
    if let Some(reason) = path.not_built() {
        return Some(reason.to_owned());
    }
    if path == StoragePath::Dnfs && paths::preload_library(program).is_none() {
        let place = program.parent().unwrap_or(Path::new("/")).display();
        return Some(format!("{} is not beside {place}/millrace; build it (cargo build -p preload)", paths::PRELOAD_LIBRARY));
    }
    None
}

/// The user the database runs as: this one, or for root `postgres`, else `nobody`.
pub(crate) fn database_user() -> Result<User, LabError> {
    let uid = sys::effective_uid();
    let found =
        if uid == 0 { sys::user_by_name("postgres").or_else(|| sys::user_by_name("nobody")) } else { sys::user_by_uid(uid) };
    found.filter(|user| user.uid != 0).ok_or_else(|| LabError::Missing {
        what: "find an unprivileged user for the database: it refuses to run as root".to_owned(),
        hint: "install PostgreSQL (its package makes the user postgres), or run as another user".to_owned(),
    })
}

/// The database's user must be able to walk to the work directory.
fn check_reachable(base: &Path, user: &User) -> Result<(), LabError> {
    let base = fs::canonicalize(base).map_err(LabError::file("find", base))?;
    for directory in base.ancestors() {
        let facts = fs::metadata(directory).map_err(LabError::file("look at", directory))?;
        let mode = facts.permissions().mode();
        let owner = std::os::unix::fs::MetadataExt::uid(&facts) == user.uid;
        if mode & 0o001 == 0 && !(owner && mode & 0o100 != 0) {
            return Err(LabError::Missing {
                what: format!("work below {}: user {} may not enter {}", base.display(), user.name, directory.display()),
                hint: "name another place with --work, for example /var/tmp".to_owned(),
            });
        }
    }
    Ok(())
}

/// The output directory, with those above it that had to be made.
struct Out {
    /// Innermost first.
    made: Vec<PathBuf>,
}

impl Out {
    /// Makes the directory; one that holds something is refused.
    fn make(out: &Path) -> Result<Self, LabError> {
        let taken = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
        if taken {
            return Err(LabError::Plan {
                what: format!("write the record to {}: it is not empty", out.display()),
                hint: "name a new directory with --out".to_owned(),
            });
        }
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = out.ancestors().take_while(missing).map(Path::to_owned).collect();
        fs::create_dir_all(out).map_err(LabError::file("create directory", out))?;
        Ok(Self { made })
    }

    /// Takes back what was made, as far as it is empty.
    fn unmake(&self) {
        for directory in &self.made {
            let _ = fs::remove_dir(directory);
        }
    }
}

fn carry_out(
    request: &Request,
    prepared: &Prepared,
    work: &WorkDir,
    progress: &mut Progress<'_>,
) -> Result<Comparison, LabError> {
    let plan = &request.plan;
    let started_utc = crate::clock::utc_now();
    let mut environment = surroundings::collect(work.root(), &request.version, request.commit.as_deref());
    environment.database_user.clone_from(&prepared.user.name);
    let program = install(&request.program, work)?;
    let place = ClusterPlace {
        binaries: prepared.binaries.clone(),
        user: prepared.user.clone(),
        socket_directory: work.path("run"),
        runtime_directory: work.runtime().to_owned(),
    };
    place.check_socket_path()?;
    let mut order = plan::interleave(&prepared.measured, plan.repeats);
    let mut estimate = Estimate::of(plan);
    progress.expect(estimate.whole(order.len()));
    let loaded = load(plan, work, &place, &program, progress)?;
    environment.database_version.clone_from(&loaded.version);
    environment.database_settings.clone_from(&loaded.settings);

    let method = if environment.store.reflink { Method::Reflink } else { Method::Copy };
    let bench = Bench { plan, work, place: &place, program, method, block_bytes: loaded.block_bytes };
    let mut done: Vec<(StoragePath, Run, OrdersRun)> = Vec::new();
    let whole = order.len();
    let mut cut_short = false;
    for (index, (round, path)) in order.clone().into_iter().enumerate() {
        let left = u32::try_from(whole - index).unwrap_or(u32::MAX);
        progress.expect(estimate.run * left);
        let round_needs = estimate.run * u32::try_from(prepared.measured.len()).unwrap_or(1);
        if round > 1 && index % prepared.measured.len() == 0 && progress.elapsed() + round_needs > plan.budget {
            order.truncate(index);
            cut_short = true;
            break;
        }
        let begin = Instant::now();
        let sequence = u32::try_from(index + 1).unwrap_or(u32::MAX);
        progress.run_of(index + 1, whole);
        let (run, record) = bench.run(Turn { path, sequence, round }, progress)?;
        done.push((path, run, record));
        let taken = begin.elapsed();
        estimate.run = if index == 0 { taken } else { (estimate.run + taken) / 2 };
    }
    let record = plan_record(plan, &order, prepared.measured.len(), &loaded, method);
    let mut notes = Vec::new();
    if cut_short {
        notes.push(format!(
            "the budget of {} s ended after {} of {} rounds",
            record.budget_seconds, record.repeats_done, record.repeats
        ));
    }
    let common = Common {
        block_bytes: loaded.block_bytes,
        cpu_count: environment.cpu_count,
        users: plan.users,
        database_bytes: loaded.database_bytes,
        buffers_bytes: loaded.buffers_bytes,
    };
    let paths = results_by_path(plan, &prepared.skipped, done, common);
    Ok(conclude(paths, record, environment, notes, plan.dnfs_share_min, (started_utc, progress.elapsed())))
}

/// The plan as it was carried out.
fn plan_record(plan: &Plan, order: &[(u32, StoragePath)], measured: usize, loaded: &Loaded, method: Method) -> PlanRecord {
    PlanRecord {
        paths: plan.paths.iter().map(ToString::to_string).collect(),
        warehouses: plan.warehouses,
        users: plan.users,
        driver_threads: plan.threads,
        seconds: plan.seconds,
        warmup_seconds: plan.warmup_seconds,
        repeats: plan.repeats,
        repeats_done: u32::try_from(order.len() / measured).unwrap_or(0),
        order: order.iter().map(|(_, path)| path.to_string()).collect(),
        budget_seconds: plan.budget.as_secs(),
        seed: plan.seed,
        database_bytes: loaded.database_bytes,
        buffers_bytes: loaded.buffers_bytes,
        restore: method.name().to_owned(),
    }
}

/// Builds the record from what was found.
pub(crate) fn conclude(
    paths: Vec<PathResult>,
    plan: PlanRecord,
    environment: Environment,
    mut notes: Vec<String>,
    dnfs_share_min: Option<f64>,
    (started_utc, elapsed): (String, Duration),
) -> Comparison {
    let against_first = summary::against_first(&paths);
    let gates = summary::gates(&against_first, dnfs_share_min);
    let verdict = summary::verdict(&paths, &against_first);
    let valid = paths.iter().all(|path| path.status != PathStatus::NotValid);
    for path in &paths {
        notes.extend(summary::notes(path));
    }
    Comparison {
        schema: SCHEMA,
        kind: "compare".to_owned(),
        started_utc,
        elapsed_s: elapsed.as_secs_f64(),
        rehearsal: true,
        rehearsal_note: REHEARSAL_NOTE.to_owned(),
        disclaimer: DISCLAIMER.to_owned(),
        verdict,
        valid,
        notes,
        plan,
        paths,
        against_first,
        gates,
        environment,
        ..Comparison::default()
    }
}

fn results_by_path(
    plan: &Plan,
    skipped: &[(StoragePath, String)],
    done: Vec<(StoragePath, Run, OrdersRun)>,
    common: Common,
) -> Vec<PathResult> {
    let mut results = Vec::new();
    for path in &plan.paths {
        if let Some((_, reason)) = skipped.iter().find(|(other, _)| other == path) {
            results.push(summary::skipped(*path, reason));
            continue;
        }
        let mine = done.iter().filter(|(other, ..)| other == path).cloned();
        let (runs, records): (Vec<Run>, Vec<OrdersRun>) = mine.map(|(_, run, record)| (run, record)).unzip();
        results.push(summary::measured(*path, runs, &records, common));
    }
    results
}

/// What the load left behind.
struct Loaded {
    database_bytes: u64,
    buffers_bytes: u64,
    block_bytes: u64,
    version: String,
    settings: std::collections::BTreeMap<String, String>,
}

/// Makes the cluster, loads it once and leaves it shut down cleanly in `master`.
fn load(
    plan: &Plan,
    work: &WorkDir,
    place: &ClusterPlace,
    program: &Path,
    progress: &mut Progress<'_>,
) -> Result<Loaded, LabError> {
    let logs = work.path("logs");
    let data = work.path("master").join(DATA);
    progress.step("making a database cluster with checksums");
    place.initdb(&data, logs.join("initdb.log"))?;
    let mut server = place.start(&[], &data, &LOAD_OVERRIDES, logs.join("load-database.log"))?;
    progress.step(&format!("loading {} warehouses", plan.warehouses));
    let dsn = place.dsn();
    let orders = Orders { program, dsn: &dsn, logs: &logs };
    orders.load(plan.warehouses, plan.threads.max(2), &mut |line| progress.within(&format!("loading: {line}")))?;
    progress.step("vacuuming and shutting down");
    let session = server.session();
    session.run("vacuum", "vacuum (freeze, analyze)")?;
    session.run("write a checkpoint", "checkpoint")?;
    let (database_bytes, block_bytes) = (session.database_bytes()?, session.block_bytes()?);
    server.stop()?;
    let buffers_bytes = plan.buffers_bytes(database_bytes);
    place.write_settings(&data, &cluster::settings(buffers_bytes, plan.users))?;

    // Once with the settings of the runs: they are read back and proved to be accepted.
    let mut server = place.start(&[], &data, &[], logs.join("load-database.log"))?;
    let session = server.session();
    let (version, settings) = (session.server_version()?, session.changed_settings()?);
    server.stop()?;
    restore::sync(&data)?;
    let size = restore::tree_size(&data);
    progress.expect_bytes(size.bytes);
    let free = sys::free_bytes(&data).map_err(LabError::file("look at", &data))?;
    if free < size.bytes + RUN_GROWTH_BYTES {
        return Err(LabError::Missing {
            what: format!("copy the loaded state of {} MiB: {} MiB are free", size.bytes >> 20, free >> 20),
            hint: "name a larger place with --work, or load fewer warehouses with --warehouses".to_owned(),
        });
    }
    Ok(Loaded { database_bytes, buffers_bytes, block_bytes, version, settings })
}

/// Copies this program and the preload library to where the database's user can read them.
fn install(program: &Path, work: &WorkDir) -> Result<PathBuf, LabError> {
    let target = work.path("bin").join("millrace");
    let mut files = vec![(program.to_owned(), target.clone())];
    if let Some(library) = paths::preload_library(program) {
        files.push((library, work.path("bin").join(paths::PRELOAD_LIBRARY)));
    }
    for (from, to) in files {
        fs::copy(&from, &to).map_err(LabError::file("copy program", &from))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(LabError::file("set permissions of", &to))?;
    }
    Ok(target)
}

/// Logs of a comparison that failed are worth more than its data.
fn keep_logs(logs: &Path, out: &Path) {
    let target = out.join("logs");
    if fs::create_dir(&target).is_err() {
        return;
    }
    for entry in fs::read_dir(logs).into_iter().flatten().flatten() {
        let _ = fs::copy(entry.path(), target.join(entry.file_name()));
    }
}
