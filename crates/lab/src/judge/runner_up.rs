//! Which cause comes second, and whether it is too close to the first to tell them apart.

use results::compare::{BottleneckKind, PathResult, RunnerUp, SessionState};

use super::bottleneck::{HOST_BUSY_LIMIT, WAIT_LIMIT, find, queued_share, reads};
use super::waits::Waits;
use crate::database::kind::DatabaseKind;

/// Part by which a figure may differ between two runs of the same.
const NOISE: f64 = 0.05;

/// Score of the first cause, and the second.
pub(super) fn rank(
    path: &PathResult,
    waits: Waits,
    database: DatabaseKind,
    first: &BottleneckKind,
) -> (Option<f64>, Option<RunnerUp>) {
    let scores = scores(path, waits);
    let of = |kind: &BottleneckKind| scores.iter().filter(|(other, _)| other == kind).map(|(_, score)| *score).reduce(f64::max);
    // Causes that exclude a comparison (interference, the driver) or say nothing have no score and no second.
    let Some(score) = of(first) else { return (None, None) };
    // The busy share decides whether waits are believed, so near its limit another name is as good as the one found.
    let neighbour = [1.0 - NOISE, 1.0 + NOISE].into_iter().find_map(|times| {
        let mut shifted = path.clone();
        shifted.cpu.as_mut()?.host_busy_share *= times;
        let kind = find(&shifted, waits, database).kind;
        (kind != *first).then_some(kind).filter(|kind| of(kind).is_some())
    });
    if let Some(kind) = neighbour {
        let second = of(&kind).map(|score| RunnerUp { kind, score, close: true });
        return (Some(score), second);
    }
    let second = scores.iter().filter(|(kind, score)| kind != first && *score > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    let second = second.map(|(kind, second)| {
        // Of two waits the longer is named; a busy share is of another kind and was looked at above.
        let waits = *first != BottleneckKind::HostCpu && *kind != BottleneckKind::HostCpu;
        let close = waits && score >= 1.0 && (score - second).abs() <= NOISE * (score + second);
        RunnerUp { kind: kind.clone(), score: *second, close }
    });
    (Some(score), second)
}

/// What may limit, each by its figure over the limit from which that figure names it.
fn scores(path: &PathResult, waits: Waits) -> Vec<(BottleneckKind, f64)> {
    let busy = path.cpu.as_ref().map_or(0.0, |cpu| cpu.host_busy_share) / HOST_BUSY_LIMIT;
    let queued = queued_share(&path.runs).unwrap_or(0.0) / WAIT_LIMIT;
    let waits = waits.by_state().into_iter().filter_map(|(state, part)| {
        let kind = match state {
            SessionState::BlockReads => reads(path, part).kind,
            SessionState::Log => BottleneckKind::LogFlush,
            SessionState::Locks => BottleneckKind::LockWait,
            SessionState::DataWrites => BottleneckKind::Disk,
            _ => return None,
        };
        Some((kind, part / WAIT_LIMIT))
    });
    std::iter::once((BottleneckKind::HostCpu, busy.max(queued))).chain(waits).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use results::compare::{Bottleneck, Cpu, Run, RunLoad};

    use super::*;
    use crate::report::words::bottleneck_words;

    fn judged(busy: f64, waits: &[(&str, f64)]) -> Bottleneck {
        let load = RunLoad { model: "closed".into(), users: 8, ..RunLoad::default() };
        let waits: BTreeMap<String, f64> = waits.iter().map(|(event, part)| ((*event).to_owned(), *part)).collect();
        let run = Run { measured_s: 30.0, waits, load: Some(load), ..Run::default() };
        let cpu = Cpu { host_busy_share: busy, ..Cpu::default() };
        let path = PathResult { name: "dnfs".into(), cpu: Some(cpu), runs: vec![run], ..PathResult::default() };
        super::super::bottleneck::judge(&path, DatabaseKind::Postgresql)
    }

    #[test]
    fn a_busy_share_on_either_side_of_its_limit_prints_the_same_two_names() {
        let (below, above) = (judged(0.89, &[("IO:WALSync", 0.4)]), judged(0.91, &[("IO:WALSync", 0.4)]));
        assert_eq!((below.kind.as_str(), above.kind.as_str()), ("wal_fsync", "host_cpu"));
        for found in [&below, &above] {
            assert_eq!(bottleneck_words(found), "between host CPU and log flushes", "{found:?}");
        }
        assert!((below.score.unwrap() - 1.6).abs() < 1e-9, "{below:?}");
    }

    #[test]
    fn a_cause_far_from_the_second_is_named_alone() {
        assert_eq!(bottleneck_words(&judged(0.99, &[("IO:WALSync", 0.4)])), "host CPU");
        let log = judged(0.4, &[("IO:WALSync", 0.5), ("Lock:tuple", 0.1)]);
        assert_eq!(bottleneck_words(&log), "log flushes");
        let second = log.runner_up.unwrap();
        assert!(!second.close, "{second:?}");
    }

    #[test]
    fn two_waits_of_about_the_same_time_are_both_named() {
        for (log, locks) in [(0.36, 0.35), (0.35, 0.36)] {
            let found = judged(0.4, &[("IO:WALSync", log), ("Lock:tuple", locks)]);
            assert_eq!(bottleneck_words(&found), "between lock waits and log flushes", "{found:?}");
        }
    }
}
