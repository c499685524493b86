//! One database host as a closed network: users cycle through processors, storage, log and locks, one order per cycle.

use results::compare::BottleneckKind;

use super::cache::ColdStart;
use super::locks::Locks;

/// Storage that serves the reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Storage {
    /// A read takes a fixed time, whatever else is in flight.
    Latency {
        /// Seconds of one read.
        seconds: f64,
    },
    /// Spindles with one queue each.
    Spindles {
        /// Number of spindles.
        count: usize,
        /// Seconds of a spindle's work for a read.
        service_s: f64,
        /// Further seconds of a read: network, controller.
        overhead_s: f64,
        /// Share of the reads that a cache serves after the overhead alone, 0 to 1.
        cache_hit: f64,
    },
}

/// Work of the spindles besides reads, if no memory acknowledges writes early. Times in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SpindleWrites {
    /// Work for one order's data blocks that are written independently of the buffers: blocks that extend tables.
    pub extending_s: f64,
    /// Work for blocks that are written to free buffers for reads: zero while buffers are still filling.
    pub evicting_s: f64,
    /// Work for one flush of the log; one flush serves all commits that wait for it.
    pub log_s: f64,
    /// Number of times that a flush waits for its spindle.
    pub log_waits: f64,
    /// Commits that the next flush includes, divided by those that arrive during a flush: 1 if it includes all of them.
    pub gathered: f64,
}

impl SpindleWrites {
    /// The same on spindles on which all work takes `times` as long.
    #[must_use]
    pub fn slower(self, times: f64) -> Self {
        let (extending_s, evicting_s, log_s) = (self.extending_s * times, self.evicting_s * times, self.log_s * times);
        Self { extending_s, evicting_s, log_s, ..self }
    }
}

/// A system that serves orders of a closed loop of users. Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Processors.
    pub cores: f64,
    /// Processor time of one order, of all processes on the host.
    pub cpu_s: f64,
    /// Mean number of processors that programs outside the system keep busy.
    pub taken: f64,
    /// Share of `cpu_s` for which no user waits, 0 to 1: checkpointer and writers, the filer during a read. It
    /// keeps processors busy too.
    pub beside: f64,
    /// Factor for the wait for a processor on the path of a call, relative to processor sharing: (1 + C^2) / 2 if
    /// the work of calls has the coefficient of variation C and the first to arrive is served first (Lee and Longton 1959).
    pub queueing: f64,
    /// Processor time of one additional read, part of `cpu_s`.
    pub cpu_per_read_s: f64,
    /// Block reads per order at the time of the other measurements.
    pub reads: f64,
    /// The storage that serves the reads.
    pub storage: Storage,
    /// Other work of its spindles.
    pub spindle_writes: SpindleWrites,
    /// Processor time for which a read waits on its path to the storage and back, part of `beside`.
    pub read_path_s: f64,
    /// Most calls in flight at the same time; `None` for no limit.
    pub slots: Option<u32>,
    /// Seconds for which the other calls of one order (writes, flushes) occupy a slot while the storage works for them.
    pub held_s: f64,
    /// The same while they wait for processors.
    pub held_path_s: f64,
    /// Commits per order that wait for the log.
    pub commits: f64,
    /// Time of one flush of the log on the storage.
    pub flush_s: f64,
    /// Processor time for which one call of a flush waits on its path, part of `beside`.
    pub flush_path_s: f64,
    /// Data blocks per order that users write themselves, to free buffers for reads: zero while buffers are still filling.
    pub writes: f64,
    /// Processor time for which one of these writes waits on its path, part of `beside`.
    pub write_path_s: f64,
    /// Further time of one order, not measured as any of the above.
    pub other_s: f64,
    /// Locks of rows for which users wait.
    pub locks: Locks,
    /// The run from its cold start; `None` to use `reads` unchanged.
    pub cold_start: Option<ColdStart>,
}

/// Prediction of the model for a number of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// Users.
    pub users: u32,
    /// Orders per minute.
    pub oets_per_minute: f64,
    /// Mean time of one cycle (one order and its share of the other transactions) in milliseconds.
    pub round_ms: f64,
    /// Busy share of the processors, 0 to 1.
    pub cpu_busy: f64,
    /// Block reads per order.
    pub reads_per_order: f64,
    /// Block reads in flight, including those that wait for a slot.
    pub reads_in_flight: f64,
    /// Share of a user's time by station: `processors`, `storage`, `log`, `writes`, `other`, `locks`.
    pub shares: Vec<(String, f64)>,
    /// The bottleneck according to the model.
    pub bottleneck: BottleneckKind,
}

/// Busy share above which a station counts as the bottleneck.
const BUSY_LIMIT: f64 = 0.9;
/// Reads per order for which a run is solved, relative to those with full buffers. Between them, the time of an order
/// is interpolated linearly, because reads add to the times of the bottleneck.
const READS_SOLVED: [f64; 3] = [1.0, 2.0, 8.0];

impl Default for System {
    fn default() -> Self {
        Self {
            cores: 1.0,
            cpu_s: 0.0,
            taken: 0.0,
            beside: 0.0,
            queueing: 1.0,
            cpu_per_read_s: 0.0,
            reads: 0.0,
            storage: Storage::Latency { seconds: 0.0 },
            spindle_writes: SpindleWrites::default(),
            read_path_s: 0.0,
            slots: None,
            held_s: 0.0,
            held_path_s: 0.0,
            commits: 0.0,
            flush_s: 0.0,
            flush_path_s: 0.0,
            writes: 0.0,
            write_path_s: 0.0,
            other_s: 0.0,
            locks: Locks::default(),
            cold_start: None,
        }
    }
}

/// The equilibrium: customers are users that do not wait for locks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steady {
    pub(super) orders_per_s: f64,
    /// Mean number of users at each station.
    pub(super) at_processors: f64,
    pub(super) at_storage: f64,
    pub(super) at_log: f64,
    pub(super) at_writes: f64,
    pub(super) elsewhere: f64,
    /// Reads that the storage is serving: those at the storage without those that wait for a slot.
    pub(super) reads_served: f64,
    /// Time of the work outside the users divided by the work itself.
    pub(super) stretch: f64,
    /// Share of the spindles' time that writes and flushes take, 0 to 1.
    pub(super) spindles_writing: f64,
}

impl System {
    /// Predicts for `users` over the run's cold start; without a cold start, with the constant `reads`.
    #[must_use]
    pub fn predict(&self, users: u32) -> Predicted {
        let Some(cold_start) = &self.cold_start else { return self.with_reads(users, self.reads, self.writes) };
        let solved = |writes: f64| {
            READS_SOLVED.map(|times| {
                let reads = cold_start.cache.reads_when_full() * times;
                (reads, 1.0 / self.steady(users, reads, writes).orders_per_s)
            })
        };
        let (filling, full) = (solved(0.0), solved(self.writes));
        let found = cold_start.measured(|reads, evicts| on_line(if evicts { &full } else { &filling }, reads));
        let balance = self.with_reads(users, found.reads, self.writes * found.full);
        Predicted { oets_per_minute: found.orders_per_s * 60.0, round_ms: round_ms(users, found.orders_per_s), ..balance }
    }

    /// Predicts for `users` if an order reads and writes this number of blocks.
    #[must_use]
    pub fn with_reads(&self, users: u32, reads: f64, writes: f64) -> Predicted {
        let found = self.steady(users, reads, writes);
        let share = |customers: f64| customers / f64::from(users.max(1));
        let shares = [
            ("processors", share(found.at_processors)),
            ("storage", share(found.at_storage)),
            ("log", share(found.at_log)),
            ("writes", share(found.at_writes)),
            ("other", share(found.elsewhere)),
            ("locks", self.locks.share(users)),
        ];
        let cpu_busy = (found.orders_per_s * self.cpu_with(reads) / self.cores).min(1.0);
        Predicted {
            users,
            oets_per_minute: found.orders_per_s * 60.0,
            round_ms: round_ms(users, found.orders_per_s),
            cpu_busy,
            reads_per_order: reads,
            reads_in_flight: found.at_storage,
            bottleneck: self.limit(&found, reads, cpu_busy, &shares),
            shares: shares.map(|(name, part)| (name.to_owned(), part)).to_vec(),
        }
    }

    /// Processor time of an order with this number of reads.
    pub(super) fn cpu_with(&self, reads: f64) -> f64 {
        (self.cpu_s + self.cpu_per_read_s * (reads - self.reads)).max(self.cpu_s * 0.1)
    }

    fn limit(&self, found: &Steady, reads: f64, cpu_busy: f64, shares: &[(&str, f64)]) -> BottleneckKind {
        let share = |name: &str| shares.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, part)| *part);
        let reads_per_s = found.orders_per_s * reads;
        let taken = found.reads_served + found.orders_per_s * (self.held_s + self.held_path_s * found.stretch);
        let slots_busy = self.slots.map_or(0.0, |slots| taken / f64::from(slots.max(1)));
        let spindles_busy = match self.storage {
            Storage::Spindles { count, service_s, cache_hit, .. } => {
                found.spindles_writing + reads_per_s * service_s * (1.0 - cache_hit) / count.max(1) as f64
            }
            Storage::Latency { .. } => 0.0,
        };
        if cpu_busy >= BUSY_LIMIT {
            BottleneckKind::HostCpu
        } else if slots_busy >= BUSY_LIMIT {
            BottleneckKind::Slots
        } else if spindles_busy >= BUSY_LIMIT {
            BottleneckKind::Disk
        } else if share("locks") >= 0.25 && share("locks") >= share("storage") {
            BottleneckKind::LockWait
        } else if share("log") >= 0.25 && share("log") >= share("storage") {
            BottleneckKind::LogFlush
        } else {
            BottleneckKind::Concurrency
        }
    }
}

fn round_ms(users: u32, orders_per_s: f64) -> f64 {
    if orders_per_s > 0.0 { f64::from(users) / orders_per_s * 1e3 } else { 0.0 }
}

/// The value at `at` on straight lines through ascending points; the last line continues. Never decreasing: the points come from
/// a search that ends near the equilibrium, and reads take time.
fn on_line(points: &[(f64, f64); 3], at: f64) -> f64 {
    let [first, middle, last] = *points;
    let (low, high) = if at <= middle.0 { (first, middle) } else { (middle, last) };
    let slope = if high.0 > low.0 { ((high.1 - low.1) / (high.0 - low.0)).max(0.0) } else { 0.0 };
    low.1 + slope * (at - low.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::cache::Cache;

    fn system() -> System {
        System {
            cores: 2.0,
            cpu_s: 0.004,
            reads: 10.0,
            storage: Storage::Latency { seconds: 0.008 },
            commits: 2.0,
            ..System::default()
        }
    }

    #[test]
    fn one_user_takes_the_sum_of_all_times() {
        let found = system().predict(1);
        assert!((found.round_ms - 84.0).abs() < 1e-6, "{found:?}");
        assert_eq!(found.bottleneck, BottleneckKind::Concurrency);
    }

    #[test]
    fn many_users_end_at_the_processors() {
        let found = system().predict(200);
        assert!((found.oets_per_minute - 30_000.0).abs() < 30.0, "{found:?}");
        assert_eq!(found.bottleneck, BottleneckKind::HostCpu);
    }

    #[test]
    fn work_beside_the_users_costs_them_no_time_but_processors() {
        let beside = System { beside: 0.5, ..system() };
        assert!((beside.predict(1).round_ms - 82.0).abs() < 0.1, "{:?}", beside.predict(1));
        assert!((beside.predict(200).oets_per_minute - 30_000.0).abs() < 100.0, "{:?}", beside.predict(200));
    }

    #[test]
    fn slots_cap_the_reads_in_flight() {
        let found = System { slots: Some(4), ..system() }.predict(64);
        // 4 concurrent reads of 8 ms are 500 reads or 50 orders per second.
        assert!((found.oets_per_minute - 3_000.0).abs() < 3.0, "{found:?}");
        assert_eq!(found.bottleneck, BottleneckKind::Slots);
    }

    #[test]
    fn writes_and_flushes_take_slots_from_the_reads() {
        // An order holds a slot for 80 ms of reads and 20 ms of other calls: 4 slots are 40 orders per second.
        let found = System { slots: Some(4), held_s: 0.020, ..system() }.predict(64);
        assert!((found.oets_per_minute - 2_400.0).abs() < 10.0, "{found:?}");
        assert_eq!(found.bottleneck, BottleneckKind::Slots);
        let free = System { held_s: 0.020, ..system() };
        assert!((free.predict(4).oets_per_minute - system().predict(4).oets_per_minute).abs() < 1e-6);
    }

    #[test]
    fn a_flush_waits_for_a_slot_as_reads_do() {
        let one = System { slots: Some(1), flush_s: 0.001, ..system() };
        let (few, many) = (one.predict(2), one.predict(6));
        let log = |found: &Predicted| found.shares[2].1 * found.round_ms;
        assert!(log(&few) > 8.0 && log(&many) > 2.0 * log(&few), "{few:?} {many:?}");
        assert!(log(&System { slots: None, ..one }.predict(6)) < 3.1);
    }

    #[test]
    fn spindles_bound_what_more_users_can_get() {
        let storage = Storage::Spindles { count: 8, service_s: 0.008, overhead_s: 0.0, cache_hit: 0.0 };
        let found = System { storage, ..system() }.predict(400);
        // 8 spindles of 8 ms: 1,000 reads, 100 orders per second.
        assert!(found.oets_per_minute < 6_000.0 && found.oets_per_minute > 5_800.0, "{found:?}");
        assert_eq!(found.bottleneck, BottleneckKind::Disk);
        let wide = Storage::Spindles { count: 8000, service_s: 0.008, overhead_s: 0.0, cache_hit: 0.0 };
        let idle = System { storage: wide, ..system() }.predict(8);
        assert!((idle.oets_per_minute / system().predict(8).oets_per_minute - 1.0).abs() < 0.01);
    }

    #[test]
    fn writes_take_spindles_from_the_reads_and_flushes_queue_behind_them() {
        let storage = Storage::Spindles { count: 8, service_s: 0.008, overhead_s: 0.0, cache_hit: 0.0 };
        let evicting = SpindleWrites { evicting_s: 0.040, ..SpindleWrites::default() };
        let found = System { storage, spindle_writes: evicting, ..system() }.predict(400);
        // An order is 80 ms of reads and 40 ms of writes: 8 spindles do 67 orders per second.
        assert!((found.oets_per_minute / 4_000.0 - 1.0).abs() < 0.03, "{found:?}");
        assert_eq!(found.bottleneck, BottleneckKind::Disk);
        let log = SpindleWrites { log_s: 0.008, log_waits: 1.0, gathered: 1.0, ..SpindleWrites::default() };
        let flushing = System { storage, spindle_writes: log, flush_s: 0.008, ..system() };
        let each = |users: u32| flushing.predict(users).shares[2].1 * flushing.predict(users).round_ms / 2.0;
        assert!((each(1) - 8.0).abs() < 1.0 && each(64) > 4.0 * each(1), "{} {}", each(1), each(64));
    }

    #[test]
    fn one_flush_carries_the_more_commits_the_more_users_there_are() {
        let storage = Storage::Spindles { count: 1, service_s: 0.001, overhead_s: 0.0, cache_hit: 0.0 };
        let log = SpindleWrites { log_s: 0.002, log_waits: 1.0, gathered: 1.0, ..SpindleWrites::default() };
        let found = System { storage, spindle_writes: log, reads: 1.0, flush_s: 0.002, cpu_s: 1e-5, ..system() }.predict(200);
        // With one flush for each of the 2 commits, an order would take 5 ms of the spindle: at most 12,000 a minute.
        assert!(found.oets_per_minute > 30_000.0, "{found:?}");
    }

    #[test]
    fn locks_take_their_share_and_grow_with_the_users() {
        let locked = System { locks: Locks::fit(0.3, 8, 4), ..system() };
        let (free, held) = (system().predict(8), locked.predict(8));
        assert!((held.oets_per_minute / free.oets_per_minute - 0.7).abs() < 0.02, "{held:?}");
        assert!(locked.predict(1).oets_per_minute > 0.99 * system().predict(1).oets_per_minute);
        assert_eq!(locked.predict(32).bottleneck, BottleneckKind::LockWait);
    }

    #[test]
    fn group_commit_waits_at_most_half_a_flush_more() {
        let flushing = System { flush_s: 0.010, reads: 0.0, cpu_s: 1e-6, ..system() };
        assert!((flushing.predict(1).round_ms - 20.0).abs() < 0.01);
        assert!((flushing.predict(100).round_ms - 30.0).abs() < 0.3);
    }

    #[test]
    fn few_users_are_measured_with_colder_buffers_than_many() {
        let cache = Cache { blocks: 14_000.0, full_after: 1_100.0, exponent: 0.5, growth: 0.0 };
        let cold = System { cold_start: Some(ColdStart { cache, warmup_s: 10.0, measured_s: 25.0 }), ..system() };
        let (one, many) = (cold.predict(1), cold.predict(16));
        assert!(one.reads_per_order > 1.5 * many.reads_per_order, "{one:?} {many:?}");
        assert!(many.oets_per_minute > 20.0 * one.oets_per_minute, "{one:?} {many:?}");
    }
}
