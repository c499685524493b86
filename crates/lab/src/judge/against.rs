//! Compares each measured configuration with the first: orders, processor time, and whether the latter may be compared.

use results::compare::{Against, Cpu, PathResult, Run};
use results::judgement::{FixedLoad, IntervalMethod, RelativeDifference};
use results::statistics::{Difference, RunValue, relative_difference};

use super::{oets, share};
use crate::paths;

/// Largest difference of the orders for a load to count as the same, in percent.
const SAME_LOAD_PERCENT: f64 = 2.0;
/// Largest difference of the I/O latencies (TR-3322 section 3: a small margin), in percent.
const SAME_LATENCY_PERCENT: f64 = 5.0;

/// Compares every measured configuration with the first measured one.
pub(super) fn against_first(paths: &[PathResult]) -> Vec<Against> {
    let mut ran = paths.iter().filter(|path| path.oets_per_minute.is_some() && path.cpu.is_some());
    let Some(first) = ran.next() else { return Vec::new() };
    ran.filter(|path| paths::never_ranked(first, path).is_none()).filter_map(|path| one(first, path)).collect()
}

/// Relative CPU cost as in TR-3408 section 8 and TR-3495 section 9: (host CPU % / OETs) x K, with K such that the
/// first path has 1. The host is the database's: the filer's share is excluded, because the storage of the reports was a
/// separate machine.
pub(super) fn relative_cpu_cost(results: &mut [PathResult]) {
    let cost = |path: &PathResult| {
        let owners = &path.cpu.as_ref()?.by_owner;
        let cost: f64 = owners.iter().filter(|(owner, _)| *owner != "filer").map(|(_, cpu)| cpu.s_per_1000_orders).sum();
        (cost > 0.0).then_some(cost)
    };
    let Some(first) = results.iter().find(|path| cost(path).is_some()).cloned() else { return };
    for path in results {
        let costs = cost(path).zip(cost(&first)).filter(|_| paths::never_ranked(&first, path).is_none());
        path.relative_cpu_cost = costs.map(|(cost, first)| cost / first);
    }
}

fn one(first: &PathResult, path: &PathResult) -> Option<Against> {
    let ratio = share(path.oets_per_minute.as_ref()?.mean, first.oets_per_minute.as_ref()?.mean);
    let orders_difference = relative_difference(&oets(first), &oets(path));
    let cpu_difference = relative_difference(&cpu_per_order(&first.runs), &cpu_per_order(&path.runs));
    let difference = orders_difference.as_ref().map_or(Difference::Unknown, |found| found.shown);
    let per_order = |cpu: Option<&Cpu>| cpu.map_or(0.0, |cpu| cpu.s_per_1000_orders);
    let text = format!("{} at {ratio:.2} x the orders of {}; {}", path.arm, first.arm, words(orders_difference.as_ref()));
    Some(Against {
        first: first.arm.clone(),
        path: path.arm.clone(),
        oets_ratio: ratio,
        cpu_ratio: share(per_order(path.cpu.as_ref()), per_order(first.cpu.as_ref())),
        difference,
        fixed_load: Some(fixed_load(first, path, ratio, orders_difference.as_ref())),
        orders_difference,
        cpu_difference,
        text,
    })
}

/// The claim that the interval of the difference allows.
fn words(difference: Option<&RelativeDifference>) -> String {
    let Some(found) = difference else { return "no orders on one side: no claim".to_owned() };
    let (Some(low), Some(high)) = (found.low_percent, found.high_percent) else {
        return "one run each: no interval, no claim".to_owned();
    };
    let manner = if found.method == IntervalMethod::Paired { "round by round" } else { "of all runs" };
    let twice = found.with_twice_the_rounds_percent;
    let twice = twice.map_or_else(String::new, |half| format!("; with twice the rounds about ±{half:.1}"));
    let interval = format!("{:+.1} % ({low:+.1} to {high:+.1}, 95 % interval {manner}{twice})", found.percent);
    match found.shown {
        Difference::Shown => format!("a difference is shown: {interval}"),
        Difference::NotShown if low > 0.0 || high < 0.0 => {
            format!(
                "no difference shown, though one is likely: {interval}, but the 99 % interval contains zero; more rounds would decide"
            )
        }
        Difference::NotShown => format!("no difference shown: {interval} contains zero"),
        Difference::Unknown => format!("no claim: {interval}"),
    }
}

/// Processor seconds per order of each run.
fn cpu_per_order(runs: &[Run]) -> Vec<RunValue> {
    let value = |run: &Run| RunValue {
        round: run.round,
        value: share(run.cpu.values().map(results::compare::CpuTime::total_s).sum(), run.orders as f64),
        standard_error: None,
    };
    runs.iter().map(value).collect()
}

/// Processor costs are comparable only if both sides did the same work and waited equally long for storage.
fn fixed_load(first: &PathResult, path: &PathResult, ratio: f64, orders: Option<&RelativeDifference>) -> FixedLoad {
    let orders_difference_percent = orders.map_or((ratio - 1.0) * 100.0, |found| found.percent);
    let latency = |path: &PathResult| path.block_read_us.as_ref().map(|read| read.mean).filter(|mean| *mean > 0.0);
    let latency_difference_percent = latency(first).zip(latency(path)).map(|(first, other)| (other / first - 1.0) * 100.0);
    let same_load = orders_difference_percent.abs() <= SAME_LOAD_PERCENT;
    let reason = match latency_difference_percent {
        _ if !same_load => format!(
            "not at a fixed load: the orders differ by {orders_difference_percent:+.1} % ({SAME_LOAD_PERCENT} allowed), so \
             processor time per order compares two different operating points"
        ),
        None => "no block reads to compare the I/O latency by".to_owned(),
        Some(difference) if difference.abs() > SAME_LATENCY_PERCENT => format!(
            "same load, but block reads take {difference:+.1} % ({SAME_LATENCY_PERCENT} allowed): a CPU comparison needs \
             equal I/O latency (TR-3322 section 3)"
        ),
        Some(difference) => format!(
            "same load ({orders_difference_percent:+.1} %) and same I/O latency ({difference:+.1} %): processor costs compare"
        ),
    };
    FixedLoad {
        valid: same_load && latency_difference_percent.is_some_and(|difference| difference.abs() <= SAME_LATENCY_PERCENT),
        orders_difference_percent,
        latency_difference_percent,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use results::compare::{BlockReadUs, CpuTime, OwnerCpu};
    use results::statistics::MeanInterval;

    use super::*;

    fn arm(name: &str, orders: [u64; 3], read_us: f64, cpu_s: f64) -> PathResult {
        let runs: Vec<Run> = (1..)
            .zip(orders)
            .map(|(round, orders)| Run {
                round,
                orders,
                oets_per_minute: orders as f64,
                cpu: BTreeMap::from([("database".to_owned(), CpuTime { user_s: cpu_s, sys_s: 0.0 })]),
                ..Run::default()
            })
            .collect();
        let owner = |cost: f64| OwnerCpu { s_per_1000_orders: cost, ..OwnerCpu::default() };
        let by_owner = BTreeMap::from([("database".to_owned(), owner(cpu_s)), ("filer".to_owned(), owner(5.0))]);
        let values: Vec<f64> = orders.iter().map(|orders| *orders as f64).collect();
        PathResult {
            arm: name.into(),
            oets_per_minute: MeanInterval::of(&values),
            block_read_us: Some(BlockReadUs { mean: read_us, ..BlockReadUs::default() }),
            cpu: Some(Cpu { by_owner, s_per_1000_orders: cpu_s, ..Cpu::default() }),
            runs,
            ..PathResult::default()
        }
    }

    #[test]
    fn fixed_load_is_valid_only_with_equal_orders_and_equal_latency() {
        let first = arm("local", [1000, 1001, 999], 100.0, 10.0);
        let same = one(&first, &arm("dnfs", [1000, 1002, 998], 104.0, 12.0)).unwrap();
        let fixed = same.fixed_load.unwrap();
        assert!(fixed.valid && fixed.reason.contains("processor costs compare"), "{fixed:?}");
        assert_eq!(same.difference, Difference::NotShown);
        assert!(same.text.contains("no difference shown"), "{}", same.text);
        assert!((same.cpu_difference.unwrap().percent - 20.0).abs() < 1.0);
        let slow = one(&first, &arm("dnfs", [1000, 1002, 998], 120.0, 12.0)).unwrap().fixed_load.unwrap();
        assert!(!slow.valid && slow.reason.contains("TR-3322"), "{slow:?}");
        let less = one(&first, &arm("dnfs", [800, 802, 798], 100.0, 12.0)).unwrap();
        assert!(!less.fixed_load.unwrap().valid);
        assert_eq!(less.difference, Difference::Shown);
    }

    #[test]
    fn relative_cpu_cost_leaves_the_filer_out_and_gives_the_first_one() {
        let mut paths = vec![PathResult::default(), arm("local", [10, 10, 10], 1.0, 10.0), arm("dnfs", [10, 10, 10], 1.0, 13.6)];
        relative_cpu_cost(&mut paths);
        assert_eq!(paths[0].relative_cpu_cost, None);
        assert!((paths[1].relative_cpu_cost.unwrap() - 1.0).abs() < 1e-9);
        assert!((paths[2].relative_cpu_cost.unwrap() - 1.36).abs() < 1e-9);
    }

    #[test]
    fn fibre_channel_over_an_emulated_wire_is_held_against_all_but_iscsi() {
        let of = |name: &str, client: &str| PathResult {
            name: name.into(),
            client: Some(client.into()),
            ..arm(name, [10, 10, 10], 1.0, 10.0)
        };
        let (iscsi, emulated) = (of("iscsi", "open-iscsi"), of("fc", "software-fcoe"));
        let device = PathResult { client: None, ..emulated.clone() };
        let against = |paths: &[PathResult]| against_first(paths).into_iter().map(|line| line.path).collect::<Vec<_>>();
        assert_eq!(against(&[iscsi.clone(), arm("knfs", [10, 10, 10], 1.0, 10.0), emulated.clone()]), ["knfs"]);
        assert_eq!(against(&[emulated.clone(), iscsi.clone()]), Vec::<String>::new());
        assert_eq!(against(&[iscsi.clone(), device]), ["fc"], "a fabric of the user's is another matter");
        let sentence = super::super::verdict::verdict(&[iscsi.clone(), emulated.clone()], &[]);
        let why = " orders per minute. Fibre Channel over an emulated wire is never ranked against iSCSI.";
        assert!(sentence.starts_with("iscsi/open-iscsi did 10") && sentence.ends_with(why), "{sentence}");
        let mut paths = [iscsi, emulated];
        relative_cpu_cost(&mut paths);
        assert_eq!((paths[0].relative_cpu_cost, paths[1].relative_cpu_cost), (Some(1.0), None));
    }
}
