//! Compares two configurations: the difference of their means with its interval, and the claim that it allows.
//!
//! The unit is the run. Runs start from the same state, but not from the same state of the host, so
//! the spread between runs determines the error. With two or three runs, the spread inside them
//! (batch means) is a lower limit of the error: runs that agree by chance must not give a precise
//! figure. With more runs, this limit would only add effects that all runs share, such as a
//! checkpoint in each of them, as if they were uncertainty. Rounds are interleaved. With
//! [`PAIRED_ROUNDS_MIN`] or more of them, the configurations are compared round by round, which
//! removes the drift of the host. With fewer, pairing would cost more degrees of freedom than it
//! gains, so the spreads of both are pooled.
//!
//! The displayed interval is the 95 % one. A difference is "shown" if the 99 % interval excludes zero. Then twenty
//! comparisons of equal configurations give at most one such claim in 98 of 100 cases; with a 95 % rule, in 74.

use crate::judgement::{IntervalMethod, RelativeDifference};
use crate::statistics::Difference;
use crate::statistics::series::{mean, variance};
use crate::statistics::student::t_quantile;

/// Number of rounds from which configurations are compared round by round.
pub const PAIRED_ROUNDS_MIN: usize = 6;
/// Number of runs up to which the errors inside them are a lower limit.
pub(crate) const FLOOR_RUNS_MAX: usize = 3;
/// Quantile of the displayed 95 % interval.
const SHOWN_LEVEL: f64 = 0.975;
/// Quantile of the 99 % interval for claims.
const CLAIM_LEVEL: f64 = 0.995;

/// One run's figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunValue {
    /// Round of the run: runs of the same round on two configurations are close in time.
    pub round: u32,
    /// The figure, above 0.
    pub value: f64,
    /// Standard error of the figure from inside the run, in its unit; `None` if not known.
    pub standard_error: Option<f64>,
}

/// Difference of `other` from `first` in percent of `first`. Computed on logarithms, so that a factor has the same effect on
/// fast and slow configurations. `None` if a side is empty or a value is not above 0.
#[must_use]
pub fn relative_difference(first: &[RunValue], other: &[RunValue]) -> Option<RelativeDifference> {
    let logs = |runs: &[RunValue]| -> Option<Vec<f64>> {
        let sound = !runs.is_empty() && runs.iter().all(|run| run.value > 0.0 && run.value.is_finite());
        sound.then(|| runs.iter().map(|run| run.value.ln()).collect())
    };
    let (a, b) = (logs(first)?, logs(other)?);
    let pairs = paired(first, other);
    let floor = if a.len().min(b.len()) <= FLOOR_RUNS_MAX {
        inside(first) / a.len() as f64 + inside(other) / b.len() as f64
    } else {
        0.0
    };
    let (centre, squared_error, degrees, method) = if pairs.len() >= PAIRED_ROUNDS_MIN {
        (mean(&pairs), variance(&pairs) / pairs.len() as f64, pairs.len() as f64 - 1.0, IntervalMethod::Paired)
    } else {
        let degrees = (a.len() + b.len()) as f64 - 2.0;
        let spread = if degrees > 0.0 {
            ((a.len() as f64 - 1.0) * variance(&a) + (b.len() as f64 - 1.0) * variance(&b)) / degrees
        } else {
            0.0
        };
        (mean(&b) - mean(&a), spread * (1.0 / a.len() as f64 + 1.0 / b.len() as f64), degrees, IntervalMethod::TwoSample)
    };
    let percent = |log: f64| (log.exp() - 1.0) * 100.0;
    let known = a.len() >= 2 && b.len() >= 2;
    let error = squared_error.max(floor).sqrt();
    let half = |level: f64| t_quantile(level, degrees) * error;
    let shown = if !known {
        Difference::Unknown
    } else if centre.abs() > half(CLAIM_LEVEL) {
        Difference::Shown
    } else {
        Difference::NotShown
    };
    Some(RelativeDifference {
        percent: percent(centre),
        low_percent: known.then(|| percent(centre - half(SHOWN_LEVEL))),
        high_percent: known.then(|| percent(centre + half(SHOWN_LEVEL))),
        with_twice_the_rounds_percent: known.then(|| {
            let runs = a.len() + b.len();
            let degrees = if method == IntervalMethod::Paired { 2.0 * degrees + 1.0 } else { 2.0 * runs as f64 - 2.0 };
            (percent(centre) + 100.0) * t_quantile(SHOWN_LEVEL, degrees) * error / 2.0_f64.sqrt()
        }),
        claim_factor: known.then(|| half(CLAIM_LEVEL).exp()),
        shown,
        method,
        degrees: degrees.max(0.0),
    })
}

/// Logarithms of the ratios of runs of the same round.
fn paired(first: &[RunValue], other: &[RunValue]) -> Vec<f64> {
    let partner = |run: &RunValue| other.iter().find(|candidate| candidate.round == run.round);
    first.iter().filter_map(|run| Some((partner(run)?.value / run.value).ln())).collect()
}

/// Mean squared relative error from inside the runs; 0 if no run has one.
fn inside(runs: &[RunValue]) -> f64 {
    let squares: Vec<f64> = runs.iter().filter_map(|run| Some((run.standard_error? / run.value).powi(2))).collect();
    mean(&squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Vec<RunValue> {
        (1..).zip(values).map(|(round, value)| RunValue { round, value: *value, standard_error: None }).collect()
    }

    #[test]
    fn a_clear_factor_is_shown_with_its_interval() {
        let found = relative_difference(&runs(&[100.0, 101.0, 99.0]), &runs(&[50.0, 50.5, 49.5])).unwrap();
        assert_eq!((found.shown, found.method.clone()), (Difference::Shown, IntervalMethod::TwoSample));
        assert!((found.percent + 50.0).abs() < 0.01, "{found:?}");
        assert!(found.low_percent.unwrap() < -50.0 && found.high_percent.unwrap() > -50.0 && found.high_percent.unwrap() < -45.0);
    }

    #[test]
    fn a_difference_is_shown_exactly_if_its_factor_is_beyond_the_claim_factor() {
        for factor in [0.9, 0.97, 0.99, 1.0, 1.01, 1.03, 1.1] {
            let first = [100.0, 101.0, 99.0];
            let found = relative_difference(&runs(&first), &runs(&first.map(|value| value * factor))).unwrap();
            let (ratio, claim) = (1.0 + found.percent / 100.0, found.claim_factor.unwrap());
            assert_eq!(found.shown == Difference::Shown, ratio > claim || ratio < 1.0 / claim, "{factor}: {found:?}");
        }
    }

    #[test]
    fn pairing_takes_a_common_drift_out() {
        let drifting: Vec<f64> = (0..8).map(|round| 100.0 * 0.95_f64.powi(round)).collect();
        let noise = [1.002, 0.998, 1.001, 0.999, 1.003, 0.997, 1.0, 1.0];
        let slower: Vec<f64> = drifting.iter().zip(noise).map(|(value, noise)| value * 0.97 * noise).collect();
        let found = relative_difference(&runs(&drifting), &runs(&slower)).unwrap();
        assert_eq!((found.shown, found.method.clone()), (Difference::Shown, IntervalMethod::Paired));
        assert!((found.percent + 3.0).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn runs_that_agree_by_luck_are_held_to_their_inner_error() {
        let lucky = |value: f64| {
            let run = RunValue { round: 0, value, standard_error: Some(value * 0.03) };
            vec![RunValue { round: 1, ..run }, RunValue { round: 2, ..run }, RunValue { round: 3, ..run }]
        };
        let found = relative_difference(&lucky(100.0), &lucky(97.0)).unwrap();
        assert_eq!(found.shown, Difference::NotShown, "{found:?}");
    }

    #[test]
    fn twice_the_rounds_narrow_the_interval_as_student_says() {
        let mut rng = [99.0, 101.0, 100.5, 99.5, 102.0, 98.0].into_iter().cycle();
        let mut side = |rounds: usize| runs(&(0..rounds).map(|_| rng.next().unwrap()).collect::<Vec<f64>>());
        let (first, other) = (side(3), side(3));
        let half = |found: &RelativeDifference| (found.high_percent.unwrap() - found.low_percent.unwrap()) / 2.0;
        let few = relative_difference(&first, &other).unwrap();
        // t(10) = 2.228 instead of t(4) = 2.776, and the error is that of twice as many.
        let expected = half(&few) * 2.228 / 2.776 / 2.0_f64.sqrt();
        let found = few.with_twice_the_rounds_percent.unwrap();
        assert!((found - expected).abs() < 0.02 * expected, "{found} of {expected}");
        let single = relative_difference(&runs(&[100.0]), &runs(&[50.0])).unwrap();
        assert_eq!(single.with_twice_the_rounds_percent, None);
    }

    #[test]
    fn one_run_each_claims_nothing_and_zero_has_no_ratio() {
        let single = relative_difference(&runs(&[100.0]), &runs(&[50.0])).unwrap();
        assert_eq!((single.shown, single.low_percent), (Difference::Unknown, None));
        assert_eq!(relative_difference(&runs(&[100.0]), &runs(&[0.0])), None);
        assert_eq!(relative_difference(&[], &runs(&[1.0])), None);
    }
}
