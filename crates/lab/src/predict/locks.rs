//! Locks of rows that all users write: waiting for them grows faster than the number of users.

/// Steps of the search for the part of the time in which a lock is held: each halves the bracket.
const STEPS: u32 = 40;
/// Upper limit of the share of the users' time that locks take, so that the model always makes progress.
const SHARE_MAX: f64 = 0.95;

/// Hot rows of the load. A user that does not wait holds one of them for a part of its time: the machine repairman model
/// with as many repairmen as rows, each with its own queue (solved exactly by mean values, Reiser and Lavenberg 1980).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Locks {
    /// Part of a user's time, without waiting for locks, in which it holds a hot row, 0 to 1.
    pub held: f64,
    /// Number of hot rows: in order entry, Payment's warehouses, which are locked until its commit.
    pub rows: u32,
}

impl Locks {
    /// Locks that take the share `share` of the time of `users`.
    #[must_use]
    pub fn fit(share: f64, users: u32, rows: u32) -> Self {
        let none = Self { held: 0.0, rows };
        if share <= 0.0 || users < 2 || rows == 0 {
            return none;
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..STEPS {
            let held = f64::midpoint(low, high);
            if (Self { held, rows }).share(users) < share {
                low = held;
            } else {
                high = held;
            }
        }
        Self { held: f64::midpoint(low, high), rows }
    }

    /// Share of the time of `users` in which they wait for locks, 0 to 1.
    #[must_use]
    pub fn share(&self, users: u32) -> f64 {
        if self.held <= 0.0 || self.rows == 0 {
            return 0.0;
        }
        let (mut there, mut waiting) = (0.0, 0.0);
        for count in (1..=users).map(f64::from) {
            // An arriving user finds the other users as they would be without it.
            let wait = self.held * there / f64::from(self.rows);
            let rate = count / (1.0 + wait);
            there = rate * (self.held + wait);
            waiting = rate * wait / count;
        }
        waiting.min(SHARE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_waits_for_nobody_and_many_for_the_rows() {
        let locks = Locks { held: 0.15, rows: 4 };
        assert!(locks.share(1).abs() < 1e-12);
        let shares: Vec<f64> = [2, 4, 8, 16, 32].map(|users| locks.share(users)).to_vec();
        assert!(shares.windows(2).all(|pair| pair[1] > 2.0 * pair[0]), "{shares:?}");
        // Saturated: 4 rows are always locked, so 4 / 0.15 users do not wait.
        assert!((locks.share(400) - (1.0 - 4.0 / 0.15 / 400.0)).abs() < 0.01);
        assert!(Locks::default().share(100).abs() < 1e-12);
    }

    #[test]
    fn a_share_seen_once_tells_what_is_held() {
        let truth = Locks { held: 0.14, rows: 4 };
        let found = Locks::fit(truth.share(8), 8, 4);
        assert!((found.held - truth.held).abs() < 1e-6);
        assert!(Locks::fit(0.0, 8, 4).held.abs() < 1e-12 && Locks::fit(0.5, 1, 4).held.abs() < 1e-12);
    }
}
