//! From the measurements of one arm to a system of the model.

use std::collections::BTreeMap;

use results::compare::{Comparison, PathResult, PathStatus, Run};

use super::model::{Storage, System};
use crate::error::LabError;

/// Steps of the search for the time that closes the round: each halves the bracket.
const STEPS: u32 = 50;

/// A system with what it was fitted on.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Unique name of the arm.
    pub arm: String,
    /// Its users.
    pub users: u32,
    /// Orders per minute it did.
    pub oets_per_minute: f64,
    /// The system.
    pub system: System,
    /// What was taken from where, one line each.
    pub steps: Vec<String>,
    /// How far the fitted system is from the run it comes from, percent; above 0 when it promises more.
    pub residual_percent: f64,
}

/// Fits a system to one measured arm of a comparison.
///
/// # Errors
/// When the arm was not measured, its load was no closed loop, or its record lacks what is needed.
pub fn fit(comparison: &Comparison, arm: &PathResult) -> Result<Fit, LabError> {
    let lacking = |what: &str| LabError::Plan {
        what: format!("fit a model to {}: {what}", arm.arm),
        hint: "a closed loop that was measured by this version can be fitted; name another arm with --arm".to_owned(),
    };
    if arm.status == PathStatus::Skipped || arm.runs.is_empty() {
        return Err(lacking("it was not measured"));
    }
    let Some(loads) = arm.runs.iter().map(|run| run.load.as_ref()).collect::<Option<Vec<_>>>() else {
        return Err(lacking("its record does not tell the load"));
    };
    if loads.iter().any(|load| load.model != "closed") {
        return Err(lacking("its load was no closed loop"));
    }
    let users = loads.first().map_or(0, |load| load.users);
    let seconds: f64 = arm.runs.iter().map(|run| run.measured_s).sum();
    let orders: f64 = arm.runs.iter().map(|run| run.orders as f64).sum();
    if users == 0 || orders <= 0.0 || seconds <= 0.0 {
        return Err(lacking("it did no orders"));
    }
    Ok(fit_figures(comparison, arm, users, orders, seconds))
}

fn fit_figures(comparison: &Comparison, arm: &PathResult, users: u32, orders: f64, seconds: f64) -> Fit {
    let cores = comparison.environment.cpu_count.max(1) as f64;
    let sum = |pick: &dyn Fn(&Run) -> f64| arm.runs.iter().map(pick).sum::<f64>();
    let cpu_s = sum(&|run| run.cpu.values().map(results::compare::CpuTime::total_s).sum()) / orders;
    let reads = sum(&|run| run.database.blocks_read as f64);
    let by_database = if reads > 0.0 { sum(&|run| run.database.block_read_ms) / 1e3 / reads } else { 0.0 };
    // Our client's clock starts before a slot is free; the model has the wait for one apart.
    let waited = arm.slot_use.as_ref().filter(|slots| slots.calls > 0).map_or(0.0, |slots| slots.wait_s / slots.calls as f64);
    let by_client = arm.read_latency.as_ref().and_then(results::judgement::ReadLatency::mean_us);
    let by_client = by_client.map(|us| (us / 1e6 - waited).max(0.0));
    let slots = slots(comparison, arm);
    let syncs = sum(&|run| run.database.log_syncs as f64);
    let flush_s = if syncs > 0.0 { sum(&|run| run.database.log_sync_ms) / 1e3 / syncs } else { 0.0 };
    // Only writers wait for the log: New-Order, Payment and Delivery, 92 of 100 transactions of the mix.
    let commits = sum(&|run| run.load.as_ref().map_or(0.0, |load| load.transactions as f64)) * 0.92 / orders;
    let lock_share = arm.runs.iter().map(lock_share).sum::<f64>() / arm.runs.len() as f64;
    let mut system = System {
        cores,
        cpu_s,
        reads: reads / orders,
        storage: storage(arm, by_client.unwrap_or(by_database)),
        slots,
        commits,
        flush_s,
        other_s: 0.0,
        lock_share,
        locks_at: users,
    };
    let mut steps = vec![
        format!("{cores:.0} processors; {:.3} ms of processor time per order, of everybody on the host", cpu_s * 1e3),
        format!(
            "{:.2} reads per order of {:.0} us ({}); {}",
            system.reads,
            by_client.unwrap_or(by_database) * 1e6,
            if by_client.is_some() { "our client's clock" } else { "the database's clock" },
            slots.map_or_else(|| "no bound on reads in flight".to_owned(), |slots| format!("{slots} slots"))
        ),
        format!("{commits:.2} commits per order that wait for a flush of {:.3} ms", flush_s * 1e3),
        format!("{:.1} % of the users' time in locks", lock_share * 100.0),
    ];
    let measured = orders / seconds * 60.0;
    steps.push(close(&mut system, users, measured));
    let residual_percent = (system.predict(users).oets_per_minute / measured - 1.0) * 100.0;
    Fit { arm: arm.arm.clone(), users, oets_per_minute: measured, system, steps, residual_percent }
}

/// Makes the system meet the run it was fitted on. What the measured round is longer than the model's is a time of its
/// own. When the model's is longer, times overlap or contain each other: a read's or a flush's time holds waiting for
/// a processor that the processors' station counts too, so these shrink; what then still is too much is processor
/// time that ran beside the users' (checkpointer, writers).
fn close(system: &mut System, users: u32, measured: f64) -> String {
    let predicted = |system: &System| system.predict(users).oets_per_minute;
    if predicted(system) >= measured {
        let longest = f64::from(users) / (measured / 60.0);
        let found = bisect(0.0, longest, |other_s| predicted(&System { other_s, ..system.clone() }) < measured);
        system.other_s = found;
        return format!("{:.3} ms per order are not explained by these and stand for themselves", found * 1e3);
    }
    let shrunk = |part: f64| System { storage: scaled(system.storage, part), flush_s: system.flush_s * part, ..system.clone() };
    if predicted(&shrunk(0.0)) >= measured {
        let part = bisect(0.0, 1.0, |part| predicted(&shrunk(part)) < measured);
        *system = shrunk(part);
        return format!(
            "read and flush times shrunk to {:.0} %: the rest of them is waiting for a processor, which is counted there",
            part * 100.0
        );
    }
    let eased = |part: f64| System { cpu_s: system.cpu_s * part, ..shrunk(0.0) };
    let part = bisect(0.0, 1.0, |part| predicted(&eased(part)) < measured);
    *system = eased(part);
    format!("processor time shrunk to {:.0} %: the rest runs beside the users", part * 100.0)
}

/// The place between `low` and `high` at which `beyond` turns true.
fn bisect(mut low: f64, mut high: f64, beyond: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if beyond(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

fn scaled(storage: Storage, part: f64) -> Storage {
    match storage {
        Storage::Latency { seconds } => Storage::Latency { seconds: seconds * part },
        Storage::Spindles { count, service_s, overhead_s, cache_hit } => {
            Storage::Spindles { count, service_s, overhead_s: overhead_s * part, cache_hit }
        }
    }
}

/// What the reads stand on. A modelled medium of spindles with a queue each is known to bound; the part of the latency
/// that its own time does not explain is overhead. All other storage is a time, as nothing shows its bound.
fn storage(arm: &PathResult, seconds: f64) -> Storage {
    let latency = Storage::Latency { seconds };
    let Some(profile) = arm.medium.as_deref().and_then(|text| media::Profile::parse(text).ok()) else { return latency };
    let service_s = profile.service.mean_ms() / 1e3;
    if profile.placement != media::Placement::Striped || service_s <= 0.0 {
        return latency;
    }
    let in_flight = arm.io.as_ref().map_or(0.0, |io| io.in_flight_mean);
    // Each read finds the others spread over the spindles.
    let queued = service_s * (1.0 - profile.cache_hit) * (1.0 + (in_flight - 1.0).max(0.0) / profile.spindles.max(1) as f64);
    Storage::Spindles {
        count: profile.spindles,
        service_s,
        overhead_s: (seconds - queued).max(0.0),
        cache_hit: profile.cache_hit,
    }
}

/// Slots of the arm: as our client says, else as its tuning sets them.
pub(crate) fn slots(comparison: &Comparison, arm: &PathResult) -> Option<u32> {
    let said = arm.slot_use.as_ref().map(|slots| slots.slots).filter(|slots| *slots > 0);
    let tuned = |tunings: &BTreeMap<String, String>| tunings.get("dnfs.slots")?.parse().ok();
    said.or_else(|| comparison.tunings.get(&arm.tuning).and_then(tuned))
}

fn lock_share(run: &Run) -> f64 {
    run.waits.iter().filter(|(event, _)| event.starts_with("Lock:")).map(|(_, part)| part).sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use results::compare::{CpuTime, DatabaseCounters, RunLoad};

    use super::*;

    /// An arm whose run says what `system` does with `users`, as a real run would be recorded.
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
            load: Some(RunLoad { model: "closed".into(), users, connections: users, transactions, ..RunLoad::default() }),
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
            slots: None,
            commits: 0.92 / 0.45,
            flush_s: 0.003,
            other_s: 0.005,
            lock_share: 0.05,
            locks_at: 8,
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
        // The database's clock runs while the backend waits for its turn on a processor.
        busy.runs[0].database.block_read_ms *= 4.0;
        let fitted = fit(&comparison(), &busy).unwrap();
        assert!(fitted.residual_percent.abs() < 1.0, "{fitted:?}");
        let (wanted, found) = (truth.predict(4).oets_per_minute, fitted.system.predict(4).oets_per_minute);
        assert!((found / wanted - 1.0).abs() < 0.1, "{found} instead of {wanted}: {fitted:?}");
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
