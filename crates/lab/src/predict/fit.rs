//! Fits a system of the model to the measurements of one configuration.

use std::collections::BTreeMap;

use results::compare::{CachingClass, Comparison, Filling, LoadModel, PathResult, PathStatus, Run};

use super::cache::{Cache, ColdStart, Done, Observed};
use super::calibrate::calibrate;
use super::locks::Locks;
use super::model::{SpindleWrites, Storage, System};
use super::steady::FLUSH_CALLS;
use crate::database::kind::DatabaseKind;
use crate::database::system::Modelled;
use crate::error::LabError;
use crate::paths;

/// Iterations that remove, from the times of reads and flushes, the waiting for processors that the fitted system predicts.
const STRETCH_ROUNDS: u32 = 10;
/// Largest allowed deviation of a fit from its own run, in percent. Above it, the run's counts contradict each other: the fit then uses
/// the reads as measured instead of those from initially empty buffers. If that deviates as much, no prediction from it is reliable.
pub(super) const RESIDUAL_MAX: f64 = 15.0;
/// Share of the transactions that wait for the log: New-Order, Payment and Delivery, 92 of 100 of the mix.
const WRITERS: f64 = 0.92;
/// Upper limit of [`gathered`]: a delay before flushes (`commit_delay`) coalesces more commits than arrive during one flush.
const GATHERED_MAX: f64 = 4.0;
/// A block of the database in mebibytes: the size of one read.
const BLOCK_MIB: f64 = 8.0 / 1024.0;

/// A system, and the measurement that it was fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Unique name of the configuration.
    pub arm: String,
    /// Its users.
    pub users: u32,
    /// Its measured orders per minute.
    pub oets_per_minute: f64,
    /// The system.
    pub system: System,
    /// Source of each fitted value, one line each.
    pub steps: Vec<String>,
    /// Deviation of the fitted system from its own run, percent; above 0 if it predicts more.
    pub residual_percent: f64,
}

/// Fits a system to one measured configuration of a comparison.
///
/// # Errors
/// The configuration was not measured, its load was not a closed loop, or its record lacks a value that the fit needs.
pub fn fit(comparison: &Comparison, arm: &PathResult) -> Result<Fit, LabError> {
    let lacking = |what: &str| LabError::Plan {
        what: format!("fit a model to {}: {what}", arm.arm),
        hint: "a closed loop that was measured by this version can be fitted; name another configuration with --configuration"
            .to_owned(),
    };
    if arm.status == PathStatus::Skipped || arm.runs.is_empty() {
        return Err(lacking("it was not measured"));
    }
    let Some(loads) = arm.runs.iter().map(|run| run.load.as_ref()).collect::<Option<Vec<_>>>() else {
        return Err(lacking("its record does not contain the load"));
    };
    if loads.iter().any(|load| load.model != LoadModel::Closed) {
        return Err(lacking("its load was no closed loop"));
    }
    let users = loads.first().map_or(0, |load| load.users);
    let seconds: f64 = arm.runs.iter().map(|run| run.measured_s).sum();
    let orders: f64 = arm.runs.iter().map(|run| run.orders as f64).sum();
    if users == 0 || orders <= 0.0 || seconds <= 0.0 {
        return Err(lacking("it did no orders"));
    }
    Ok(fit_figures(comparison, arm, &Sums { runs: &arm.runs, users, orders, seconds }))
}

/// All runs of the configuration together.
struct Sums<'a> {
    runs: &'a [Run],
    users: u32,
    orders: f64,
    seconds: f64,
}

impl Sums<'_> {
    fn of(&self, pick: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(pick).sum()
    }

    /// Mean, in seconds, of the times in microseconds that a modelled medium counted.
    fn medium_s(
        &self,
        count: impl Fn(&results::compare::MediumCounts) -> f64,
        us: impl Fn(&results::compare::MediumCounts) -> f64,
    ) -> f64 {
        let all = self.of(|run| run.medium.as_ref().map_or(0.0, &count));
        over(self.of(|run| run.medium.as_ref().map_or(0.0, |medium| count(medium) * us(medium))), all) / 1e6
    }
}

fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn fit_figures(comparison: &Comparison, arm: &PathResult, sums: &Sums<'_>) -> Fit {
    let (orders, users) = (sums.orders, sums.users);
    let (mut system, by_client) = measured(comparison, arm, sums);
    let (read, flush) = (read_times(arm, sums, by_client), flush_times(arm, sums));
    // The rate that reports show. Samples of counters are taken around the driver's interval, so they cover more seconds.
    let oets_per_minute = arm.oets_per_minute.as_ref().map_or(orders / sums.seconds * 60.0, |rate| rate.mean);
    // A measured read or flush includes waiting for a processor. The fitted system itself predicts how much.
    let (mut stretch, mut closing) = (1.0, String::new());
    let bare = system.clone();
    for _ in 0..STRETCH_ROUNDS {
        system = System {
            read_path_s: read.path_s / stretch,
            flush_path_s: flush.path_s / stretch,
            write_path_s: bare.write_path_s / stretch,
            held_path_s: bare.held_path_s / stretch,
            ..bare.clone()
        };
        let calls = FLUSH_CALLS * sums.of(|run| run.database.log_syncs as f64) / orders;
        let on_the_way = system.reads * system.read_path_s + calls * system.flush_path_s + system.writes * system.write_path_s;
        system.beside = over(on_the_way, system.cpu_s).min(1.0);
        closing = calibrate(&mut system, users, oets_per_minute, read.path_s > 0.0);
        stretch = f64::midpoint(stretch, system.steady(users, system.reads, system.writes).stretch);
    }
    // Other programs that kept the host busy during the measurement are not part of the system.
    system.taken = 0.0;
    system.cold_start = cold_start(comparison, arm, sums);
    let residual = |system: &System| (system.predict(users).oets_per_minute / oets_per_minute - 1.0) * 100.0;
    if residual(&system).abs() > RESIDUAL_MAX {
        system.cold_start = None;
    }
    let steps = words(&system, closing, read.all_s, by_client.is_some());
    let residual_percent = residual(&system);
    Fit { arm: arm.arm.clone(), users, oets_per_minute, system, steps, residual_percent }
}

/// The values that the record contains directly; the second value is the mean time of a read by the NFS client's clock, if it has one.
fn measured(comparison: &Comparison, arm: &PathResult, sums: &Sums<'_>) -> (System, Option<f64>) {
    let (orders, users) = (sums.orders, sums.users);
    let reads = sums.of(|run| run.database.blocks_read as f64);
    // The client's clock starts before a slot is free, but the model treats the wait for a slot separately.
    let by_client = arm.read_latency.as_ref().and_then(results::judgement::ReadLatency::mean_us);
    let by_client = by_client.map(|us| (us / 1e6 - slot_wait_s(arm)).max(0.0));
    let flush = flush_times(arm, sums);
    let held = arm.slot_use.as_ref().map_or(0.0, |slots| slots.mean * sums.seconds);
    let calls = |run: &Run, read: bool| -> f64 {
        run.filer.iter().filter(|(name, _)| !read || *name == "READ").map(|(_, count)| count.calls as f64).sum()
    };
    let filer_s = sums.of(|run| run.cpu.get("filer").map_or(0.0, results::compare::CpuTime::total_s));
    let reading = over(sums.of(|run| calls(run, true)), sums.of(|run| calls(run, false)));
    let rows = sums.runs.iter().filter_map(|run| run.load.as_ref()).map(|load| load.active_warehouses).max().unwrap_or(0);
    let rows = if rows > 0 { rows } else { comparison.plan.warehouses };
    let held_s = (held - reads * by_client.unwrap_or(0.0)).max(0.0) / orders;
    let flushing_s = sums.of(|run| run.database.log_syncs as f64) / orders * (flush.all_s - flush.path_s);
    let cores = comparison.environment.cpu_count.max(1) as f64;
    let (writes, write_path_s) = session_writes(arm, sums);
    let system = System {
        cores,
        cpu_s: sums.of(|run| run.cpu.values().map(results::compare::CpuTime::total_s).sum()) / orders,
        taken: arm.cpu.as_ref().map_or(0.0, |cpu| cpu.foreign_share() * cores),
        cpu_per_read_s: over(filer_s * reading, reads),
        reads: reads / orders,
        storage: storage(arm, sums, by_client),
        spindle_writes: spindle_writes(arm, sums),
        slots: slots(comparison, arm),
        held_s: held_s.min(flushing_s),
        held_path_s: (held_s - flushing_s).max(0.0),
        commits: commits(sums),
        flush_s: flush.all_s - flush.path_s,
        writes,
        write_path_s,
        locks: Locks::fit(sums.of(|run| wait_share(run, Modelled::Lock)) / sums.runs.len() as f64, users, rows),
        ..System::default()
    };
    (system, by_client)
}

/// A time, and its part that needs processors of this host or waits for them.
struct Times {
    all_s: f64,
    path_s: f64,
}

fn read_s(sums: &Sums<'_>, by_client: Option<f64>) -> f64 {
    by_client
        .unwrap_or_else(|| over(sums.of(|run| run.database.block_read_ms) / 1e3, sums.of(|run| run.database.blocks_read as f64)))
}

/// A medium counts its own part of a read, and a read from a page cache is processor time; otherwise the parts are unknown.
fn read_times(arm: &PathResult, sums: &Sums<'_>, by_client: Option<f64>) -> Times {
    let all_s = read_s(sums, by_client);
    let medium_s = sums.medium_s(|medium| medium.reads as f64, |medium| medium.read_us);
    let path_s = match (arm.target.is_none(), medium_s > 0.0, &arm.caching_class) {
        (true, true, _) => (all_s - medium_s).max(0.0),
        (true, false, Some(CachingClass::Cached)) => all_s,
        _ => 0.0,
    };
    Times { all_s, path_s }
}

fn flush_times(arm: &PathResult, sums: &Sums<'_>) -> Times {
    let all_s = over(sums.of(|run| run.database.log_sync_ms) / 1e3, sums.of(|run| run.database.log_syncs as f64));
    let all_s = (all_s - slot_wait_s(arm)).max(0.0);
    let medium_s = sums.medium_s(|medium| medium.flushes as f64, |medium| medium.flush_us);
    if arm.target.is_some() || medium_s <= 0.0 {
        return Times { all_s, path_s: 0.0 };
    }
    let Some(spindles) = queueing_writes(arm) else { return Times { all_s, path_s: (all_s - medium_s).max(0.0) } };
    // The write of the log is on the spindles before it is acknowledged, whichever call requests it. So the wait of a commit is the
    // sampled wait of the sessions; the database's clock covers only the last call.
    let medium_s = spindles.overhead_s + spindles.log_s;
    let queued_s =
        (sums.medium_s(|medium| medium.reads as f64, |medium| medium.read_us) - spindles.overhead_s - spindles.read_s).max(0.0);
    let path_s = (logged_s(sums) - slot_wait_s(arm) * FLUSH_CALLS - medium_s - queued_s).max(0.0) / FLUSH_CALLS;
    Times { all_s: medium_s + path_s, path_s }
}

/// Time of one flush, from the sessions that waited for the log in the samples. A commit that arrives during a flush waits for the
/// next one: a single session waits for one flush, many sessions for one and a half on average.
fn logged_s(sums: &Sums<'_>) -> f64 {
    let share = |run: &Run| -> f64 { wait_share(run, Modelled::LogFlush) * run.measured_s };
    let users_s = sums.of(share) * f64::from(sums.users);
    let present = users_s / sums.seconds;
    over(users_s, sums.orders * commits(sums)) / (1.5 - 0.5 / present.max(1.0))
}

/// Commits per order that wait for the log.
fn commits(sums: &Sums<'_>) -> f64 {
    sums.of(|run| run.load.as_ref().map_or(0.0, |load| load.transactions as f64)) * WRITERS / sums.orders
}

/// Time of a spindle for one block read or one flush of the log, and the medium's other time. Seconds.
struct SpindleTimes {
    read_s: f64,
    log_s: f64,
    overhead_s: f64,
}

/// The times of a modelled medium on which writes queue with the reads: spindles without a memory that acknowledges writes early.
fn queueing_writes(arm: &PathResult) -> Option<SpindleTimes> {
    let profile = arm.medium.as_deref().and_then(|text| media::Profile::parse(text).ok())?;
    let read_s = read_work_s(&profile);
    if profile.placement != media::Placement::Striped || profile.nvram.is_some() || read_s <= 0.0 || arm.target.is_some() {
        return None;
    }
    // A log write continues where the last one ended unless there was other work in between. There was, so it costs the same as a
    // read.
    Some(SpindleTimes { read_s, log_s: read_s, overhead_s: profile.overhead_ms / 1e3 })
}

/// Time of a spindle for one block at a random position.
fn read_work_s(profile: &media::Profile) -> f64 {
    let moving_s = if profile.bandwidth_mib_s > 0.0 { BLOCK_MIB / profile.bandwidth_mib_s } else { 0.0 };
    profile.service.mean_ms() / 1e3 + moving_s
}

/// Commits that the next flush includes, divided by those that arrive during one flush: the value that gives the measured number
/// of flushes.
fn gathered(sums: &Sums<'_>) -> f64 {
    let users = f64::from(sums.users);
    let commits_per_s = commits(sums) * sums.orders / sums.seconds;
    let flushes_per_s = sums.of(|run| run.database.log_syncs as f64) / sums.seconds;
    let others = (users - 1.0) / users * commits_per_s * logged_s(sums);
    if others <= 0.0 || flushes_per_s <= 0.0 {
        return 1.0;
    }
    ((commits_per_s / flushes_per_s - 1.0) / others).clamp(0.0, GATHERED_MAX)
}

/// Work of the medium's spindles other than reads, by purpose.
fn spindle_writes(arm: &PathResult, sums: &Sums<'_>) -> SpindleWrites {
    let Some(times) = queueing_writes(arm) else { return SpindleWrites::default() };
    let orders = sums.orders;
    let busy_s = sums.of(|run| run.medium.as_ref().map_or(0.0, |medium| medium.busy_s)) / orders;
    let missed = |medium: &results::compare::MediumCounts| medium.reads.saturating_sub(medium.cache_hits) as f64;
    let reading_s = sums.of(|run| run.medium.as_ref().map_or(0.0, missed)) / orders * times.read_s;
    let logging_s = sums.of(|run| run.database.log_syncs as f64) / orders * times.log_s;
    let data_s = (busy_s - reading_s - logging_s).max(0.0);
    let written = sums.of(|run| run.database.blocks_written as f64);
    let extended = sums.of(|run| run.database.blocks_extended as f64);
    let evicting_s = data_s * over(written, written + extended);
    SpindleWrites { extending_s: data_s - evicting_s, evicting_s, log_s: times.log_s, log_waits: 1.0, gathered: gathered(sums) }
}

/// Blocks that sessions write themselves per order, and the time of one: the sampled time of writing, divided by the time of a
/// flush's call if that is known, else by all blocks written.
fn session_writes(arm: &PathResult, sums: &Sums<'_>) -> (f64, f64) {
    let seen = |run: &Run| run.waits.get("IO:DataFileWrite").copied().unwrap_or(0.0) * run.measured_s;
    let writing_s = sums.of(seen) * f64::from(sums.users) / sums.orders;
    let written = sums.of(|run| run.database.blocks_written as f64) / sums.orders;
    let (way_s, wait_s) = (flush_times(arm, sums).path_s, slot_wait_s(arm));
    let writes = if way_s > 0.0 { (writing_s / (way_s + wait_s)).min(written) } else { written };
    if writes > 0.0 { (writes, (writing_s / writes - wait_s).max(0.0)) } else { (0.0, 0.0) }
}

/// Mean wait of a call for a slot.
fn slot_wait_s(arm: &PathResult) -> f64 {
    arm.slot_use.as_ref().filter(|slots| slots.calls > 0).map_or(0.0, |slots| slots.wait_s / slots.calls as f64)
}

/// The storage that serves reads. A modelled medium of spindles with one queue each has a known limit; all other storage is a
/// fixed time, because its limit is unknown.
fn storage(arm: &PathResult, sums: &Sums<'_>, by_client: Option<f64>) -> Storage {
    let read = read_times(arm, sums, by_client);
    let seconds = read.all_s - read.path_s;
    let latency = Storage::Latency { seconds };
    let Some(profile) = arm.medium.as_deref().and_then(|text| media::Profile::parse(text).ok()) else { return latency };
    let service_s = read_work_s(&profile);
    if profile.placement != media::Placement::Striped || service_s <= 0.0 {
        return latency;
    }
    let in_flight = arm.io.as_ref().map_or(0.0, |io| io.in_flight_mean);
    // Each read finds the other ones distributed over the spindles.
    let queued = service_s * (1.0 - profile.cache_hit) * (1.0 + (in_flight - 1.0).max(0.0) / profile.spindles.max(1) as f64);
    let here = arm.target.is_none() && read.path_s > 0.0;
    let overhead_s = if here { profile.overhead_ms / 1e3 } else { (seconds - queued).max(0.0) };
    Storage::Spindles { count: profile.spindles, service_s, overhead_s, cache_hit: profile.cache_hit }
}

/// The cold start of the configuration's runs, if the record describes the time before the measured intervals.
fn cold_start(comparison: &Comparison, arm: &PathResult, sums: &Sums<'_>) -> Option<ColdStart> {
    let runs = sums.runs.len() as f64;
    let io = arm.io.as_ref()?;
    let blocks = sums.of(|run| (run.database.blocks_read + run.database.blocks_written) as f64);
    let block_bytes = over(io.bytes as f64 - sums.of(|run| run.database.log_bytes as f64), blocks);
    let reads = sums.of(|run| run.database.blocks_read as f64);
    // Reads of the warm-up: those counted on the path, else those that the proof counted outside the interval.
    let last = sums.runs.iter().map(|run| run.filling.last().map(|sample| sample.read_bytes as f64)).sum::<Option<f64>>();
    let told = || sums.of(|run| run.proof.database_read_bytes as f64) - reads * block_bytes;
    let before = Done {
        orders: sums.of(|run| run.warmup_per_second.iter().sum::<u64>() as f64) / runs,
        reads: over(last.unwrap_or_else(told), block_bytes) / runs,
    };
    // Blocks by which tables grow occupy buffers too.
    let grown = sums.of(|run| run.database.blocks_extended as f64);
    let room = over(comparison.plan.buffers_bytes as f64, block_bytes) * over(reads, reads + grown);
    let growth = over(grown / sums.orders * block_bytes, comparison.plan.database_bytes as f64);
    let measured = Done { orders: sums.orders / runs, reads: reads / runs };
    let done = |sample: &Filling| Done { orders: sample.orders as f64, reads: over(sample.read_bytes as f64, block_bytes) };
    let samples: Vec<Done> = sums.runs.iter().flat_map(|run| &run.filling).map(done).collect();
    let cache = Cache::fit(&Observed { samples: &samples, before, measured, blocks: room, growth })?;
    Some(ColdStart { cache, warmup_s: sums.of(|run| run.warmup_s) / runs, measured_s: sums.seconds / runs })
}

fn words(system: &System, closing: String, read_s: f64, by_client: bool) -> Vec<String> {
    let ms = |seconds: f64| seconds * 1e3;
    let slots = system.slots.map_or_else(|| "no limit on calls in flight".to_owned(), |slots| format!("{slots} slots"));
    let clock = if by_client { "our client's clock" } else { "the database's clock" };
    let mut steps = vec![
        format!(
            "{:.0} processors; {:.3} ms of processor time per order, of all processes on the host",
            system.cores,
            ms(system.cpu_s)
        ),
        format!("{:.2} reads per order of {:.0} us ({clock}); {slots}", system.reads, read_s * 1e6),
        format!("other calls of an order hold a slot for {:.3} ms", ms(system.held_s + system.held_path_s)),
        format!(
            "{:.2} commits per order that wait for a flush of {:.3} ms",
            system.commits,
            ms(system.flush_s + FLUSH_CALLS * system.flush_path_s)
        ),
        format!("{:.2} data blocks per order written by users", system.writes),
        format!("a user holds one of {} hot rows for {:.1} % of its time", system.locks.rows, system.locks.held * 100.0),
    ];
    steps.push(system.cold_start.as_ref().map_or_else(
        || "reads per order taken as they were: the record does not contain how the buffers filled".to_owned(),
        |cold_start| {
            format!(
                "buffers begin empty, are full after {:.0} orders, and then leave {:.2} reads per order",
                cold_start.cache.full_after,
                cold_start.cache.reads_when_full()
            )
        },
    ));
    steps.push(closing);
    steps
}

/// Slots of the configuration: as the NFS client reports, else as its tuning sets them.
pub(crate) fn slots(comparison: &Comparison, arm: &PathResult) -> Option<u32> {
    let said = arm.slot_use.as_ref().map(|slots| slots.slots).filter(|slots| *slots > 0);
    let knob = paths::slots_knob(arm);
    let tuned = |tunings: &BTreeMap<String, String>| tunings.get(knob.as_deref()?)?.parse().ok();
    said.or_else(|| comparison.tunings.get(&arm.tuning).and_then(tuned))
}

/// Share of the sessions' time in waits of a part of the model.
fn wait_share(run: &Run, of: Modelled) -> f64 {
    let is_of = |event: &str| DatabaseKind::all().any(|database| database.system().modelled(event) == Some(of));
    run.waits.iter().filter(|(event, _)| is_of(event)).map(|(_, part)| part).sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use results::compare::{CpuTime, DatabaseCounters, RunLoad};

    use super::*;

    /// A configuration whose run shows the behaviour of `system` with `users`, in the form of a real run.
    pub(crate) fn arm(name: &str, system: &System, users: u32) -> PathResult {
        let (seconds, found) = (60.0, system.predict(users));
        let orders = found.oets_per_minute;
        let Storage::Latency { seconds: read_s } = system.storage else { unreachable!("tests use a plain latency") };
        let reads = orders * system.reads;
        let waiting = (found.reads_in_flight - reads / seconds * read_s).max(0.0);
        let transactions = (orders / 0.45) as u64;
        let syncs = (orders * system.commits / 2.0) as u64;
        let run = Run {
            round: 1,
            measured_s: seconds,
            orders: orders as u64,
            oets_per_minute: orders,
            cpu: BTreeMap::from([("database".to_owned(), CpuTime { user_s: orders * system.cpu_s, sys_s: 0.0 })]),
            database: DatabaseCounters {
                blocks_read: reads as u64,
                block_read_ms: reads * read_s * 1e3 + waiting * seconds * 1e3,
                log_syncs: syncs,
                log_sync_ms: syncs as f64 * system.flush_s * 1e3,
                ..DatabaseCounters::default()
            },
            waits: BTreeMap::from([(
                "Lock:transactionid".to_owned(),
                found.shares.iter().find(|(name, _)| name == "locks").map_or(0.0, |(_, part)| *part),
            )]),
            load: Some(RunLoad {
                model: "closed".into(),
                users,
                connections: users,
                transactions,
                active_warehouses: 4,
                ..RunLoad::default()
            }),
            ..Run::default()
        };
        PathResult {
            name: "dnfs".into(),
            arm: name.into(),
            status: PathStatus::Measured,
            oets_per_minute: results::statistics::MeanInterval::of(&[orders]),
            users: Some(users),
            runs: vec![run],
            ..PathResult::default()
        }
    }

    pub(crate) fn system() -> System {
        System {
            cores: 2.0,
            cpu_s: 0.004,
            reads: 12.0,
            storage: Storage::Latency { seconds: 0.004 },
            commits: 0.92 / 0.45,
            flush_s: 0.003,
            other_s: 0.005,
            locks: Locks::fit(0.05, 8, 4),
            ..System::default()
        }
    }

    pub(crate) fn comparison() -> Comparison {
        let mut comparison = Comparison::default();
        comparison.environment.cpu_count = 2;
        comparison
    }

    #[test]
    fn a_fitted_system_meets_its_run_and_predicts_the_others() {
        let truth = system();
        let fitted = fit(&comparison(), &arm("dnfs users=8", &truth, 8)).unwrap();
        assert!(fitted.residual_percent.abs() < 0.5, "{fitted:?}");
        for users in [1, 2, 4, 16, 32, 64] {
            let (wanted, found) = (truth.predict(users).oets_per_minute, fitted.system.predict(users).oets_per_minute);
            assert!((found / wanted - 1.0).abs() < 0.02, "{users} users: {found} instead of {wanted}");
        }
    }

    #[test]
    fn reads_whose_time_holds_waiting_for_a_processor_are_shrunk() {
        let truth = System { cpu_s: 0.006, reads: 20.0, storage: Storage::Latency { seconds: 0.0002 }, flush_s: 0.0, ..system() };
        let mut busy = arm("local", &truth, 8);
        // The database's clock continues while the backend waits for a processor.
        busy.runs[0].database.block_read_ms *= 4.0;
        let fitted = fit(&comparison(), &busy).unwrap();
        assert!(fitted.residual_percent.abs() < 1.0, "{fitted:?}");
        let (wanted, found) = (truth.predict(4).oets_per_minute, fitted.system.predict(4).oets_per_minute);
        assert!((found / wanted - 1.0).abs() < 0.1, "{found} instead of {wanted}: {fitted:?}");
    }

    /// The configuration of a plausible system, with times and counts distorted like those of clocks that run while a backend waits.
    fn bent(rng: &mut sim::Rng) -> (Comparison, PathResult) {
        let mut range = |low: f64, high: f64| low * (high / low).powf(rng.below(1 << 20) as f64 / f64::from(1 << 20));
        let storage = Storage::Latency { seconds: range(1e-5, 1e-3) };
        let (cpu_s, reads) = (range(1e-3, 1e-2), range(0.1, 10.0));
        let truth = System { cpu_s, reads, storage, flush_s: range(1e-4, 4e-3), other_s: range(1e-6, 1e-3), ..system() };
        let mut arm = arm("dnfs", &truth, 8);
        let run = &mut arm.runs[0];
        run.database.block_read_ms *= range(0.3, 20.0);
        run.database.log_sync_ms *= range(0.3, 20.0);
        run.cpu.get_mut("database").unwrap().user_s *= range(0.5, 1.5);
        run.database.blocks_written = range(1.0, 1e5) as u64;
        run.database.blocks_extended = range(1.0, 1e4) as u64;
        run.waits.insert("IO:DataFileWrite".into(), range(1e-4, 0.3));
        (run.warmup_s, run.warmup_per_second) = (10.0, vec![run.orders / 80; 10]);
        run.proof.database_read_bytes = (run.database.blocks_read as f64 * 8192.0 * range(1.2, 3.0)) as u64;
        let bytes = (run.database.blocks_read + run.database.blocks_written) * 8192;
        arm.io = Some(results::compare::Io { bytes, ..results::compare::Io::default() });
        arm.caching_class = Some("cached".into());
        let mut comparison = comparison();
        (comparison.plan.buffers_bytes, comparison.plan.database_bytes) = (range(5e7, 1e9) as u64, 1_000_000_000);
        (comparison, arm)
    }

    #[test]
    fn whatever_a_record_says_its_fit_meets_it_and_half_the_users_get_something() {
        sim::sweep_slow(4, |_, mut rng| {
            let (comparison, arm) = bent(&mut rng);
            let fitted = fit(&comparison, &arm).unwrap();
            assert!(fitted.residual_percent.abs() <= RESIDUAL_MAX, "{fitted:?}");
            let half = fitted.system.predict(4).oets_per_minute / fitted.oets_per_minute;
            assert!((0.3..=1.3).contains(&half), "{half}: {fitted:?}");
        });
    }

    #[test]
    fn what_can_not_be_fitted_is_refused_with_a_reason() {
        let mut paced = arm("local", &system(), 8);
        paced.runs[0].load.as_mut().unwrap().model = "paced".into();
        for (arm, reason) in
            [(paced, "no closed loop"), (PathResult { arm: "x".into(), ..PathResult::default() }, "not measured")]
        {
            let error = fit(&comparison(), &arm).unwrap_err();
            assert!(error.to_string().contains(reason) && error.hint().is_some(), "{error}");
        }
    }
}
