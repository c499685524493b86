//! The comparison: prepares a work directory and a loaded state, carries out the runs of
//! the plan in interleaved order, and leaves a record. Ends everything it started and
//! removes everything it made, whatever happens.

mod conclude;
mod held_out;
mod initial_load;
mod journal;
pub mod live_view;
mod load_search;
mod option_check;
mod prepare;
mod repeats;
mod user_search;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use results::compare::{Comparison, PlanRecord};

use crate::database::cluster::ClusterPlace;
use crate::diff;
use crate::error::LabError;
use crate::host::environment;
use crate::host::keep_awake::Awake;
use crate::host::process;
use crate::measure::metrics::Source;
use crate::placement::restore::Method;
use crate::placement::workdir::{self, WorkDir};
use crate::placement::{Facts, Ground};
use crate::plan::ladder;
use crate::plan::{self, Arm, Estimate, Level, Plan};
use crate::report;
use crate::run::driver::RunOrder;
use crate::run::progress::Progress;
use crate::run::{Bench, Turn};
use crate::summary::{self, Common};
use crate::sys;

use conclude::Done;
pub(crate) use conclude::conclude;
use journal::Journal;
use prepare::{Prepared, prepare};
pub(crate) use prepare::{database_user, why_not};

use crate::run::progress::Line;

/// What both sides on one host means.
pub const REHEARSAL_NOTE: &str =
    "REHEARSAL: filer, database and driver share this host, so this compares mechanisms, not products";

/// What the figures are not.
pub const DISCLAIMER: &str =
    "OETs are derived from the TPC-C specification; the results are not comparable to published TPC-C results";

/// What was done to this host.
const AWAKE_NOTE: &str = "this host's processors were kept awake: they polled where they would have slept";

/// What a quick look is not.
pub const QUICK_NOTE: &str = "a quick look: a small database and short runs show that everything works and about how fast; \
    it has no interval, hardly a checkpoint, and is no result to cite";

/// What to compare, where to work, where to leave the record.
#[derive(Debug, Clone)]
pub struct Request {
    /// The plan.
    pub plan: Plan,
    /// Directory below which the work directory is made.
    pub work_base: PathBuf,
    /// Directory for `results.json` and `report.html`.
    pub out: PathBuf,
    /// Go on with the comparison whose finished runs are in `out`.
    pub resume: bool,
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
    /// An earlier comparison that this one must not be worse than.
    pub baseline: Option<Comparison>,
    /// Where the storage tells its own latency.
    pub metrics: Option<Source>,
}

/// Carries the plan out, writes `results.json` and `report.html`, returns the record.
///
/// Must be called on the main thread. Catches SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
/// Whatever kept it from ending. Processes are ended and directories removed by then, save
/// logs, which are moved to `out/logs`.
pub fn compare(request: &Request, watcher: &mut dyn FnMut(&Line)) -> Result<Comparison, LabError> {
    crate::host::interrupt::catch();
    sys::adopt_orphans();
    let mut progress = Progress::new(watcher);
    let prepared = prepare(request)?;
    let (out, mut journal, done) = if request.resume {
        let (journal, done) = Journal::resume(&request.out, &request.plan)?;
        progress.step(&format!("{} finished runs are kept; the database is loaded anew", done.len()));
        (Out { made: Vec::new() }, journal, done)
    } else {
        let out = Out::make(&request.out)?;
        (out, Journal::create(&request.out, &request.plan)?, Vec::new())
    };
    for gone in workdir::sweep_stale(&request.work_base) {
        progress.step(&format!("removed {}, left by a comparison that was killed", gone.display()));
    }
    crate::host::cgroup::sweep();
    for target in &prepared.targets {
        let runs = request.plan.repeats as usize * prepared.measured.len();
        progress.step(target_words(target, &request.plan, &prepared, runs).trim_end());
    }
    let work = WorkDir::create(&request.work_base, &prepared.user, request.keep)?;
    if request.keep {
        progress.step(&format!("the work directory {} will be kept", work.root().display()));
    }
    let outcome = carry_out(request, &prepared, &work, (&mut journal, done), &mut progress);
    process::end_descendants();
    match &outcome {
        Ok(_) => {}
        Err(LabError::Interrupted) if journal.remove_if_empty() => out.unmake(),
        Err(LabError::Interrupted) => {
            progress.step(&format!("the finished runs are kept: go on with --resume {}", request.out.display()));
        }
        Err(_) => {
            journal.remove_if_empty();
            keep_logs(&work.path("logs"), &request.out);
        }
    }
    let removed = work.remove();
    let mut comparison = outcome?;
    removed?;
    if let Some(baseline) = &request.baseline {
        let gates = diff::gates(baseline, &comparison);
        comparison.gates.extend(gates);
    }
    report::write(&comparison, &request.out)?;
    journal.finish();
    Ok(comparison)
}

/// What [`compare`] would do, as text. Starts nothing and writes nothing.
///
/// # Errors
/// What would keep it from starting.
pub fn dry_run(request: &Request) -> Result<String, LabError> {
    let prepared = prepare(request)?;
    let plan = &request.plan;
    let order = plan::interleave(prepared.measured.len(), plan.repeats);
    let name = |place: usize| prepared.measured.get(place).map(|arm| arm.id.as_str()).unwrap_or_default();
    let names: Vec<&str> = order.iter().map(|(_, place)| name(*place)).collect();
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
        names.join(if prepared.measured.iter().any(|arm| arm.id.contains(' ')) { ", " } else { " " }),
        plan.warmup_seconds,
        plan.seconds,
        mib(plan.needed_bytes()),
        request.work_base.display(),
        mib(prepared.free_bytes),
        crate::run::progress::clock(estimate.whole(order.len())),
        crate::run::progress::clock(plan.budget),
        request.out.display(),
    );
    for target in &prepared.targets {
        text += &target_words(target, plan, &prepared, order.len());
    }
    for (arm, reason) in &prepared.skipped {
        text += &format!("skipped    {}: {reason}\n", arm.id);
    }
    Ok(text)
}

/// What will happen on a target: size and writes are said before the first of them.
fn target_words(target: &Facts, plan: &Plan, prepared: &Prepared, runs: usize) -> String {
    let mib = |bytes: u64| summary::grouped((bytes >> 20) as f64);
    let here = prepared.measured.iter().filter(|arm| arm.path.target.as_ref().is_some_and(|t| t.to_string() == target.target));
    let runs = runs / prepared.measured.len().max(1) * here.count();
    let copy = plan.database_bytes();
    format!(
        "target     {} ({}): one new directory, up to {} MiB in it at a time, {} MiB free; {runs} copies of {} MiB are \
         written, then what the runs write; all of it is removed, nothing else is touched\n",
        target.target,
        target.what,
        mib(copy + plan.growth_bytes()),
        mib(target.free_bytes),
        mib(copy),
    )
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

/// The place of each arm, in the order of `prepared.measured`.
fn make_grounds(prepared: &Prepared, work: &WorkDir, progress: &mut Progress<'_>) -> Result<Vec<Ground>, LabError> {
    let mut grounds = Vec::new();
    for arm in &prepared.measured {
        let (ground, removed) = Ground::make(arm, work, &prepared.user)?;
        for gone in removed {
            progress.step(&format!("removed {gone}, left on {} by a comparison that was killed", arm.path));
        }
        grounds.push(ground);
    }
    Ok(grounds)
}

fn carry_out(
    request: &Request,
    prepared: &Prepared,
    work: &WorkDir,
    (journal, done): (&mut Journal, Vec<Done>),
    progress: &mut Progress<'_>,
) -> Result<Comparison, LabError> {
    let plan = &request.plan;
    let before = done.len();
    let started_utc = crate::clock::utc_now();
    let mut environment = environment::collect(work.root(), &request.version, request.commit.as_deref());
    environment.database_user.clone_from(&prepared.user.name);
    let program = initial_load::install(&request.program, work)?;
    let place = ClusterPlace {
        binaries: prepared.binaries.clone(),
        user: prepared.user.clone(),
        socket_directory: work.path("run"),
        runtime_directory: work.runtime().to_owned(),
    };
    place.check_socket_path()?;
    let order = plan::interleave(prepared.measured.len(), plan.repeats);
    let mut estimate = Estimate::of(plan);
    progress.expect(estimate.whole(order.len()));
    let _awake = plan.keep_awake.then(Awake::begin).transpose()?;
    // Made before the long load, so that a target where nothing may be made ends it at once.
    let grounds = make_grounds(prepared, work, progress)?;
    let loaded = initial_load::load(plan, work, &place, &program, progress)?;
    environment.database_version.clone_from(&loaded.version);
    environment.database_settings.clone_from(&loaded.settings);

    let method = if environment.store.reflink { Method::Reflink } else { Method::Copy };
    let (block_bytes, buffers_bytes, metrics) = (loaded.block_bytes, loaded.buffers_bytes, request.metrics.as_ref());
    let bench = Bench { plan, work, place: &place, program, method, block_bytes, buffers_bytes, metrics };
    let mut lanes: Vec<Lane<'_>> = prepared.measured.iter().zip(grounds).map(|(arm, ground)| Lane { arm, ground }).collect();
    let sought = load_search::find(&bench, &mut lanes, &done, progress)?;
    let arms = sought.apply(&prepared.measured);
    let mut lanes: Vec<Lane<'_>> = arms.iter().zip(lanes).map(|(arm, lane)| Lane { arm, ground: lane.ground }).collect();
    let (done, left_out) = run_all(&bench, &mut lanes, &order, (journal, done), &mut estimate, progress)?;
    let held = held_out::measure(&bench, &mut lanes, done.len(), &estimate, progress)?;
    lanes.into_iter().try_for_each(|lane| lane.ground.remove())?;
    let order = order.get(..done.len()).unwrap_or(&order);
    let record = conclude::plan_record(plan, order, &arms, &loaded, method);
    let notes = notes(plan, &record, sought.notes, (before, left_out));
    let common = Common {
        block_bytes: loaded.block_bytes,
        cpu_count: environment.cpu_count,
        database_bytes: loaded.database_bytes,
        buffers_bytes: loaded.buffers_bytes,
        page_cache_bytes: plan.page_cache_bytes,
    };
    let paths = conclude::results_by_arm(plan, &arms, &prepared.skipped, &done, common);
    let times = (started_utc, progress.elapsed());
    let mut comparison = conclude(paths, record, environment, notes, plan.dnfs_share_min, times);
    comparison.tunings = conclude::tunings_record(plan);
    comparison.curve = sought.curve;
    comparison.predictions = held_out::predictions(&comparison, held, common);
    if let Some(ladder) = &plan.ladder {
        comparison.ladder = ladder::record(ladder, &comparison.paths);
    }
    comparison.stands_for.clone_from(&plan.stands_for);
    comparison.roles.clone_from(&plan.roles);
    (comparison.rehearsal, comparison.rehearsal_note) = rehearsal(prepared);
    Ok(comparison)
}

/// What a reader must know of how the comparison went: `before` runs were done by an earlier one, `left_out` do not count.
fn notes(plan: &Plan, record: &PlanRecord, mut notes: Vec<String>, (before, left_out): (usize, u32)) -> Vec<String> {
    if before > 0 {
        notes.push(format!("resumed: {before} runs were done before, on a database loaded the same way"));
    }
    if left_out > 0 {
        let hint = if plan.keep_awake { "" } else { "; --keep-awake may spare that" };
        notes.push(format!(
            "{left_out} runs were carried out again: the machine below this host gave more than a tenth of their processor time to \
             others; of each the least robbed counts{hint}"
        ));
    }
    if plan.keep_awake {
        notes.push(AWAKE_NOTE.to_owned());
    }
    if plan.quick {
        notes.push(QUICK_NOTE.to_owned());
    }
    if record.repeats_done < record.repeats {
        notes.push(format!(
            "the budget of {} s ended after {} of {} rounds",
            record.budget_seconds, record.repeats_done, record.repeats
        ));
    }
    notes
}

/// Whether storage and database share this host on any arm, and what that means.
fn rehearsal(prepared: &Prepared) -> (bool, String) {
    if prepared.measured.iter().any(|arm| arm.path.target.is_none()) {
        return (true, REHEARSAL_NOTE.to_owned());
    }
    match prepared.targets.iter().find(|target| target.this_host) {
        Some(target) => (true, format!("{REHEARSAL_NOTE} ({} is served by this host)", target.target)),
        None => (false, String::new()),
    }
}

/// An arm and where it stands.
struct Lane<'a> {
    arm: &'a Arm,
    ground: Ground,
}

/// Carries the runs out in their order, and says how many more were done than count. No round is started that would not end within
/// the budget.
fn run_all(
    bench: &Bench<'_>,
    lanes: &mut [Lane<'_>],
    order: &[(u32, usize)],
    (journal, mut done): (&mut Journal, Vec<Done>),
    estimate: &mut Estimate,
    progress: &mut Progress<'_>,
) -> Result<(Vec<Done>, u32), LabError> {
    let mut left_out = 0;
    for (index, (round, place)) in order.iter().copied().enumerate().skip(done.len()) {
        let count = lanes.len();
        let Some(Lane { arm, ground }) = lanes.get_mut(place) else { break };
        let left = u32::try_from(order.len() - index).unwrap_or(u32::MAX);
        progress.expect(estimate.run * left);
        let round_needs = estimate.run * u32::try_from(count).unwrap_or(1);
        if round > 1 && index % count == 0 && progress.elapsed() + round_needs > bench.plan.budget {
            break;
        }
        let begin = Instant::now();
        let sequence = u32::try_from(index + 1).unwrap_or(u32::MAX);
        progress.run_of(index + 1, order.len());
        let turn = Turn { arm, sequence, round, order: run_order(bench.plan, arm, round)? };
        let needed = progress.elapsed() + estimate.run * left;
        let spare = repeats::time_to_spare(bench.plan, needed);
        let counted = repeats::until_quiet(spare, progress, |progress| bench.run(turn, ground, progress))?;
        let (run, record) = (counted.run, counted.record);
        left_out += counted.left_out;
        progress.step(&format!("{}: {} orders per minute in round {round}", arm.id, summary::grouped(run.oets_per_minute)));
        journal.append(place, &run, &record)?;
        done.push((place, run, record));
        let taken = begin.elapsed() / (counted.left_out + 1);
        estimate.run = if index == 0 { taken } else { (estimate.run + taken) / 2 };
    }
    Ok((done, left_out))
}

/// What the driver is asked for in one round of an arm.
fn run_order(plan: &Plan, arm: &Arm, round: u32) -> Result<RunOrder, LabError> {
    let Level::Users(users) = arm.load.level else {
        return Err(LabError::plan(format!("apply the load \"{}\"", arm.load), "this version takes users=N"));
    };
    Ok(RunOrder {
        users,
        threads: plan.threads,
        seconds: plan.seconds,
        warmup_seconds: plan.warmup_seconds,
        seed: plan.seed + u64::from(round) - 1,
    })
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
