//! What the rule of comparison claims about simulated paths: seconds that resemble their neighbours, checkpoints
//! that dent every run, runs that differ from each other, and a host that drifts while rounds go by.

use results::statistics::{Difference, MeanInterval, RunValue, relative_difference, series_mean};
use sim::Rng;

/// What a simulated host does to every run.
#[derive(Clone, Copy)]
struct Host {
    /// Relative deviation of runs of the same thing.
    between: f64,
    /// Relative deviation of seconds inside a run.
    inside: f64,
    /// Correlation of a second with the next.
    link: f64,
    /// Relative change from round to round.
    drift: f64,
    /// Seconds of each run.
    seconds: usize,
}

const QUIET: Host = Host { between: 0.010, inside: 0.06, link: 0.4, drift: 0.0, seconds: 60 };
const USUAL: Host = Host { between: 0.015, inside: 0.10, link: 0.6, drift: 0.005, seconds: 120 };
const ROUGH: Host = Host { between: 0.030, inside: 0.12, link: 0.6, drift: 0.010, seconds: 30 };

fn normal(rng: &mut Rng) -> f64 {
    let uniform = |rng: &mut Rng| (rng.bits() >> 11) as f64 / (1_u64 << 53) as f64;
    // Box and Muller; 1 - u lies in (0, 1].
    (-2.0 * (1.0 - uniform(rng)).ln()).sqrt() * (std::f64::consts::TAU * uniform(rng)).cos()
}

fn run(rng: &mut Rng, host: Host, rate: f64, round: u32) -> RunValue {
    let level = rate * (1.0 + host.between * normal(rng)) * (1.0 + host.drift).powf(f64::from(round));
    let (mut state, begin) = (normal(rng), rng.index(host.seconds));
    let scale = (1.0 - host.link * host.link).sqrt();
    let series: Vec<f64> = (0..host.seconds)
        .map(|second| {
            state = host.link * state + scale * normal(rng);
            // A checkpoint takes a fifth of the orders for six seconds.
            let dent = if (second + begin) % host.seconds < 6 { 0.8 } else { 1.0 };
            level * dent * (1.0 + host.inside * state).max(0.0)
        })
        .collect();
    let value = series.iter().sum::<f64>() / series.len() as f64;
    RunValue { round, value, standard_error: series_mean(&series).map(|mean| mean.standard_error) }
}

/// Share of `trials` comparisons of `rounds` interleaved rounds that claim a difference.
fn claims(host: Host, rounds: u32, factor: f64, trials: u64) -> f64 {
    let claimed = (0..trials).filter(|trial| {
        let mut rng = Rng::new(trial * 7919 + u64::from(rounds));
        let first: Vec<RunValue> = (0..rounds).map(|round| run(&mut rng, host, 100.0, round)).collect();
        let other: Vec<RunValue> = (0..rounds).map(|round| run(&mut rng, host, 100.0 * factor, round)).collect();
        relative_difference(&first, &other).is_some_and(|found| found.shown == Difference::Shown)
    });
    claimed.count() as f64 / trials as f64
}

#[test]
fn equal_paths_show_no_difference_in_at_least_nineteen_of_twenty_comparisons() {
    for (name, host) in [("quiet", QUIET), ("usual", USUAL), ("rough", ROUGH)] {
        for rounds in [2, 3, 5, 8] {
            let share = claims(host, rounds, 1.0, 200);
            assert!(share <= 0.02, "{name} host, {rounds} rounds: {share} of comparisons claim a difference");
        }
    }
}

#[test]
fn a_path_five_percent_slower_is_found_by_a_comparison_meant_to_find_it() {
    for (name, host, rounds, least) in [("quiet", QUIET, 5, 0.9), ("usual", USUAL, 12, 0.9)] {
        let share = claims(host, rounds, 0.95, 200);
        assert!(share >= least, "{name} host, {rounds} rounds: found in {share} of comparisons");
    }
}

#[test]
fn a_path_at_two_thirds_is_found_by_three_rounds_even_on_a_rough_host() {
    let share = claims(ROUGH, 3, 0.67, 200);
    assert!(share >= 0.95, "found in {share}");
}

/// The same by the rule that was given up: two intervals of their own that must not overlap (docs/design/006-difference.md).
fn claims_by_overlap(host: Host, rounds: u32, factor: f64, trials: u64) -> f64 {
    let claimed = (0..trials).filter(|trial| {
        let mut rng = Rng::new(trial * 7919 + u64::from(rounds));
        let first: Vec<RunValue> = (0..rounds).map(|round| run(&mut rng, host, 100.0, round)).collect();
        let other: Vec<RunValue> = (0..rounds).map(|round| run(&mut rng, host, 100.0 * factor, round)).collect();
        let own = |runs: &[RunValue]| MeanInterval::of_runs(runs).expect("there are runs");
        own(&first).difference_from(&own(&other)) == Difference::Shown
    });
    claimed.count() as f64 / trials as f64
}

#[test]
fn intervals_of_the_difference_find_what_overlapping_ones_miss() {
    for (name, host, rounds, factor) in
        [("quiet", QUIET, 3, 0.9), ("quiet", QUIET, 5, 0.95), ("usual", USUAL, 12, 0.95), ("rough", ROUGH, 3, 0.67)]
    {
        let (ours, overlap) = (claims(host, rounds, factor, 100), claims_by_overlap(host, rounds, factor, 100));
        println!("{name} host, {rounds} rounds, factor {factor}: {ours} by the difference, {overlap} by overlap");
        assert!(ours >= overlap, "{name}, {rounds} rounds, factor {factor}: {ours} against {overlap}");
    }
}
