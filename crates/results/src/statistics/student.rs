//! Quantiles of Student's t distribution, for the intervals.

/// Steps of the bisection: each halves the bracket; 60 leave less than one part in 10^12.
const STEPS: u32 = 60;
/// Largest t that is searched; only one or two degrees of freedom at extreme levels exceed it.
const T_MAX: f64 = 1e5;

/// The quantile `level` of Student's t for `degrees` degrees of freedom, which may be fractional
/// (Satterthwaite). Infinite if `degrees` is not above 0 or not finite, and if `level` is below 0.5
/// or not below 1.
#[must_use]
pub fn t_quantile(level: f64, degrees: f64) -> f64 {
    if degrees <= 0.0 || !degrees.is_finite() || !(0.5..1.0).contains(&level) {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, T_MAX);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if t_cdf(middle, degrees) < level {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The 97.5 % quantile for an integer number of degrees: the factor of a two-sided 95 % interval.
#[must_use]
pub fn t_quantile_975(degrees: usize) -> f64 {
    t_quantile(0.975, degrees as f64)
}

/// Distribution function for `t` at or above 0 (Abramowitz and Stegun 26.7.1).
fn t_cdf(t: f64, degrees: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5)
}

/// Regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    // Evaluated from the last term: 200 terms are exact to the last digits for all degrees below a million.
    let mut fraction = 0.0;
    for term in (1..=200_u32).rev() {
        let m = f64::from(term / 2);
        let numerator = if term % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        fraction = numerator / (1.0 + fraction);
    }
    front / (1.0 + fraction)
}

/// Logarithm of the gamma function for `x` above 0: recurrence up to 12, then Stirling's series.
fn ln_gamma(x: f64) -> f64 {
    let (mut z, mut shift) = (x, 0.0);
    while z < 12.0 {
        shift += z.ln();
        z += 1.0;
    }
    let series = 1.0 / (12.0 * z) - 1.0 / (360.0 * z.powi(3)) + 1.0 / (1260.0 * z.powi(5));
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_printed_tables() {
        for (degrees, wanted) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (8, 2.306), (30, 2.042), (120, 1.980)] {
            assert!((t_quantile_975(degrees) - wanted).abs() < 6e-4, "{degrees}: {}", t_quantile_975(degrees));
        }
        for (degrees, wanted) in [(2.0, 9.925), (4.0, 4.604), (8.0, 3.355), (20.0, 2.845)] {
            assert!((t_quantile(0.995, degrees) - wanted).abs() < 6e-4, "{degrees}");
        }
        assert_eq!(t_quantile_975(0), f64::INFINITY);
    }

    #[test]
    fn quantile_falls_towards_the_normal_one_and_fractions_lie_between() {
        let mut previous = f64::INFINITY;
        for degrees in 1..200 {
            let quantile = t_quantile_975(degrees);
            assert!(quantile < previous, "t rises at {degrees}");
            previous = quantile;
        }
        assert!(previous > 1.9599 && previous < 1.98);
        let half = t_quantile(0.975, 4.5);
        assert!(half < t_quantile_975(4) && half > t_quantile_975(5));
        assert!((t_quantile(0.975, 1e6) - 1.95997).abs() < 1e-3);
    }
}
