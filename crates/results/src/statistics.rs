//! Means with their intervals, and the claims that a comparison of two allows.
//!
//! A figure is never published without its error: [`MeanInterval`] contains the
//! mean of independent runs, the half-width of the 95 % interval by Student's t
//! and the values themselves.

mod contrast;
mod series;
mod student;

use serde::{Deserialize, Serialize};

pub use contrast::{PAIRED_ROUNDS_MIN, RunValue, relative_difference};
pub use series::{
    DRIFT_PERCENT_MAX, RANGE_PERCENT_MAX, SECONDS_MIN, SeriesMean, SteadySeries, autocorrelation, series_mean, steady, warmup_cut,
};
pub use student::{t_quantile, t_quantile_975};

/// Mean of independent runs with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeanInterval {
    /// Arithmetic mean of `values`, in the unit of the values.
    pub mean: f64,
    /// Half-width of the 95 % interval of the mean; absent below two runs.
    pub ci95: Option<f64>,
    /// Number of runs.
    pub runs: usize,
    /// The runs' values, in the order they were measured.
    pub values: Vec<f64>,
}

/// The claim that the 99 % interval of a difference allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// It excludes zero.
    Shown,
    /// It contains zero.
    NotShown,
    /// Fewer than two runs on a side: nothing can be claimed.
    #[default]
    Unknown,
}

impl MeanInterval {
    /// The interval of `values`; `None` if there are no values or one is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let runs = values.len();
        let mean = values.iter().sum::<f64>() / count(runs);
        let ci95 = (runs >= 2).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / count(runs - 1)).sqrt();
            t_quantile_975(runs - 1) * deviation / count(runs).sqrt()
        });
        Some(Self { mean, ci95, runs, values: values.to_vec() })
    }

    /// The interval of runs whose figures have their own errors, in their unit (`None`: not known). The spread
    /// between runs determines it; with two or three runs, it is at least as wide as the errors inside them require. `None` as in
    /// [`Self::of`].
    #[must_use]
    pub fn of_runs(runs: &[RunValue]) -> Option<Self> {
        let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let mut interval = Self::of(&values)?;
        let squares: Vec<f64> = runs.iter().filter_map(|run| Some(run.standard_error?.powi(2))).collect();
        if let Some(half) = interval.ci95.as_mut()
            && !squares.is_empty()
            && runs.len() <= contrast::FLOOR_RUNS_MAX
        {
            let inside = (series::mean(&squares) / count(runs.len())).sqrt();
            *half = half.max(t_quantile_975(runs.len() - 1) * inside);
        }
        Some(interval)
    }

    /// Lower and upper end of the interval; `None` below two runs.
    #[must_use]
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.ci95.map(|half| (self.mean - half, self.mean + half))
    }

    /// Compares two intervals: if they overlap, no difference is shown.
    #[must_use]
    pub fn difference_from(&self, other: &Self) -> Difference {
        match (self.ends(), other.ends()) {
            (Some((low, high)), Some((other_low, other_high))) => {
                if high < other_low || other_high < low {
                    Difference::Shown
                } else {
                    Difference::NotShown
                }
            }
            _ => Difference::Unknown,
        }
    }
}

/// Converts a count to a float. These counts are numbers of runs, far below 2^52.
fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_three_runs_matches_a_hand_calculation() {
        // mean 10, sample deviation 1, t(2) = 4.303: 4.303 / sqrt(3) = 2.4843.
        let interval = MeanInterval::of(&[9.0, 10.0, 11.0]).unwrap();
        assert!((interval.mean - 10.0).abs() < 1e-12);
        assert!((interval.ci95.unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!(interval.runs, 3);
    }

    #[test]
    fn one_run_has_a_mean_and_no_interval() {
        let interval = MeanInterval::of(&[7.0]).unwrap();
        assert_eq!(interval.ci95, None);
        assert_eq!(interval.ends(), None);
    }

    #[test]
    fn no_value_or_a_value_that_is_not_a_number_gives_no_interval() {
        assert_eq!(MeanInterval::of(&[]), None);
        assert_eq!(MeanInterval::of(&[1.0, f64::NAN]), None);
        assert_eq!(MeanInterval::of(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn overlap_shows_no_difference_and_a_gap_shows_one() {
        let slow = MeanInterval::of(&[99.0, 100.0, 101.0]).unwrap();
        let near = MeanInterval::of(&[100.0, 102.0, 104.0]).unwrap();
        let far = MeanInterval::of(&[199.0, 200.0, 201.0]).unwrap();
        let single = MeanInterval::of(&[500.0]).unwrap();
        assert_eq!(slow.difference_from(&near), Difference::NotShown);
        assert_eq!(near.difference_from(&slow), Difference::NotShown);
        assert_eq!(slow.difference_from(&far), Difference::Shown);
        assert_eq!(far.difference_from(&slow), Difference::Shown);
        assert_eq!(slow.difference_from(&single), Difference::Unknown);
    }
}
