//! Loads that are not given but found: searched on the arm they name before the runs begin, on one
//! restored state with short probes, and then held for every arm that asked.

use std::collections::BTreeMap;

use results::curves::CurvePoint;
use results::statistics::series_mean;

use super::Lane;
use super::conclude::Done;
use crate::compare::user_search::{self, Found, Probe};
use crate::database::counters::Looks;
use crate::error::LabError;
use crate::host::procfs;
use crate::limits::{PROBE_SECONDS, PROBE_SEQUENCE, PROBE_WARMUP_SECONDS, SEARCH_USERS_MAX};
use crate::placement::Ground;
use crate::placement::workdir;
use crate::plan::{Arm, Level};
use crate::run::driver::{Mark, Orders, RunOrder};
use crate::run::processes::Stage;
use crate::run::progress::Progress;
use crate::run::{Bench, Turn, driver_options};

/// What the searches found.
#[derive(Default)]
pub(super) struct Sought {
    /// Every load that was tried.
    pub(super) curve: Vec<CurvePoint>,
    /// How each load was found, one line each.
    pub(super) notes: Vec<String>,
    /// Users of each arm whose load was found, by the arm's name.
    users: BTreeMap<String, u32>,
}

impl Sought {
    /// The arms with the loads that were found.
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

/// Finds the loads that arms ask for; does nothing when each names its users. An arm that has `done`
/// runs already, before a crash, keeps the load they had.
pub(super) fn find(
    bench: &Bench<'_>,
    lanes: &mut [Lane<'_>],
    done: &[Done],
    progress: &mut Progress<'_>,
) -> Result<Sought, LabError> {
    let mut sought = Sought::default();
    // What was found on which arm, so that a load held for all arms is searched once.
    let mut known: BTreeMap<(String, usize), u32> = BTreeMap::new();
    for place in 0..lanes.len() {
        let Some(arm) = lanes.get(place).map(|lane| lane.arm.clone()) else { break };
        let Some((wanted, at)) = wanted(&arm, place, lanes)? else { continue };
        let before = done.iter().find(|(other, ..)| *other == place).map(|(_, _, record)| record.users);
        let users = match before.or_else(|| known.get(&(wanted.clone(), at)).copied()) {
            Some(users) => {
                known.insert((wanted, at), users);
                users
            }
            None => {
                let Some(lane) = lanes.get_mut(at) else { continue };
                let found = on_lane(bench, &arm.load.level, lane, progress)?;
                sought.notes.push(format!("load {wanted} found on {}: {}", lane.arm.id, found.reason));
                sought.curve.extend(curve(&lane.arm.id, &found));
                known.insert((wanted, at), found.users);
                found.users
            }
        };
        sought.users.insert(arm.id, users);
    }
    hold_one_sweep(&mut sought, lanes);
    Ok(sought)
}

/// What an arm wants searched, and the place of the arm where; nothing when it names its users.
fn wanted(arm: &Arm, place: usize, lanes: &[Lane<'_>]) -> Result<Option<(String, usize)>, LabError> {
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
    let named = |lane: &&Lane<'_>| lane.arm.id == *name || lane.arm.path.name() == *name;
    match lanes.iter().position(|lane| named(&lane)) {
        Some(at) => Ok(Some((wanted, at))),
        None => {
            let arms: Vec<&str> = lanes.iter().map(|lane| lane.arm.id.as_str()).collect();
            Err(LabError::plan(format!("find a load on \"{name}\""), &format!("the arms measured are {}", arms.join(", "))))
        }
    }
}

/// Arms that were swept hold the load found on the first of them, so that the runs compare.
fn hold_one_sweep(sought: &mut Sought, lanes: &[Lane<'_>]) {
    let mut first = None;
    for arm in lanes.iter().map(|lane| lane.arm).filter(|arm| arm.load.level == Level::Sweep) {
        if let Some(users) = sought.users.get_mut(&arm.id) {
            *users = *first.get_or_insert(*users);
        }
    }
}

fn on_lane(bench: &Bench<'_>, level: &Level, lane: &mut Lane<'_>, progress: &mut Progress<'_>) -> Result<Found, LabError> {
    let arm = lane.arm;
    progress.step(&format!("{}: restoring the loaded state to search the load {level}", arm.id));
    lane.ground.restore(&bench.work.path("master"), bench.method, &bench.place.user, &mut |bytes| {
        progress.bytes(bytes);
    })?;
    let mut prober = Prober::start(bench, arm, &lane.ground)?;
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
    prober.stop(&mut lane.ground)?;
    Ok(found)
}

/// One database at work on one arm, asked what different numbers of users give.
struct Prober<'a> {
    bench: &'a Bench<'a>,
    arm: &'a Arm,
    stage: Stage,
    probes: u32,
}

impl<'a> Prober<'a> {
    fn start(bench: &'a Bench<'a>, arm: &'a Arm, ground: &Ground) -> Result<Self, LabError> {
        let turn = Turn { arm, sequence: PROBE_SEQUENCE, round: 0, order: order(bench, 1, 0) };
        Ok(Self { bench, arm, stage: Stage::start(bench, turn, ground)?, probes: 0 })
    }

    /// A short run; its orders stay in the database, so that later probes meet somewhat larger tables.
    fn probe(&mut self, users: u32) -> Result<Probe, LabError> {
        let order = order(self.bench, users, self.probes);
        let (dsn, logs) = (self.bench.place.dsn(), self.bench.work.path("logs"));
        let orders = Orders { program: &self.bench.program, dsn: &dsn, logs: &logs };
        let mut driver = orders.start(order, &driver_options(self.bench.plan, self.arm), PROBE_SEQUENCE + self.probes)?;
        self.probes += 1;
        let looks = &mut Looks::default();
        self.stage.await_mark(&mut driver, Mark::Measuring, looks, &mut |_, _| Ok(()))?;
        let before = procfs::host_cpu();
        self.stage.await_mark(&mut driver, Mark::Measured, looks, &mut |_, _| Ok(()))?;
        let host = procfs::host_cpu().since(&before, self.bench.plan.keep_awake);
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

    fn stop(self, ground: &mut Ground) -> Result<(), LabError> {
        self.stage.stop()?;
        ground.clear()?;
        workdir::empty_directory(self.bench.work.runtime())
    }
}

/// A probe's order; the first one warms the database up longer.
fn order(bench: &Bench<'_>, users: u32, probes: u32) -> RunOrder {
    let plan = bench.plan;
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
