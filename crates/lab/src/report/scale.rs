//! Maps values to positions, and selects the marks of an axis.

/// An axis: linear from 0, or logarithmic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
    log: bool,
}

/// Number of marks of a logarithmic axis above which only complete decades are marked.
const LOG_MARKS_MAX: usize = 9;

impl Scale {
    /// From `0` to at least `most`, rounded up to half the distance of two marks; drawn from `begin` to `end`.
    pub(crate) fn linear(most: f64, begin: f64, end: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let half = step(most) / 2.0;
        Self { from: 0.0, to: (most / half).ceil() * half, begin, end, log: false }
    }

    /// Exactly from `from` to `to`, without rounding.
    pub(crate) fn exact(from: f64, to: f64, begin: f64, end: f64) -> Self {
        Self { from, to: if to > from { to } else { from + 1.0 }, begin, end, log: false }
    }

    /// Logarithmic from at most `least` to at least `most`, both rounded to 1, 2 or 5 of a decade.
    pub(crate) fn log(least: f64, most: f64, begin: f64, end: f64) -> Self {
        let least = if least.is_finite() && least > 0.0 { least } else { 1.0 };
        let most = if most.is_finite() && most > least { most } else { least * 10.0 };
        let (from, mut to) = (log_floor(least), log_floor(most));
        if to < most * (1.0 - 1e-9) {
            to = next_mark(to);
        }
        Self { from, to: to.max(from * 10.0), begin, end, log: true }
    }

    /// Position of `value`; values outside the axis are placed at its ends.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.begin + share * (self.end - self.begin)
    }

    /// Values to mark; on a linear axis, at most about `most`.
    pub(crate) fn marks(&self, most: usize) -> Vec<f64> {
        if self.log { self.log_marks() } else { self.linear_marks(most) }
    }

    fn linear_marks(&self, most: usize) -> Vec<f64> {
        let most = most.max(2);
        let mut step = step(self.to - self.from);
        while (self.to - self.from) / step > most as f64 {
            step *= if leading_digit(step) == 2 { 2.5 } else { 2.0 };
        }
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|place| place as f64 * step).collect()
    }

    fn log_marks(&self) -> Vec<f64> {
        let mut marks = Vec::new();
        let mut mark = self.from;
        while mark <= self.to * (1.0 + 1e-9) && marks.len() < 64 {
            marks.push(mark);
            mark = next_mark(mark);
        }
        if marks.len() > LOG_MARKS_MAX {
            marks.retain(|mark| leading_digit(*mark) == 1);
        }
        marks
    }
}

/// 1, 2 or 5 times a power of ten, about a fifth of `most`.
fn step(most: f64) -> f64 {
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let times = rough / power;
    power
        * if times <= 1.0 {
            1.0
        } else if times <= 2.0 {
            2.0
        } else if times <= 5.0 {
            5.0
        } else {
            10.0
        }
}

fn log_floor(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let times = value / power * (1.0 + 1e-9);
    power
        * if times >= 5.0 {
            5.0
        } else if times >= 2.0 {
            2.0
        } else {
            1.0
        }
}

fn next_mark(mark: f64) -> f64 {
    if leading_digit(mark) == 2 { mark * 2.5 } else { mark * 2.0 }
}

fn leading_digit(value: f64) -> u32 {
    (value / 10f64.powf((value.log10() + 1e-9).floor())).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axis_begins_at_nought_and_ends_soon_after_its_largest_value() {
        let scale = Scale::linear(58_056.0, 100.0, 500.0);
        assert_eq!(scale.marks(8), [0.0, 20_000.0, 40_000.0, 60_000.0]);
        assert!((scale.at(0.0) - 100.0).abs() < 1e-9 && (scale.at(60_000.0) - 500.0).abs() < 1e-9);
        assert!((scale.at(30_000.0) - 300.0).abs() < 1e-9);
    }

    #[test]
    fn few_marks_stay_on_round_numbers() {
        assert_eq!(Scale::exact(0.0, 3_600.0, 0.0, 300.0).marks(4), [0.0, 1_000.0, 2_000.0, 3_000.0]);
        assert_eq!(Scale::exact(-10.0, 30.0, 0.0, 300.0).marks(5), [-10.0, 0.0, 10.0, 20.0, 30.0]);
    }

    #[test]
    fn log_axis_gives_each_decade_the_same_room() {
        let scale = Scale::log(1.3, 950.0, 0.0, 300.0);
        assert_eq!(scale.marks(0).first(), Some(&1.0));
        assert!((scale.at(10.0) - 100.0).abs() < 1e-6 && (scale.at(100.0) - 200.0).abs() < 1e-6);
        assert_eq!(Scale::log(0.01, 20_000.0, 0.0, 1.0).marks(0).len(), 7);
    }

    #[test]
    fn nonsense_gives_a_place_on_the_paper() {
        for scale in [Scale::linear(f64::NAN, 0.0, 10.0), Scale::log(0.0, 0.0, 0.0, 10.0), Scale::exact(5.0, 5.0, 0.0, 10.0)] {
            for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
                let place = scale.at(value);
                assert!((0.0..=10.0).contains(&place), "{scale:?} {value} {place}");
            }
            assert!(scale.marks(5).len() < 70);
        }
    }
}
