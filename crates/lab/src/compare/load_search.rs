//! Searches for loads that the plan does not give as a number: before the runs begin, on the configuration that the plan names, with
//! short probes on one restored state. All configurations that request the load then use the result.

use std::collections::BTreeMap;

use results::curves::CurvePoint;
use results::statistics::series_mean;

use crate::compare::journal::FinishedRun;
use crate::compare::measured_arm::MeasuredArm;
use crate::compare::user_search::{self, Found, Probe};
use crate::database::session::WaitSamples;
use crate::error::LabError;
use crate::host::procfs;
use crate::limits::{PROBE_SECONDS, PROBE_SEQUENCE, PROBE_WARMUP_SECONDS, SEARCH_USERS_MAX};
use crate::paths::placement::Placement;
use crate::placement::workdir;
use crate::plan::{Arm, Level};
use crate::run::driver::{Mark, Orders, RunOrder};
use crate::run::processes::RunProcesses;
use crate::run::progress::Progress;
use crate::run::setup::{Setup, Turn, driver_options};

/// Results of the searches.
#[derive(Default)]
pub(super) struct FoundLoads {
    /// Every load that was tried.
    pub(super) curve: Vec<CurvePoint>,
    /// How each load was found, one line each.
    pub(super) notes: Vec<String>,
    /// Users of each configuration whose load was searched, by the configuration's name.
    users: BTreeMap<String, u32>,
}

impl FoundLoads {
    /// The configurations with the loads that were found.
    pub(super) fn apply(&self, arms: &[Arm]) -> Vec<Arm> {
        let with = |arm: &Arm| {
            let mut arm = arm.clone();
            if let Some(users) = self.users.get(&arm.id) {
                arm.load.level = Level::Users(*users);
            }
            arm
        };
        arms.iter().map(with).collect()
    }
}

/// Searches the loads that configurations request; does nothing if each gives its users. A configuration that already has `done`
/// runs, from before a crash, keeps their load.
pub(super) fn find(
    setup: &Setup<'_>,
    arms: &mut [MeasuredArm<'_>],
    done: &[FinishedRun],
    progress: &mut Progress<'_>,
) -> Result<FoundLoads, LabError> {
    let mut found_loads = FoundLoads::default();
    // Results by configuration, so that a load for all configurations is searched once.
    let mut known: BTreeMap<(String, usize), u32> = BTreeMap::new();
    let all: Vec<&Arm> = arms.iter().map(|measured| measured.arm).collect();
    for (place, arm) in all.iter().enumerate() {
        let Some((wanted, at)) = wanted(arm, place, &all)? else { continue };
        let before = done.iter().find(|run| run.place == place).map(|run| run.record.users);
        let users = match before.or_else(|| known.get(&(wanted.clone(), at)).copied()) {
            Some(users) => {
                known.insert((wanted, at), users);
                users
            }
            None => {
                let Some(measured) = arms.get_mut(at) else { continue };
                let found = search_on(setup, &arm.load.level, measured, progress)?;
                found_loads.notes.push(format!("load {wanted} found on {}: {}", measured.arm.id, found.reason));
                found_loads.curve.extend(curve(&measured.arm.id, &found));
                known.insert((wanted, at), found.users);
                found.users
            }
        };
        found_loads.users.insert(arm.id.clone(), users);
    }
    hold_one_sweep(&mut found_loads, arms);
    Ok(found_loads)
}

/// Refuses loads that cannot be searched: those that are not closed, or on a configuration that is not measured.
pub(super) fn check(arms: &[Arm]) -> Result<(), LabError> {
    let all: Vec<&Arm> = arms.iter().collect();
    all.iter().enumerate().try_for_each(|(place, arm)| wanted(arm, place, &all).map(|_| ()))
}

/// The load that a configuration needs searched, and the index of the configuration to search on; `None` if it gives its users.
fn wanted(arm: &Arm, place: usize, arms: &[&Arm]) -> Result<Option<(String, usize)>, LabError> {
    let (wanted, at) = match &arm.load.level {
        Level::Users(_) => return Ok(None),
        Level::Saturate { at } => ("saturate".to_owned(), at),
        Level::CpuShare { percent, at } => (format!("cpu={percent}%"), at),
        Level::Sweep => ("sweep".to_owned(), &None),
    };
    if arm.load.model != "closed" {
        let hint = "a load is searched with closed users; give paced and open loads users=N";
        return Err(LabError::plan(format!("search the load \"{}\"", arm.load), hint));
    }
    let Some(name) = at else { return Ok(Some((wanted, place))) };
    match arms.iter().position(|arm| arm.id == *name || arm.path.name() == *name) {
        Some(at) => Ok(Some((wanted, at))),
        None => {
            let arms: Vec<&str> = arms.iter().map(|arm| arm.id.as_str()).collect();
            Err(LabError::unknown(format!("find a load on \"{name}\""), name, "the paths measured are", &arms))
        }
    }
}

/// All swept configurations use the load found on the first of them, so that their runs are comparable.
fn hold_one_sweep(found_loads: &mut FoundLoads, arms: &[MeasuredArm<'_>]) {
    let mut first = None;
    for arm in arms.iter().map(|measured| measured.arm).filter(|arm| arm.load.level == Level::Sweep) {
        if let Some(users) = found_loads.users.get_mut(&arm.id) {
            *users = *first.get_or_insert(*users);
        }
    }
}

fn search_on(
    setup: &Setup<'_>,
    level: &Level,
    measured: &mut MeasuredArm<'_>,
    progress: &mut Progress<'_>,
) -> Result<Found, LabError> {
    let arm = measured.arm;
    progress.step(&format!("{}: restoring the loaded state to search the load {level}", arm.id));
    measured.placement.restore(&setup.kept_state(), setup.method, &setup.place.user, &mut |bytes| {
        progress.bytes(bytes);
    })?;
    let mut prober = Prober::start(setup, arm, &*measured.placement)?;
    let measure = &mut |users: u32| {
        let probe = prober.probe(users)?;
        progress.step(&format!(
            "{}: {users} users give {:.0} orders/min, host {:.0} % busy",
            arm.id,
            probe.oets_per_minute,
            probe.host_busy_share * 100.0
        ));
        Ok(probe)
    };
    let found = match level {
        Level::CpuShare { percent, .. } => user_search::busy(percent / 100.0, SEARCH_USERS_MAX, measure)?,
        Level::Sweep => user_search::sweep(SEARCH_USERS_MAX, measure)?,
        Level::Saturate { .. } | Level::Users(_) => user_search::saturate(SEARCH_USERS_MAX, measure)?,
    };
    progress.step(&format!("{}: {}", arm.id, found.reason));
    prober.stop(&mut *measured.placement)?;
    Ok(found)
}

/// One running database of one configuration, probed with different numbers of users.
struct Prober<'a> {
    setup: &'a Setup<'a>,
    arm: &'a Arm,
    processes: RunProcesses,
    probes: u32,
}

impl<'a> Prober<'a> {
    fn start(setup: &'a Setup<'a>, arm: &'a Arm, placement: &dyn Placement) -> Result<Self, LabError> {
        let turn = Turn { arm, sequence: PROBE_SEQUENCE, round: 0, order: order(setup, 1, 0) };
        Ok(Self { setup, arm, processes: RunProcesses::start(setup, turn, placement)?, probes: 0 })
    }

    /// Runs a short probe. Its orders stay in the database, so later probes use slightly larger tables.
    fn probe(&mut self, users: u32) -> Result<Probe, LabError> {
        let order = order(self.setup, users, self.probes);
        let (dsn, logs) = (self.setup.place.dsn(), self.setup.work.path("logs"));
        let orders = Orders { program: &self.setup.program, dsn: &dsn, logs: &logs };
        let mut driver = orders.start(order, &driver_options(self.setup.plan, self.arm), PROBE_SEQUENCE + self.probes)?;
        self.probes += 1;
        let waits = &mut WaitSamples::default();
        self.processes.await_mark(&mut driver, Mark::Measuring, waits, &mut |_, _| Ok(()))?;
        let before = procfs::host_cpu();
        self.processes.await_mark(&mut driver, Mark::Measured, waits, &mut |_, _| Ok(()))?;
        let host = procfs::host_cpu().since(&before, self.setup.plan.keep_awake);
        let record = driver.finish()?;
        let seconds: Vec<f64> = record.per_second.iter().map(|orders| *orders as f64 * 60.0).collect();
        let response = &record.transactions.new_order.response_us;
        Ok(Probe {
            oets_per_minute: record.oets_per_minute,
            ci95: series_mean(&seconds).map(|mean| mean.ci95),
            host_busy_share: if host.total_s > 0.0 { host.busy_s / host.total_s } else { 0.0 },
            response_ms: [response.p50, response.p90, response.p99].map(|us| us as f64 / 1e3),
        })
    }

    fn stop(self, placement: &mut dyn Placement) -> Result<(), LabError> {
        self.processes.stop()?;
        placement.clear()?;
        workdir::empty_directory(self.setup.work.runtime())
    }
}

/// The order for a probe; the first one has a longer warm-up.
fn order(setup: &Setup<'_>, users: u32, probes: u32) -> RunOrder {
    let plan = setup.plan;
    RunOrder {
        users,
        threads: plan.threads,
        seconds: PROBE_SECONDS,
        warmup_seconds: if probes == 0 { PROBE_WARMUP_SECONDS.max(plan.warmup_seconds) } else { PROBE_WARMUP_SECONDS },
        seed: plan.seed + u64::from(PROBE_SEQUENCE + probes),
    }
}

fn curve(arm: &str, found: &Found) -> Vec<CurvePoint> {
    let point = |point: &user_search::Point| {
        let [response_p50_ms, response_p90_ms, response_p99_ms] = point.response_ms();
        CurvePoint {
            arm: arm.to_owned(),
            users: point.users,
            oets_per_minute: point.oets_per_minute(),
            ci95: point.ci95(),
            response_p50_ms,
            response_p90_ms,
            response_p99_ms,
            host_busy_share: Some(point.host_busy_share()),
            chosen: point.users == found.users,
            ..CurvePoint::default()
        }
    };
    found.points.iter().map(point).collect()
}
