//! Finds a load: how many users saturate an arm, how many keep its host so busy, or a whole curve.
//!
//! Pure: what a number of users gives is asked of a closure, which may answer with noise. An answer
//! carries its interval; where the intervals cannot tell, the question is asked again a few times.

use crate::limits::{PROBE_REPEATS_MAX, SEARCH_USERS_MAX};

/// "10 % more users bring less than 2 % more orders" as an exponent: between two loads whose users
/// differ by the factor f, orders must grow by f to this power for users to be still worth adding.
const WORTH_EXPONENT: f64 = 0.207_768; // ln 1.02 / ln 1.1
/// Factor between users of two coarse steps; a step of 2 must bring 15 % to be worth it, far above noise.
const STEP: u32 = 2;
/// Refining ends when neighbours differ by this factor or less: below, 10 % noise hides any gain.
const STEP_LEAST: f64 = 1.25;
/// Points of percent of the host's processors within which a wished share counts as met.
const SHARE_TOLERANCE: f64 = 0.02;

/// What one number of users gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probe {
    /// Order entry transactions per minute.
    pub(crate) oets_per_minute: f64,
    /// Half-width of its 95 % interval within the probe, when that is known.
    pub(crate) ci95: Option<f64>,
    /// Share of the host's processors that was busy, 0 to 1.
    pub(crate) host_busy_share: f64,
    /// New-Order response in milliseconds: median, 90th and 99th percentile.
    pub(crate) response_ms: [f64; 3],
}

/// All that was measured at one number of users.
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

    /// Median, 90th and 99th percentile of New-Order in milliseconds: of the middle probe when there
    /// are several, for percentiles have no mean.
    pub(crate) fn response_ms(&self) -> [f64; 3] {
        let mut all: Vec<[f64; 3]> = self.probes.iter().map(|probe| probe.response_ms).collect();
        all.sort_by(|one, other| one[1].total_cmp(&other[1]));
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// Half-width of the mean's interval; absent when no probe knows its own.
    pub(crate) fn ci95(&self) -> Option<f64> {
        let known: Vec<f64> = self.probes.iter().filter_map(|probe| probe.ci95).collect();
        let squares: f64 = known.iter().map(|half| half * half).sum();
        (!known.is_empty()).then(|| squares.sqrt() / known.len() as f64)
    }

    fn mean(&self, of: impl Fn(&Probe) -> f64) -> f64 {
        self.probes.iter().map(of).sum::<f64>() / self.probes.len().max(1) as f64
    }
}

/// What was found, and every point that was measured, by users.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// The load to hold.
    pub(crate) users: u32,
    /// Whether it is what was asked for; false when the search ended at its limit or noise hid the answer.
    pub(crate) reached: bool,
    /// Why this load, in one sentence.
    pub(crate) reason: String,
    /// Points in the order of users.
    pub(crate) points: Vec<Point>,
}

/// Raises users until 10 % more of them bring less than 2 % more orders.
///
/// Users are doubled until a doubling is not worth it, then the last steps are halved (in the
/// logarithm) until neighbours differ by a quarter or less. The load found lies in the middle of the
/// first pair that is not worth it.
///
/// # Errors
/// Whatever `measure` gives.
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

/// Finds the users that keep `share` of the host's processors busy, 0 to 1.
///
/// # Errors
/// Whatever `measure` gives.
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
    // Shares at low (below) and high (at or above) are known; users between are tried where a line
    // through both would meet the share.
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

/// Measures the curve of load against orders: doublings from one user to two beyond saturation, and
/// finds saturation on it without refining.
///
/// # Errors
/// Whatever `measure` gives.
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

    /// The next larger number of users that was measured.
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

    /// Orders at `high` by orders at `low`, and the half-width of that ratio.
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

    /// Whether users between `low` and `high` are worth adding, and whether the intervals say so.
    /// Asks again while they do not, a few times.
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

    /// Doubles users until a doubling is not worth it, and `more` doublings beyond; gives whether that
    /// is sure, and the users below that doubling. `None` when every doubling was worth it.
    fn climb(&mut self, more: u32) -> Result<Option<(bool, u32)>, E> {
        let mut low = 1;
        let mut flat: Option<(bool, u32)> = None;
        let mut beyond = 0;
        while low < self.users_max {
            let high = (low * STEP).min(self.users_max);
            let (worth, sure) = self.worth(low, high)?;
            match flat {
                // A later rise shows that the flat step was noise.
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
    /// are near; gives the first pair that is not worth it.
    fn refine(&mut self, flat: Option<(bool, u32)>) -> Result<Option<(bool, u32, u32)>, E> {
        let Some((mut sure, top)) = flat else {
            return Ok(None);
        };
        let bottom = self.points.iter().rev().map(|point| point.users).find(|users| *users < top).unwrap_or(top);
        let high = self.after(top).unwrap_or(top);
        let (mut low, mut high) = if bottom < top {
            // The bend lies between the middle of the step that was worth it and the middle of the one that was not.
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
