//! The second cause, and whether it is too close to the first one to distinguish them.

use results::compare::{BottleneckKind, PathResult, RunnerUp};

use super::figures::{Figures, Noise};

/// Number of steps in which a figure is changed towards the result of a repeat: the cause that needs the fewest steps is the closest.
const STEPS: u32 = 8;

/// Score of the first cause, and the second one. `find` names the cause of these figures.
pub(super) fn rank(
    path: &PathResult,
    figures: &Figures,
    find: &dyn Fn(&Figures) -> BottleneckKind,
    first: &BottleneckKind,
) -> (Option<f64>, Option<RunnerUp>) {
    let scores = figures.scores();
    let of = |kind: &BottleneckKind| scores.iter().filter(|(other, _)| other == kind).map(|(_, score)| *score).reduce(f64::max);
    let runner_up = |kind: BottleneckKind, close| of(&kind).map(|score| RunnerUp { kind, score, close });
    if let Some(kind) = closest(path, figures, find, first) {
        return (of(first), runner_up(kind, true));
    }
    // Other programs on the host, or capacity for more users, are not a second cause for the limit of a run.
    let causes = scores.iter().filter(|(kind, score)| {
        kind != first && *score > 0.0 && *kind != BottleneckKind::Concurrency && *kind != BottleneckKind::Interference
    });
    let second = causes.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(kind, _)| kind.clone());
    (of(first), second.and_then(|kind| runner_up(kind, false)))
}

/// The name that a repeat may find: one figure is changed, at most by the expected difference between repeats and not more
/// than needed. Of equally close names, the one with the larger score.
fn closest(
    path: &PathResult,
    figures: &Figures,
    find: &dyn Fn(&Figures) -> BottleneckKind,
    first: &BottleneckKind,
) -> Option<BottleneckKind> {
    let noise = Noise::of(path);
    let scores = figures.scores();
    let score = |kind: &BottleneckKind| {
        let mine = scores.iter().filter(|(other, _)| other == kind).map(|(_, score)| *score);
        mine.fold(0.0, f64::max)
    };
    (1..=STEPS).find_map(|step| {
        let part = f64::from(step) / f64::from(STEPS);
        let moved = Figures::varied().flat_map(|figure| {
            let far = part * noise.of_figure(figures, &figure);
            [-far, far].map(|far| find(&figures.with(&figure, far)))
        });
        moved.filter(|kind| kind != first).max_by(|a, b| score(a).total_cmp(&score(b)).then(b.as_str().cmp(a.as_str())))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use results::compare::{Bottleneck, Cpu, MediumCounts, Run, RunLoad};

    use super::*;
    use crate::database::kind::DatabaseKind;
    use crate::report::words::bottleneck_words;

    fn judged(busy: f64, waits: &[(&str, f64)]) -> Bottleneck {
        let load = RunLoad { model: "closed".into(), users: 8, ..RunLoad::default() };
        let waits: BTreeMap<String, f64> = waits.iter().map(|(event, part)| ((*event).to_owned(), *part)).collect();
        let run = Run { measured_s: 30.0, waits, load: Some(load), ..Run::default() };
        let cpu = Cpu { host_busy_share: busy, ..Cpu::default() };
        let path = PathResult { name: "dnfs".into(), cpu: Some(cpu), runs: vec![run], ..PathResult::default() };
        super::super::bottleneck::judge(&path, DatabaseKind::default())
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

    /// Common properties of the runs of one load.
    struct Load {
        busy: f64,
        /// Time of an operation at its spindle divided by the work in it.
        queueing: f64,
        waits: &'static [(&'static str, f64)],
    }

    /// Standard deviation of one second's orders divided by their mean: assumed, like the others.
    const SECOND: f64 = 0.12;
    /// The same for a busy share over complete runs, relative to the deviation of such a share: 0.015 at 90 %; for a queue, relative to
    /// its mean.
    const BUSY: f64 = 0.05;
    const QUEUE: f64 = 0.06;
    const SECONDS: u32 = 20;
    const USERS: u32 = 8;

    /// One run of the load: each figure with the noise assumed above. Waits are sampled from the sessions.
    fn drawn(load: &Load, chance: &mut sim::Rng) -> String {
        let mut unit = || chance.below(1 << 30) as f64 / f64::from(1 << 30);
        let mut normal = || (0..12).map(|_| unit()).sum::<f64>() - 6.0;
        let per_second = (0..SECONDS).map(|_| (200.0 * (1.0 + SECOND * normal())).max(0.0) as u64).collect();
        let busy = (load.busy + BUSY * (load.busy * (1.0 - load.busy)).sqrt() * normal()).min(1.0);
        let queued_s = (load.queueing - 1.0) * (1.0 + QUEUE * normal());
        let looks = SECONDS * 4 * USERS;
        let seen =
            |part: f64, unit: &mut dyn FnMut() -> f64| (0..looks).filter(|_| unit() < part).count() as f64 / f64::from(looks);
        let waits = load.waits.iter().map(|(event, part)| ((*event).to_owned(), seen(*part, &mut unit))).collect();
        let run = Run {
            measured_s: f64::from(SECONDS),
            per_second,
            oets_per_minute: 12_000.0,
            waits,
            medium: Some(MediumCounts { busy_s: 1.0, queued_s, ..MediumCounts::default() }),
            load: Some(RunLoad { model: "closed".into(), users: USERS, connections: USERS, ..RunLoad::default() }),
            ..Run::default()
        };
        let cpu = Cpu { host_busy_share: busy, ..Cpu::default() };
        let path = PathResult { name: "dnfs".into(), cpu: Some(cpu), runs: vec![run], ..PathResult::default() };
        bottleneck_words(&super::super::bottleneck::judge(&path, DatabaseKind::default()))
    }

    /// For sets of ten runs of the load: the share in which nine have the same name, and that name.
    fn agreed(load: &Load, chance: &mut sim::Rng) -> (f64, String) {
        const SETS: u32 = 50;
        let mut names: BTreeMap<String, u32> = BTreeMap::new();
        let mut alike = 0;
        for _ in 0..SETS {
            let mut set: BTreeMap<String, u32> = BTreeMap::new();
            (0..10).for_each(|_| *set.entry(drawn(load, chance)).or_default() += 1);
            alike += u32::from(set.values().any(|count| *count >= 9));
            set.into_iter().for_each(|(name, count)| *names.entry(name).or_default() += count);
        }
        let most = names.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name).unwrap();
        (f64::from(alike) / f64::from(SETS), most)
    }

    #[test]
    fn nine_of_ten_runs_of_one_load_have_one_name() {
        const AT_90: &[(&str, f64)] = &[("IO:WALSync", 0.35), ("IO:DataFileRead", 0.10), ("Lock:tuple", 0.03)];
        const DISK: &[(&str, f64)] = &[("IO:DataFileRead", 0.60), ("IO:WALSync", 0.20), ("Lock:tuple", 0.05)];
        const EVEN: &[(&str, f64)] = &[("IO:DataFileRead", 0.36), ("IO:WALSync", 0.36)];
        let load = |busy, queueing, waits| Load { busy, queueing, waits };
        let mut chance = sim::Rng::new(22);
        for (load, name) in [
            (load(0.90, 1.2, AT_90), "between host CPU and log flushes"),
            (load(0.89, 1.2, AT_90), "between host CPU and log flushes"),
            (load(0.995, 1.2, AT_90), "host CPU"),
            (load(0.60, 3.0, DISK), "disk"),
            (load(0.60, 2.0, DISK), "between disk and limited concurrency"),
            (load(0.60, 3.0, EVEN), "between disk and log flushes"),
        ] {
            let (share, most) = agreed(&load, &mut chance);
            assert_eq!(most, name);
            println!("{name}: nine of ten agree in {share} of the sets");
            assert!(share >= 0.90, "{name}: nine of ten agree in {share} of the sets");
        }
    }

    #[test]
    fn scores_have_no_steps() {
        let of = |busy: f64, ratio: f64, reads: f64| {
            let mut path = PathResult { cpu: Some(Cpu { host_busy_share: busy, ..Cpu::default() }), ..PathResult::default() };
            let medium = MediumCounts { busy_s: 1.0, queued_s: ratio - 1.0, ..MediumCounts::default() };
            let waits = BTreeMap::from([("IO:DataFileRead".to_owned(), reads)]);
            path.runs = vec![Run { waits, medium: Some(medium), ..Run::default() }];
            Figures::of(&path).scores()
        };
        let step = 1e-4;
        for (busy, ratio, reads) in [(0.9, 3.0, 0.6), (0.5, 2.0, 0.6), (0.5, 3.0, 0.25), (0.8, 2.0, 0.25)] {
            let below = of(busy - step, ratio - step, reads - step);
            let above = of(busy + step, ratio + step, reads + step);
            for ((kind, before), (_, after)) in below.iter().zip(&above) {
                assert!((after - before).abs() < 0.01, "{kind} at {busy} {ratio} {reads}: {before} {after}");
            }
        }
    }

    /// Names of ten runs of one load, each judged alone; `busy` returns the busy share of the host.
    fn names_of(record: &str, busy: impl Fn(&Run) -> f64) -> BTreeMap<String, u32> {
        let runs: Vec<Run> = serde_json::from_str(record).unwrap();
        assert_eq!(runs.len(), 10);
        let mut names: BTreeMap<String, u32> = BTreeMap::new();
        for run in runs {
            let cpu = Cpu { host_busy_share: busy(&run), ..Cpu::default() };
            let path = PathResult {
                name: "dnfs".into(),
                cpu: Some(cpu),
                slot_use: run.slot_use.clone(),
                read_latency: run.read_latency.clone(),
                runs: vec![run],
                ..PathResult::default()
            };
            let found = super::super::bottleneck::judge(&path, DatabaseKind::default());
            println!("{}: {:?} {:?}", bottleneck_words(&found), found.score, found.runner_up);
            *names.entry(bottleneck_words(&found)).or_default() += 1;
        }
        names
    }

    /// Processor seconds of the host of the runs, which had two processors.
    fn capacity_s(run: &Run) -> f64 {
        2.0 * run.measured_s
    }

    /// On the medium `cloud`, whose single spindle was always busy. Other processes used half of the host, so the
    /// record itself reports interference in all ten runs; here their time is excluded.
    #[test]
    fn nine_of_ten_real_runs_of_a_disk_bound_load_have_one_name() {
        let ours = |run: &Run| run.cpu.values().map(results::compare::CpuTime::total_s).sum::<f64>() / capacity_s(run);
        let names = names_of(include_str!("../../fixtures/ten-runs-cloud.json"), ours);
        assert!(names.get("disk").is_some_and(|count| *count >= 9), "{names:?}");
    }

    /// Six users of Direct NFS on the host's own disk, processors 79 to 88 % busy.
    #[test]
    fn nine_of_ten_real_runs_at_busy_processors_have_one_name() {
        let names = names_of(include_str!("../../fixtures/ten-runs-processors.json"), |run| run.host_busy_s / capacity_s(run));
        assert!(names.get("between host CPU and log flushes").is_some_and(|count| *count >= 9), "{names:?}");
    }

    /// Sixteen users of the same: 92 to 96 % busy in six runs, and, in another state of the host, 87 and 88 % in four.
    #[test]
    fn nine_of_ten_real_runs_around_ninety_percent_have_one_name() {
        let record = include_str!("../../fixtures/ten-runs-processors-90.json");
        let names = names_of(record, |run| run.host_busy_s / capacity_s(run));
        assert!(names.get("between host CPU and log flushes").is_some_and(|count| *count >= 9), "{names:?}");
    }
}
