//! The comparison: prepares a work directory and a loaded state, carries out the runs of
//! the plan in interleaved order, and leaves a record. In every case, it ends everything that it started and
//! removes everything that it created.

mod conclude;
mod dry_run;
mod held_out;
mod initial_load;
mod journal;
pub mod live_view;
mod load_search;
mod measured_arm;
mod notes;
mod option_check;
mod out_directory;
mod prepare;
mod regimes;
mod repeats;
mod request;
mod runs;
mod user_search;

use results::compare::{Comparison, RegimeResult, RegimeStatus};

use crate::database::cluster::ClusterPlace;
use crate::diff;
use crate::error::LabError;
use crate::host::environment;
use crate::host::keep_awake::KeepAwake;
use crate::host::process;
use crate::paths;
use crate::paths::filer_loss::FilerLoss;
use crate::paths::placement::Placement;
use crate::placement::restore::Method;
use crate::placement::workdir::{self, WorkDir};
use crate::plan::ladder;
use crate::plan::{self, Estimate};
use crate::report;
use crate::run::progress::Progress;
use crate::run::setup::Setup;
use crate::summary::Common;
use crate::sys;

pub(crate) use conclude::conclude;
pub use dry_run::dry_run;
use dry_run::target_words;
pub(crate) use journal::remove_journal_without_runs;
use journal::{FinishedRun, Journal};
use measured_arm::placed;
pub(crate) use out_directory::OutDirectory;
use out_directory::keep_logs;
pub(crate) use prepare::database_user;
use prepare::{Prepared, prepare};
use regimes::Shared;
pub use request::Request;

use crate::run::progress::Event;

/// Carries out the plan, writes `results.json` and `report.html`, and returns the record.
///
/// Must be called on the main thread. Catches SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
/// The error that ended the comparison. Processes are ended and directories removed by then, except
/// for logs, which are moved to `out/logs`.
pub fn compare(request: &Request, watcher: &mut dyn FnMut(&Event)) -> Result<Comparison, LabError> {
    crate::host::interrupt::catch();
    sys::adopt_orphans();
    let mut progress = Progress::new(watcher);
    let prepared = prepare(request)?;
    dry_run::settings(&request.plan, &prepared).into_iter().for_each(|line| progress.setting(line));
    progress.setting(dry_run::runs(&request.plan));
    let (out, mut journal, done) = if request.resume {
        let (journal, done) = Journal::resume(&request.out, &request.plan)?;
        progress.step(&format!("{} finished runs are kept; the database is loaded again", done.len()));
        (OutDirectory::resumed(), journal, done)
    } else {
        let out = OutDirectory::make(&request.out)?;
        (out, Journal::create(&request.out, &request.plan)?, Vec::new())
    };
    for gone in workdir::sweep_stale(&request.work_base, &|directory| paths::end_left_behind(&request.program, directory)) {
        progress.step(&format!("removed {}, left by a comparison that was killed", gone.display()));
    }
    crate::host::cgroup::sweep();
    for target in &prepared.targets {
        let runs = regimes::copies_of_each(&request.plan) * prepared.measured.len();
        progress.step(target_words(target, &request.plan, &prepared, runs).trim_end());
    }
    let work = WorkDir::create(&request.work_base, &prepared.user, request.keep)?;
    if request.keep {
        progress.step(&format!("the work directory {} will be kept", work.root().display()));
    }
    let mut outcome = carry_out(request, &prepared, &work, (&mut journal, done), &mut progress);
    process::end_descendants();
    if let Err(LabError::FilerLost(loss)) = &mut outcome {
        say_what_is_left(loss, &work, request);
    }
    match &outcome {
        Ok(comparison) if comparison.regimes.iter().any(|regime| matches!(regime.status, RegimeStatus::Failed)) => {
            keep_logs(&work.path("logs"), &request.out);
        }
        Ok(_) => {}
        Err(LabError::Interrupted) if journal.remove_if_empty() => out.unmake(),
        Err(LabError::Interrupted) => outcome = Err(LabError::interrupted_with_runs(&request.out)),
        Err(_) => {
            if !journal.remove_if_empty() && request.resumable {
                let out = request.out.display();
                progress.step(&format!(
                    "the runs that were finished are kept: go on with --resume {out}, and the same plan and options"
                ));
            }
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
    if let Some(last) = &request.last {
        last.hold(&mut comparison);
    }
    report::write(&comparison, &request.out)?;
    journal.finish();
    Ok(comparison)
}

/// Exit code of a finished comparison: 0 measured, 1 a gate failed, 3 it or one of its scenarios is not valid, or a scenario failed.
#[must_use]
pub fn exit_code(comparison: &Comparison) -> u8 {
    let unsound = |regime: &RegimeResult| !regime.valid && !matches!(regime.status, RegimeStatus::LeftOut);
    if !comparison.valid || comparison.regimes.iter().any(unsound) {
        3
    } else if comparison.gates.iter().any(|gate| !gate.passed) {
        1
    } else {
        0
    }
}

/// Describes what remains after the loss of Millrace's filer: only kept files, if requested, and the logs.
fn say_what_is_left(loss: &mut FilerLoss, work: &WorkDir, request: &Request) {
    if !loss.left.is_empty() {
        return; // on a filer that is not ours
    }
    let logs = request.out.join("logs");
    let kept = if request.keep { format!("{} and ", work.root().display()) } else { String::new() };
    loss.left = format!("all its processes were ended; {kept}the logs in {} are what stays", logs.display());
    let kept = if request.keep { format!(" {}", work.root().display()) } else { String::new() };
    loss.removal = format!("remove that with: rm -r {}{kept}", request.out.display());
}

fn carry_out(
    request: &Request,
    prepared: &Prepared,
    work: &WorkDir,
    (journal, done): (&mut Journal, Vec<FinishedRun>),
    progress: &mut Progress<'_>,
) -> Result<Comparison, LabError> {
    let plan = &request.plan;
    let before = done.len();
    let started_utc = crate::clock::utc_now();
    let mut environment = environment::collect(work.root(), &request.version, request.commit.as_deref());
    environment.database_user.clone_from(&prepared.user.name);
    let program = initial_load::install(&request.program, work)?;
    let place = ClusterPlace {
        engine: prepared.engine.clone(),
        user: prepared.user.clone(),
        socket_directory: work.path("run"),
        runtime_directory: work.runtime().to_owned(),
    };
    place.check_socket_path()?;
    let order = plan::interleave(prepared.measured.len(), plan.repeats);
    let mut estimate = Estimate::of(plan);
    let prospects = regimes::prospects(plan, prepared, &request.program);
    regimes::announce(plan, &prospects, &estimate, prepared.measured.len(), progress);
    let _awake = plan.keep_awake.then(KeepAwake::begin).transpose()?;
    // Created before the long load, so that an unusable target ends the comparison at once.
    let mut places = runs::place(&request.plan, prepared, &program, work, request.overwrite_devices, progress)?;
    let loaded = initial_load::load(plan, work, &place, &program, progress)?;
    environment.database_version.clone_from(&loaded.version);
    environment.database_settings.clone_from(&loaded.settings);

    let method = if environment.store.reflink { Method::Reflink } else { Method::Copy };
    let (block_bytes, buffers_bytes, metrics) = (loaded.block_bytes, loaded.buffers_bytes, request.metrics.as_ref());
    let setup = Setup { plan, work, place: &place, program, method, block_bytes, buffers_bytes, metrics };
    let (mut done, of_regimes): (Vec<_>, Vec<_>) = done.into_iter().partition(|run| run.regime.is_none());
    let found = load_search::find(&setup, &mut placed(&prepared.measured, &mut places), &done, progress)?;
    let arms = found.apply(&prepared.measured);
    let mut own = placed(&arms, &mut places);
    let sequence = regimes::first_sequence(plan, &order, &prospects, &estimate);
    let left_out = runs::run_all(&setup, &mut own, &sequence, (journal, &mut done), &mut estimate, progress)?;
    let after = regimes::time(&prospects, &estimate);
    let held = held_out::measure(&setup, &mut own, (done.len(), after), &estimate, progress)?;
    drop(own);
    let shared = Shared { setup: &setup, arms: &arms, own: &done, before: of_regimes, sequence: order.len() + 1 };
    let carried = regimes::carry_out(shared, prospects, &mut places, journal, &estimate, progress)?;
    places.into_iter().try_for_each(Placement::remove)?;
    let order = order.get(..done.len()).unwrap_or(&order);
    let record = conclude::plan_record(plan, order, &arms, &loaded, method);
    let notes = notes::notes(plan, &record, [found.notes, notes::of_paths(prepared)].concat(), (before, left_out));
    let common = Common {
        database: plan.database,
        past_page_cache: false,
        block_bytes: loaded.block_bytes,
        cpu_count: environment.cpu_count,
        database_bytes: loaded.database_bytes,
        buffers_bytes: loaded.buffers_bytes,
        page_cache_bytes: plan.page_cache_bytes,
    };
    let paths = conclude::results_by_arm(plan, &arms, &prepared.skipped, &done, common);
    let times = (started_utc, progress.elapsed());
    let mut comparison = conclude(paths, record, environment, notes, &plan.share_gates, times);
    comparison.tunings = conclude::tunings_record(plan);
    comparison.curve = found.curve;
    comparison.predictions = held_out::predictions(&comparison, held, common);
    if let Some(ladder) = &plan.ladder {
        comparison.ladder = ladder::record(ladder, &comparison.paths);
    }
    comparison.stands_for.clone_from(&plan.stands_for);
    comparison.roles.clone_from(&plan.roles);
    comparison.regimes = carried.into_iter().map(|one| one.record(plan, &loaded, method, common)).collect();
    (comparison.rehearsal, comparison.rehearsal_note) = notes::rehearsal(prepared);
    Ok(comparison)
}
