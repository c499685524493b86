//! One figure per second: the error of its mean in spite of correlated seconds, the end of the
//! warm-up, and whether the rest is in steady state.

use crate::statistics::student::t_quantile;

/// Seconds that are averaged before the search for the end of the warm-up (White and others: MSER-5).
const MSER_BATCH: usize = 5;
/// Parts of the interval in the steady-state test, like the five rounds of SNIA's test specification.
const ROUNDS: usize = 5;
/// Largest allowed difference between the highest and the lowest part, percent of the mean (SNIA).
pub const RANGE_PERCENT_MAX: f64 = 20.0;
/// Largest allowed change of the fitted line over the interval, percent of the mean (SNIA).
pub const DRIFT_PERCENT_MAX: f64 = 10.0;
/// Smallest number of seconds that can be tested: four for each part.
pub const SECONDS_MIN: usize = 20;
/// Smallest number of batches for computing an error: enough for a small t, few enough that each is longer than the correlation of the seconds.
const BATCHES_MIN: usize = 10;

/// Mean of a series with the error of that mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesMean {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard error of the mean, including the effect of autocorrelation.
    pub standard_error: f64,
    /// Half-width of the 95 % interval of the mean within this run.
    pub ci95: f64,
    /// Correlation of one value with the next, -1 to 1.
    pub autocorrelation: f64,
}

/// Result of the steady-state test of one series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SteadySeries {
    /// Range and drift are within bounds, warm-up ends in the first half, and the series is long enough.
    pub passed: bool,
    /// Number of values at the start that MSER-5 cuts.
    pub dropped: usize,
    /// Number of remaining values.
    pub kept: usize,
    /// Rise (or fall, negative) of the fitted line over the kept values, percent of their mean.
    pub drift_percent: f64,
    /// Highest part minus lowest part, percent of the mean.
    pub range_percent: f64,
}

/// The mean by batch means: values are averaged in ten or more batches. The remaining correlation
/// between batches increases the error as in a first-order process. `None` for fewer than ten
/// values, and if a value is not finite.
#[must_use]
pub fn series_mean(values: &[f64]) -> Option<SeriesMean> {
    let size = (values.len() / BATCHES_MIN).max(1);
    let batches: Vec<f64> = values.chunks_exact(size).map(mean).collect();
    if batches.len() < BATCHES_MIN || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let count = batches.len() as f64;
    // The autocorrelation of a short series is biased low by about 1/n. A negative value does not reduce the error.
    let link = (autocorrelation(&batches) + 1.0 / count).clamp(0.0, 0.8);
    let inflation = (1.0 + link) / (1.0 - link);
    let standard_error = (variance(&batches) / count * inflation).sqrt();
    let degrees = ((count - 1.0) / inflation).max(1.0);
    Some(SeriesMean {
        mean: mean(values),
        standard_error,
        ci95: t_quantile(0.975, degrees) * standard_error,
        autocorrelation: autocorrelation(values),
    })
}

/// Number of values at the start that belong to the warm-up by MSER-5: the cut, within the first half, that minimizes the
/// squared error of the mean of the remaining values.
#[must_use]
pub fn warmup_cut(values: &[f64]) -> usize {
    let batches: Vec<f64> = values.chunks_exact(MSER_BATCH).map(mean).collect();
    let mut best = (f64::INFINITY, 0);
    for cut in 0..=batches.len() / 2 {
        let Some(rest) = batches.get(cut..).filter(|rest| rest.len() >= 2) else { break };
        let centre = mean(rest);
        let squares: f64 = rest.iter().map(|value| (value - centre).powi(2)).sum();
        let error = squares / (rest.len() as f64).powi(2);
        if error < best.0 {
            best = (error, cut);
        }
    }
    best.1 * MSER_BATCH
}

/// Tests a series for steady state: MSER-5 cuts the warm-up; then five parts may differ by at most 20 % and the fitted line
/// may change by at most 10 % (SNIA Solid State Storage Performance Test Specification, steady state definition).
#[must_use]
pub fn steady(values: &[f64]) -> SteadySeries {
    let dropped = warmup_cut(values);
    let kept = values.get(dropped..).unwrap_or_default();
    let size = kept.len() / ROUNDS;
    if size == 0 {
        return SteadySeries { dropped, kept: kept.len(), ..SteadySeries::default() };
    }
    let centre = mean(kept);
    let parts: Vec<f64> = (0..ROUNDS)
        .map(|part| {
            let end = if part + 1 == ROUNDS { kept.len() } else { (part + 1) * size };
            mean(kept.get(part * size..end).unwrap_or_default())
        })
        .collect();
    let (low, high) = parts.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), p| (low.min(*p), high.max(*p)));
    let percent = |value: f64| if centre > 0.0 { value / centre * 100.0 } else { 0.0 };
    let middle = (ROUNDS as f64 - 1.0) / 2.0;
    let (mut above, mut below) = (0.0, 0.0);
    for (place, part) in parts.iter().enumerate() {
        let x = place as f64 - middle;
        above += x * (part - centre);
        below += x * x;
    }
    let drift_percent = percent(above / below * (ROUNDS as f64 - 1.0));
    let range_percent = percent(high - low);
    let long_enough = values.len() >= SECONDS_MIN;
    // A cut at the end of the searched half means that the warm-up has not ended there.
    let settled = dropped < values.len() / MSER_BATCH / 2 * MSER_BATCH || dropped == 0;
    SteadySeries {
        passed: long_enough
            && settled
            && centre > 0.0
            && range_percent <= RANGE_PERCENT_MAX
            && drift_percent.abs() <= DRIFT_PERCENT_MAX,
        dropped,
        kept: kept.len(),
        drift_percent,
        range_percent,
    }
}

/// Correlation of each value with the next, -1 to 1; 0 if all are equal or there are fewer than three.
#[must_use]
pub fn autocorrelation(values: &[f64]) -> f64 {
    if values.len() < 3 {
        return 0.0;
    }
    let centre = mean(values);
    let whole: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    let linked: f64 = values.windows(2).map(|pair| pair.iter().map(|value| value - centre).product::<f64>()).sum();
    if whole > 0.0 { linked / whole } else { 0.0 }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Sample variance (divisor n - 1); 0 for fewer than two values.
pub(crate) fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A first-order process around 100 in which neighbours have the correlation `link`.
    fn linked(seed: u64, count: usize, link: f64, deviation: f64) -> Vec<f64> {
        let mut rng = sim::Rng::new(seed);
        let mut state = 0.0;
        let scale = (1.0 - link * link).sqrt();
        (0..count)
            .map(|_| {
                state = link * state + scale * normal(&mut rng);
                100.0 + deviation * state
            })
            .collect()
    }

    fn normal(rng: &mut sim::Rng) -> f64 {
        let uniform = |rng: &mut sim::Rng| (rng.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
    }

    #[test]
    fn interval_of_a_linked_series_covers_its_mean_about_as_often_as_it_says() {
        for link in [0.0, 0.5, 0.8] {
            let covered = (0..1000)
                .filter(|seed| {
                    let found = series_mean(&linked(*seed, 120, link, 10.0)).unwrap();
                    (found.mean - 100.0).abs() <= found.ci95
                })
                .count();
            assert!((900..=995).contains(&covered), "link {link}: {covered} of 1000");
        }
    }

    #[test]
    fn ignoring_the_link_would_cover_far_less() {
        let covered = (0..1000)
            .filter(|seed| {
                let values = linked(*seed, 120, 0.8, 10.0);
                (mean(&values) - 100.0).abs() <= 1.98 * (variance(&values) / 120.0).sqrt()
            })
            .count();
        assert!(covered < 700, "{covered}");
    }

    #[test]
    fn warm_up_is_cut_and_a_level_series_keeps_nearly_everything() {
        let mut values = linked(1, 100, 0.3, 4.0);
        for (second, value) in values.iter_mut().enumerate().take(20) {
            *value -= 60.0 - 3.0 * second as f64;
        }
        let cut = warmup_cut(&values);
        assert!((10..=25).contains(&cut), "{cut}");
        assert!(steady(&values).passed);
        let kept_most = (0..100).filter(|seed| warmup_cut(&linked(*seed, 100, 0.3, 4.0)) <= 30).count();
        assert!(kept_most >= 80, "{kept_most}");
    }

    #[test]
    fn drift_range_and_shortness_fail() {
        let climbing: Vec<f64> = (0..100).map(|second| 100.0 + f64::from(second)).collect();
        let found = steady(&climbing);
        assert!(!found.passed && found.drift_percent > DRIFT_PERCENT_MAX, "{found:?}");
        let mut stalled = linked(3, 100, 0.0, 1.0);
        stalled[60..75].fill(10.0);
        assert!(steady(&stalled).range_percent > RANGE_PERCENT_MAX);
        assert!(!steady(&stalled).passed);
        assert!(!steady(&linked(3, 19, 0.0, 1.0)).passed);
        assert!(!steady(&[]).passed);
        assert!(!steady(&[0.0; 100]).passed);
        assert!(steady(&[7.0; 100]).passed);
    }

    #[test]
    fn short_series_have_no_error() {
        assert_eq!(series_mean(&[1.0; 9]), None);
        let flat = series_mean(&[4.0; 30]).unwrap();
        assert!(flat.standard_error.abs() < 1e-12 && (flat.mean - 4.0).abs() < 1e-12);
    }
}
