//! Distributions of times around their mean.

use crate::random::Random;

/// The shape of the distribution of a time. Its mean is stored separately.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the mean.
    Constant,
    /// Uniform between 0 and twice the mean.
    Uniform,
    /// Exponential (memoryless): the M in M/M/c.
    Exponential,
    /// Log-normal: most values near the mean, with a long tail, as with solid-state disks and networks.
    LogNormal {
        /// Standard deviation divided by the mean.
        variation: f64,
    },
}

impl Distribution {
    /// One value with this mean.
    pub(crate) fn sample(self, mean: f64, random: &mut Random) -> f64 {
        match self {
            Self::Constant => mean,
            Self::Uniform => mean * 2.0 * random.unit(),
            Self::Exponential => -mean * random.unit().ln(),
            Self::LogNormal { variation } => {
                // A log-normal of parameters mu and sigma has mean exp(mu + sigma²/2) and variation sqrt(exp(sigma²) − 1).
                let variance = (1.0 + variation * variation).ln();
                let normal = (-2.0 * random.unit().ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos();
                mean * (variance.sqrt() * normal - variance / 2.0).exp()
            }
        }
    }
}

/// Time of a seek between two independent, uniformly distributed places on the disk.
///
/// Their distance d, in widths of the disk, has the density 2(1 − d). A head that accelerates for half the way and slows down
/// for the other half takes a time proportional to the root of d. The mean of that root is 8/15, so the longest seek is 15/8
/// of the mean one: 6.2 ms for the 3.3 ms of a drive with 15,000 rpm.
pub(crate) fn seek(mean: f64, random: &mut Random) -> f64 {
    let distance = 1.0 - random.unit().sqrt();
    mean * 15.0 / 8.0 * distance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: u64 = 200_000;

    /// Mean and standard deviation of [`ROUNDS`] samples.
    fn moments(mut sample: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
        let values: Vec<f64> = (0..ROUNDS).map(|n| sample(&mut Random::new(crate::random::mix(n + 7)))).collect();
        let mean = values.iter().sum::<f64>() / ROUNDS as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / ROUNDS as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn each_distribution_has_its_mean_and_its_spread() {
        let tail = Distribution::LogNormal { variation: 0.5 };
        let expected = [
            (Distribution::Constant, 0.0),
            (Distribution::Uniform, 1.0 / 3f64.sqrt()),
            (Distribution::Exponential, 1.0),
            (tail, 0.5),
        ];
        for (distribution, spread) in expected {
            let (mean, deviation) = moments(|random| distribution.sample(8.0, random));
            assert!((mean - 8.0).abs() < 0.06, "{distribution:?}: mean {mean}");
            assert!((deviation - 8.0 * spread).abs() < 0.1, "{distribution:?}: deviation {deviation}");
        }
    }

    #[test]
    fn seeks_have_their_mean_and_end_at_the_width_of_the_disk() {
        let mut longest = 0.0f64;
        let (mean, _) = moments(|random| {
            let time = seek(3.3, random);
            longest = longest.max(time);
            time
        });
        assert!((mean - 3.3).abs() < 0.02, "{mean}");
        assert!(longest < 3.3 * 15.0 / 8.0 && longest > 6.0, "{longest}");
    }
}
