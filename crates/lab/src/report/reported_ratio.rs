//! Two paths that a published report compared, if nothing else differs, beside the ratio of the report.

use results::compare::{Comparison, PathResult, PathStatus};

use crate::paths;
use crate::paths::storage_path::Reported;
use crate::report::words;

/// Busy share of the processors above which a ratio may be a ratio of processors.
const BUSY_MAX: f64 = 0.6;

/// A sentence for each pair of configurations that differ only in the path: ratio of the orders, and the cost of an order with each.
pub(crate) fn lines(comparison: &Comparison) -> Vec<String> {
    let of = |name: &'static str| {
        let measured = |path: &&PathResult| path.status == PathStatus::Measured && path.target.is_none();
        comparison.paths.iter().filter(measured).filter(move |path| path.name == name)
    };
    let mut lines = Vec::new();
    for (path, reported) in paths::ALL.iter().filter_map(|path| Some((path, path.reported_against()?))) {
        for other in of(reported.against) {
            lines.extend(of(path.name()).filter(|one| alike(other, one)).filter_map(|one| line(one, other, reported)));
        }
    }
    lines
}

/// Whether two configurations differ only in the path.
fn alike(one: &PathResult, other: &PathResult) -> bool {
    one.tuning == other.tuning
        && one.medium == other.medium
        && one.layout_name == other.layout_name
        && one.load_level == other.load_level
        && one.label == other.label
}

fn line(one: &PathResult, other: &PathResult, reported: Reported) -> Option<String> {
    let oets = |path: &PathResult| path.oets_per_minute.as_ref().map(|oets| oets.mean).filter(|mean| *mean > 0.0);
    let ratio = oets(one)? / oets(other)?;
    let both = |figure: fn(&PathResult) -> Option<f64>, digits: usize| match (figure(one), figure(other)) {
        (Some(one), Some(other)) => format!("{one:.digits$} against {other:.digits$}"),
        _ => "not counted".to_owned(),
    };
    let busy = |path: &PathResult| path.cpu.as_ref().map_or(0.0, |cpu| cpu.host_busy_share);
    let limit = if busy(one).max(busy(other)) > BUSY_MAX { ", so the ratio may be theirs" } else { "" };
    Some(format!(
        "{} does {ratio:.2} times the orders of {} ({} in {}); for an order {} RPCs, {} KB on the wire, {} context \
         switches of the whole host; {}; processors {:.0} % busy against {:.0} %{limit}",
        words::name(one),
        words::name(other),
        reported.orders_ratio,
        reported.source,
        both(calls_per_order, 1),
        both(|path| path.wire_bytes_per_order.map(|bytes| bytes / 1e3), 0),
        both(|path| path.context_switches_per_order.get("host").copied(), 0),
        slots(one, other),
        busy(one) * 100.0,
        busy(other) * 100.0,
    ))
}

/// Calls per order, counted by the filer in the same way for both.
fn calls_per_order(path: &PathResult) -> Option<f64> {
    let calls: u64 = path.runs.iter().flat_map(|run| run.filer.values()).map(|count| count.calls).sum();
    let orders: u64 = path.runs.iter().map(|run| run.orders).sum();
    (orders > 0 && calls > 0).then(|| calls as f64 / orders as f64)
}

fn slots(one: &PathResult, other: &PathResult) -> String {
    let of = |path: &PathResult| {
        let bounded = path.slot_use.as_ref().filter(|slots| slots.slots > 0);
        bounded.map_or_else(|| "no bound".to_owned(), |slots| format!("{:.1} of {}", slots.mean, slots.slots))
    };
    format!("calls under way {} against {}", of(one), of(other))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use results::compare::{Cpu, ProcedureCount, Run};
    use results::judgement::SlotUse;
    use results::statistics::MeanInterval;

    use super::*;

    fn arm(name: &str, tuning: &str, oets: f64, calls: u64) -> PathResult {
        let count = ProcedureCount { calls, bytes: 0 };
        let run = Run { orders: 10, filer: BTreeMap::from([("READ".to_owned(), count)]), ..Run::default() };
        PathResult {
            name: name.into(),
            arm: format!("{name} {tuning}"),
            tuning: tuning.into(),
            status: PathStatus::Measured,
            oets_per_minute: MeanInterval::of(&[oets]),
            wire_bytes_per_order: Some(239_000.0),
            context_switches_per_order: BTreeMap::from([("host".to_owned(), 97.0)]),
            slot_use: Some(SlotUse { slots: 16, mean: 15.5, ..SlotUse::default() }),
            cpu: Some(Cpu { host_busy_share: 0.5, ..Cpu::default() }),
            runs: vec![run],
            ..PathResult::default()
        }
    }

    #[test]
    fn arms_that_differ_by_the_client_alone_are_held_against_each_other_with_the_costs_of_an_order() {
        let paths = vec![arm("knfs", "few", 100.0, 205), arm("knfs", "many", 200.0, 200), arm("dnfs", "few", 110.0, 204)];
        let found = lines(&Comparison { paths, ..Comparison::default() });
        let words = "dnfs few does 1.10 times the orders of knfs few (1.264 in TR-3700, figure 9); for an order 20.4 against 20.5 RPCs, \
                     239 against 239 KB on the wire, 97 against 97 context switches of the whole host; calls under way 15.5 of 16 against \
                     15.5 of 16; processors 50 % busy against 50 %";
        assert_eq!(found, [words]);
    }

    #[test]
    fn a_ratio_that_the_processors_may_have_made_says_so_and_an_arm_that_is_not_valid_has_none() {
        let mut paths = vec![arm("knfs", "few", 100.0, 1), arm("dnfs", "few", 110.0, 1)];
        paths[0].cpu.as_mut().unwrap().host_busy_share = 0.7;
        paths[1].slot_use = None;
        let found = lines(&Comparison { paths: paths.clone(), ..Comparison::default() });
        assert!(
            found[0].ends_with("no bound against 15.5 of 16; processors 50 % busy against 70 %, so the ratio may be theirs"),
            "{found:?}"
        );
        paths[0].status = PathStatus::NotValid;
        assert!(lines(&Comparison { paths, ..Comparison::default() }).is_empty());
    }
}
