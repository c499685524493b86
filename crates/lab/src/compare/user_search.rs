//! Searches for a load: how many users saturate a configuration, how many keep its host busy to a given share, or a complete curve.
//!
//! Pure: a closure measures a number of users, and its results may be noisy. A result
//! includes its interval; if the intervals are not sufficient, the measurement is repeated a few times.

use crate::limits::{PROBE_REPEATS_MAX, SEARCH_USERS_MAX};

/// "10 % more users give less than 2 % more orders" as an exponent: between two loads whose users
/// differ by the factor f, orders must grow by f to this power for the additional users to be worthwhile.
const WORTH_EXPONENT: f64 = 0.207_768; // ln 1.02 / ln 1.1
/// Factor between the users of two coarse steps; a doubling must give 15 % to be worthwhile, far above the noise.
const STEP: u32 = 2;
/// Factor between neighbours at which refining ends: below it, 10 % noise hides any gain.
const STEP_LEAST: f64 = 1.25;
/// Tolerance for a requested busy share of the host's processors.
const SHARE_TOLERANCE: f64 = 0.02;

/// Result for one number of users.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probe {
    /// Order entry transactions per minute.
    pub(crate) oets_per_minute: f64,
    /// Half-width of its 95 % interval within the probe, if known.
    pub(crate) ci95: Option<f64>,
    /// Share of the host's processors that was busy, 0 to 1.
    pub(crate) host_busy_share: f64,
    /// Response time of New-Order in milliseconds: median, 90th and 99th percentile.
    pub(crate) response_ms: [f64; 3],
}

/// All measurements at one number of users.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) users: u32,
    pub(crate) probes: Vec<Probe>,
}

impl Point {
    pub(crate) fn oets_per_minute(&self) -> f64 {
        self.mean(|probe| probe.oets_per_minute)
    }

    pub(crate) fn host_busy_share(&self) -> f64 {
        self.mean(|probe| probe.host_busy_share)
    }

    /// Median, 90th and 99th percentile of New-Order in milliseconds: those of the middle probe if there
    /// are several, because percentiles cannot be averaged.
    pub(crate) fn response_ms(&self) -> [f64; 3] {
        let mut all: Vec<[f64; 3]> = self.probes.iter().map(|probe| probe.response_ms).collect();
        all.sort_by(|one, other| one[1].total_cmp(&other[1]));
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// Half-width of the mean's interval; `None` if no probe has one.
    pub(crate) fn ci95(&self) -> Option<f64> {
        let known: Vec<f64> = self.probes.iter().filter_map(|probe| probe.ci95).collect();
        let squares: f64 = known.iter().map(|half| half * half).sum();
        (!known.is_empty()).then(|| squares.sqrt() / known.len() as f64)
    }

    fn mean(&self, of: impl Fn(&Probe) -> f64) -> f64 {
        self.probes.iter().map(of).sum::<f64>() / self.probes.len().max(1) as f64
    }
}

/// The result, and every measured point, sorted by users.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// The load to use.
    pub(crate) users: u32,
    /// Whether it is the requested load; false if the search ended at its limit or noise hid the result.
    pub(crate) reached: bool,
    /// Reason for this load, in one sentence.
    pub(crate) reason: String,
    /// Points, sorted by users.
    pub(crate) points: Vec<Point>,
}

/// Increases users until 10 % more of them give less than 2 % more orders.
///
/// Users are doubled until a doubling is not worthwhile. Then the last steps are halved (in the
/// logarithm) until neighbours differ by a quarter or less. The resulting load is in the middle of the
/// first pair that is not worthwhile.
///
/// # Errors
/// An error of `measure`.
pub(crate) fn saturate<E>(users_max: u32, measure: &mut dyn FnMut(u32) -> Result<Probe, E>) -> Result<Found, E> {
    let mut curve = Curve::new(users_max, measure);
    let sure = curve.climb(0)?;
    let Some((sure, low, high)) = curve.refine(sure)? else {
        let users = curve.users_max;
        let reason = format!("{users} users, the most tried, are still worth adding");
        return Ok(curve.found(users, false, reason));
    };
    let users = (f64::from(low) * f64::from(high)).sqrt().round() as u32;
    let gain = (curve.gain(low, high).0 - 1.0) * 100.0;
    let reason = format!(
        "from {low} to {high} users orders changed by {gain:+.1} %, less than 2 % for 10 % more users{}",
        if sure { "" } else { ", as far as the noise allows a conclusion" }
    );
    Ok(curve.found(users, sure, reason))
}

/// Finds the number of users that keeps `share` of the host's processors busy, 0 to 1.
///
/// # Errors
/// An error of `measure`.
pub(crate) fn busy<E>(share: f64, users_max: u32, measure: &mut dyn FnMut(u32) -> Result<Probe, E>) -> Result<Found, E> {
    let mut curve = Curve::new(users_max, measure);
    let (mut low, mut high) = (0, 1);
    while curve.busy(high)? < share {
        if high == curve.users_max {
            let found = curve.busy(high)?;
            let reason = format!("{high} users, the most tried, keep {:.0} % busy, not {:.0} %", found * 100.0, share * 100.0);
            return Ok(curve.found(high, false, reason));
        }
        low = high;
        high = (high * STEP).min(curve.users_max);
    }
    // The shares at `low` (below) and `high` (at or above) are known; the next number of users is where a line
    // through both meets the requested share.
    while high - low > 1 {
        let (below, above) = (if low == 0 { 0.0 } else { curve.busy(low)? }, curve.busy(high)?);
        if (above - share).abs() <= SHARE_TOLERANCE || (low > 0 && (below - share).abs() <= SHARE_TOLERANCE) {
            break;
        }
        let slope = (above - below).max(1e-9);
        let guess = f64::from(low) + (share - below) / slope * f64::from(high - low);
        let middle = (guess.round() as u32).clamp(low + 1, high - 1);
        if curve.busy(middle)? < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut users = high;
    if low > 0 && (curve.busy(low)? - share).abs() < (curve.busy(high)? - share).abs() {
        users = low;
    }
    let found = curve.busy(users)?;
    let reached = (found - share).abs() <= SHARE_TOLERANCE;
    let word = if reached { "" } else { ", the nearest there is" };
    let reason = format!("{users} users keep {:.0} % of the host's processors busy{word}", found * 100.0);
    Ok(curve.found(users, reached, reason))
}

/// Measures the curve of orders over users: doublings from one user to two beyond saturation. Finds
/// the saturation on it without refining.
///
/// # Errors
/// An error of `measure`.
pub(crate) fn sweep<E>(users_max: u32, measure: &mut dyn FnMut(u32) -> Result<Probe, E>) -> Result<Found, E> {
    let mut curve = Curve::new(users_max, measure);
    let worth = curve.climb(1)?;
    let Some((sure, low)) = worth else {
        let users = curve.users_max;
        let reason = format!("{users} users, the most tried, are still worth adding");
        return Ok(curve.found(users, false, reason));
    };
    let reason = format!("the curve flattens at {low} users: twice as many bring {:+.1} %", {
        let high = curve.after(low).unwrap_or(low);
        (curve.gain(low, high).0 - 1.0) * 100.0
    });
    Ok(curve.found(low, sure, reason))
}

/// The points measured so far.
struct Curve<'a, E> {
    points: Vec<Point>,
    users_max: u32,
    measure: &'a mut dyn FnMut(u32) -> Result<Probe, E>,
}

impl<'a, E> Curve<'a, E> {
    fn new(users_max: u32, measure: &'a mut dyn FnMut(u32) -> Result<Probe, E>) -> Self {
        Self { points: Vec::new(), users_max: users_max.clamp(1, SEARCH_USERS_MAX), measure }
    }

    fn point(&self, users: u32) -> Option<&Point> {
        self.points.iter().find(|point| point.users == users)
    }

    /// The next larger measured number of users.
    fn after(&self, users: u32) -> Option<u32> {
        self.points.iter().map(|point| point.users).filter(|other| *other > users).min()
    }

    fn probe(&mut self, users: u32) -> Result<(), E> {
        let probe = (self.measure)(users)?;
        match self.points.iter_mut().find(|point| point.users == users) {
            Some(point) => point.probes.push(probe),
            None => {
                let place = self.points.partition_point(|point| point.users < users);
                self.points.insert(place, Point { users, probes: vec![probe] });
            }
        }
        Ok(())
    }

    fn busy(&mut self, users: u32) -> Result<f64, E> {
        if self.point(users).is_none() {
            self.probe(users)?;
        }
        Ok(self.point(users).map_or(0.0, Point::host_busy_share))
    }

    /// Orders at `high` divided by orders at `low`, and the half-width of that ratio.
    fn gain(&self, low: u32, high: u32) -> (f64, f64) {
        let of =
            |users: u32| self.point(users).map_or((0.0, 0.0), |point| (point.oets_per_minute(), point.ci95().unwrap_or(0.0)));
        let ((less, less_half), (more, more_half)) = (of(low), of(high));
        if less <= 0.0 || more <= 0.0 {
            return (if more > 0.0 { f64::INFINITY } else { 0.0 }, 0.0);
        }
        let ratio = more / less;
        (ratio, ratio * ((less_half / less).powi(2) + (more_half / more).powi(2)).sqrt())
    }

    /// Whether users between `low` and `high` are worthwhile, and whether the intervals show that.
    /// Repeats the measurements a few times while they do not.
    fn worth(&mut self, low: u32, high: u32) -> Result<(bool, bool), E> {
        for users in [low, high] {
            if self.point(users).is_none() {
                self.probe(users)?;
            }
        }
        let least = (f64::from(high) / f64::from(low)).powf(WORTH_EXPONENT);
        loop {
            let (ratio, half) = self.gain(low, high);
            let sure = (ratio - least).abs() > half;
            let asked = |users: u32| self.point(users).map_or(0, |point| point.probes.len());
            let again = if asked(low) < asked(high) { low } else { high };
            if sure || asked(again) >= PROBE_REPEATS_MAX {
                return Ok((ratio >= least, sure));
            }
            self.probe(again)?;
        }
    }

    /// Doubles users until a doubling is not worthwhile, and `more` doublings beyond. Returns whether that
    /// is certain, and the users below that doubling; `None` if every doubling was worthwhile.
    fn climb(&mut self, more: u32) -> Result<Option<(bool, u32)>, E> {
        let mut low = 1;
        let mut flat: Option<(bool, u32)> = None;
        let mut beyond = 0;
        while low < self.users_max {
            let high = (low * STEP).min(self.users_max);
            let (worth, sure) = self.worth(low, high)?;
            match flat {
                // A later increase shows that the flat step was noise.
                Some(_) if worth && sure => (flat, beyond) = (None, 0),
                Some(_) => beyond += 1,
                None if !worth => flat = Some((sure, low)),
                None => {}
            }
            if flat.is_some() && beyond >= more {
                break;
            }
            low = high;
        }
        Ok(flat)
    }

    /// Halves the step before and the step after the users found by [`Self::climb`] until neighbours
    /// are close. Returns the first pair that is not worthwhile.
    fn refine(&mut self, flat: Option<(bool, u32)>) -> Result<Option<(bool, u32, u32)>, E> {
        let Some((mut sure, top)) = flat else {
            return Ok(None);
        };
        let bottom = self.points.iter().rev().map(|point| point.users).find(|users| *users < top).unwrap_or(top);
        let high = self.after(top).unwrap_or(top);
        let (mut low, mut high) = if bottom < top {
            // The bend is between the middle of the worthwhile step and the middle of the other one.
            match middle(bottom, top) {
                Some(half) if !self.worth(half, top)?.0 => (half, top),
                _ => (top, high),
            }
        } else {
            (top, high)
        };
        while f64::from(high) / f64::from(low) > STEP_LEAST {
            let Some(half) = middle(low, high) else { break };
            let (worth, known) = self.worth(low, half)?;
            sure &= known;
            if worth {
                low = half;
            } else {
                high = half;
            }
        }
        Ok(Some((sure, low, high)))
    }

    fn found(self, users: u32, reached: bool, reason: String) -> Found {
        Found { users, reached, reason, points: self.points }
    }
}

/// The number of users in the logarithmic middle of two, if there is one between them.
fn middle(low: u32, high: u32) -> Option<u32> {
    let half = (f64::from(low) * f64::from(high)).sqrt().round() as u32;
    (low < half && half < high).then_some(half)
}

#[cfg(test)]
mod tests;
