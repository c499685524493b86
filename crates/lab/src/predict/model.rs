//! One database host as a closed network: users go round processors, storage, log and locks, one order a round.

use super::network::{Station, solve, throughputs};

/// Storage below the reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Storage {
    /// A read takes its time whatever else is in flight.
    Latency {
        /// Seconds of one read.
        seconds: f64,
    },
    /// Spindles with a queue each.
    Spindles {
        /// Spindles.
        count: usize,
        /// Seconds one spindle works for a read.
        service_s: f64,
        /// Seconds of a read besides: path, controller.
        overhead_s: f64,
        /// Share of the reads that a cache answers after the overhead alone, 0 to 1.
        cache_hit: f64,
    },
}

/// A system that takes orders from a closed loop of users. Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Processors.
    pub cores: f64,
    /// Processor time of one order, of everybody on the host.
    pub cpu_s: f64,
    /// Block reads of one order.
    pub reads: f64,
    /// What a read stands on.
    pub storage: Storage,
    /// Most reads in flight at once; `None` when nothing bounds them.
    pub slots: Option<u32>,
    /// Commits of one order that wait for the log.
    pub commits: f64,
    /// One flush of the log.
    pub flush_s: f64,
    /// Time of one order that is spent elsewhere: not measured as any of the above.
    pub other_s: f64,
    /// Share of a user's time spent waiting for locks, with [`System::locks_at`] users.
    pub lock_share: f64,
    /// Users at which `lock_share` was seen.
    pub locks_at: u32,
}

/// What the model says about a number of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// Users.
    pub users: u32,
    /// Orders per minute.
    pub oets_per_minute: f64,
    /// Mean time of one round (one order and what belongs to it) in milliseconds.
    pub round_ms: f64,
    /// Busy share of the processors, 0 to 1.
    pub cpu_busy: f64,
    /// Block reads in flight, those that wait for a slot included.
    pub reads_in_flight: f64,
    /// Share of a user's time by station: `processors`, `storage`, `log`, `other`, `locks`.
    pub shares: Vec<(String, f64)>,
    /// What the model holds for the limit: `host_cpu`, `disk`, `slots`, `wal_fsync`, `lock_wait` or `concurrency`.
    pub bottleneck: String,
}

/// Share of the users' time that may be lost to locks at most: beyond it the straight line would end nowhere.
const LOCK_SHARE_MAX: f64 = 0.9;
/// Busy share at which a station is called the limit.
const BUSY_LIMIT: f64 = 0.9;

impl System {
    /// Predicts for `users`.
    #[must_use]
    pub fn predict(&self, users: u32) -> Predicted {
        let locks = self.locks_with(users);
        let active = f64::from(users) * (1.0 - locks);
        let stations = self.stations(users);
        let (orders_per_s, customers) = interpolated(&stations, active);
        let share = |place: usize| customers.get(place).copied().unwrap_or(0.0) / f64::from(users.max(1));
        let shares = [("processors", share(0)), ("storage", share(1)), ("log", share(2)), ("other", share(3)), ("locks", locks)];
        let cpu_busy = (orders_per_s * self.cpu_s / self.cores).min(1.0);
        Predicted {
            users,
            oets_per_minute: orders_per_s * 60.0,
            round_ms: if orders_per_s > 0.0 { f64::from(users) / orders_per_s * 1e3 } else { 0.0 },
            cpu_busy,
            reads_in_flight: customers.get(1).copied().unwrap_or(0.0),
            bottleneck: self.limit(orders_per_s, cpu_busy, locks, &shares),
            shares: shares.map(|(name, part)| (name.to_owned(), part)).to_vec(),
        }
    }

    /// Share of a user's time in locks with `users`: the chance to meet another grows with the number of others, and
    /// how long they hold grows with the round itself, so the share is a straight line.
    fn locks_with(&self, users: u32) -> f64 {
        let others = |users: u32| f64::from(users.saturating_sub(1));
        if self.locks_at < 2 {
            return 0.0;
        }
        (self.lock_share * others(users) / others(self.locks_at)).clamp(0.0, LOCK_SHARE_MAX)
    }

    fn stations(&self, users: u32) -> [Station; 4] {
        [
            Station::Servers(self.cpu_s, self.cores),
            self.storage_station(users),
            self.log_station(users),
            Station::Delay(self.other_s),
        ]
    }

    /// Reads: what the storage completes with so many in flight, cut off where slots end.
    fn storage_station(&self, users: u32) -> Station {
        let most = usize::try_from(users).unwrap_or(1).max(1);
        let alone = match self.storage {
            Storage::Latency { seconds } => throughputs(&[Station::Delay(self.reads * seconds)], most),
            Storage::Spindles { count, service_s, overhead_s, cache_hit } => throughputs(
                &[Station::Delay(self.reads * overhead_s), Station::Spread(self.reads * service_s * (1.0 - cache_hit), count)],
                most,
            ),
        };
        let slots = self.slots.and_then(|slots| usize::try_from(slots).ok()).unwrap_or(usize::MAX).max(1);
        let rates = (1..=most).map(|count| alone.get(count.min(slots)).copied().unwrap_or(f64::INFINITY));
        Station::Rates(rates.collect())
    }

    /// Commits: one flush serves all that wait, but who comes while it runs waits for the next. One alone waits one
    /// flush, many wait one and a half on average.
    fn log_station(&self, users: u32) -> Station {
        let work = self.commits * self.flush_s;
        let rates = (1..=users.max(1)).map(|count| {
            let count = f64::from(count);
            if work > 0.0 { count / (work * (1.5 - 0.5 / count)) } else { f64::INFINITY }
        });
        Station::Rates(rates.collect())
    }

    fn limit(&self, orders_per_s: f64, cpu_busy: f64, locks: f64, shares: &[(&str, f64)]) -> String {
        let in_storage = shares.iter().find(|(name, _)| *name == "storage").map_or(0.0, |(_, part)| *part);
        let read_s = match self.storage {
            Storage::Latency { seconds } => seconds,
            Storage::Spindles { service_s, overhead_s, cache_hit, .. } => overhead_s + service_s * (1.0 - cache_hit),
        };
        let reads_per_s = orders_per_s * self.reads;
        let slots_busy = self.slots.map_or(0.0, |slots| reads_per_s * read_s / f64::from(slots.max(1)));
        let spindles_busy = match self.storage {
            Storage::Spindles { count, service_s, cache_hit, .. } => {
                reads_per_s * service_s * (1.0 - cache_hit) / count.max(1) as f64
            }
            Storage::Latency { .. } => 0.0,
        };
        let log = shares.iter().find(|(name, _)| *name == "log").map_or(0.0, |(_, part)| *part);
        let kind = if cpu_busy >= BUSY_LIMIT {
            "host_cpu"
        } else if slots_busy >= BUSY_LIMIT {
            "slots"
        } else if spindles_busy >= BUSY_LIMIT {
            "disk"
        } else if locks >= 0.25 && locks >= in_storage {
            "lock_wait"
        } else if log >= 0.25 && log >= in_storage {
            "wal_fsync"
        } else {
            "concurrency"
        };
        kind.to_owned()
    }
}

/// Throughput and customers for a number of customers that need not be whole.
fn interpolated(stations: &[Station], customers: f64) -> (f64, Vec<f64>) {
    let below = customers.max(0.0).floor();
    let part = customers.max(0.0) - below;
    let nothing = || (0.0, vec![0.0; stations.len()]);
    let at = |count: f64| {
        if count < 1.0 {
            return nothing();
        }
        let solution = solve(stations, count as usize);
        (solution.throughput, solution.customers)
    };
    let low = at(below);
    if part < 1e-9 {
        return low;
    }
    let high = at(below + 1.0);
    let mix = |a: f64, b: f64| a + (b - a) * part;
    let customers = low.1.iter().zip(&high.1).map(|(a, b)| mix(*a, *b)).collect();
    (mix(low.0, high.0), customers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system() -> System {
        System {
            cores: 2.0,
            cpu_s: 0.004,
            reads: 10.0,
            storage: Storage::Latency { seconds: 0.008 },
            slots: None,
            commits: 2.0,
            flush_s: 0.0,
            other_s: 0.0,
            lock_share: 0.0,
            locks_at: 0,
        }
    }

    #[test]
    fn one_user_takes_the_sum_of_all_times() {
        let found = system().predict(1);
        assert!((found.round_ms - 84.0).abs() < 1e-6, "{found:?}");
        assert_eq!(found.bottleneck, "concurrency");
    }

    #[test]
    fn many_users_end_at_the_processors() {
        let found = system().predict(200);
        assert!((found.oets_per_minute - 30_000.0).abs() < 30.0, "{found:?}");
        assert_eq!(found.bottleneck, "host_cpu");
    }

    #[test]
    fn slots_cap_the_reads_in_flight() {
        let found = System { slots: Some(4), ..system() }.predict(64);
        // 4 reads of 8 ms at once are 500 reads or 50 orders per second.
        assert!((found.oets_per_minute - 3_000.0).abs() < 3.0, "{found:?}");
        assert_eq!(found.bottleneck, "slots");
    }

    #[test]
    fn spindles_bound_what_more_users_can_get() {
        let storage = Storage::Spindles { count: 8, service_s: 0.008, overhead_s: 0.0, cache_hit: 0.0 };
        let found = System { storage, ..system() }.predict(400);
        // 8 spindles of 8 ms: 1,000 reads, 100 orders per second.
        assert!(found.oets_per_minute < 6_000.0 && found.oets_per_minute > 5_800.0, "{found:?}");
        assert_eq!(found.bottleneck, "disk");
        let wide = Storage::Spindles { count: 8000, service_s: 0.008, overhead_s: 0.0, cache_hit: 0.0 };
        let idle = System { storage: wide, ..system() }.predict(8);
        assert!((idle.oets_per_minute / system().predict(8).oets_per_minute - 1.0).abs() < 0.01);
    }

    #[test]
    fn locks_take_their_share_and_grow_with_the_users() {
        let locked = System { lock_share: 0.3, locks_at: 8, ..system() };
        let (free, held) = (system().predict(8), locked.predict(8));
        assert!((held.oets_per_minute / free.oets_per_minute - 0.7).abs() < 0.02, "{held:?}");
        assert!(locked.predict(1).oets_per_minute > 0.99 * system().predict(1).oets_per_minute);
        assert!(locked.predict(16).shares.iter().any(|(name, part)| name == "locks" && (*part - 0.643).abs() < 0.01));
    }

    #[test]
    fn group_commit_waits_at_most_half_a_flush_more() {
        let flushing = System { flush_s: 0.010, reads: 0.0, cpu_s: 1e-6, ..system() };
        assert!((flushing.predict(1).round_ms - 20.0).abs() < 0.01);
        assert!((flushing.predict(100).round_ms - 30.0).abs() < 0.3);
    }
}
