//! The network in equilibrium: times that depend on the throughput are computed together with it.

use super::model::{Steady, Storage, System};
use super::network::{Station, solve, throughputs};
use super::processors::Shared;

/// Calls of a flush, each with its path and its wait for a slot: the log's WRITE, then its COMMIT.
pub(super) const FLUSH_CALLS: f64 = 2.0;
/// Smallest share of processors or slots that is left to the users, so that the search does not divide by zero.
const LEFT_MIN: f64 = 0.02;
/// Most iterations of the search for the equilibrium, and the relative change at which it ends.
const ROUNDS_MAX: u32 = 60;
const CHANGE_MIN: f64 = 1e-5;
/// Largest and smallest step towards the result of an iteration, and the factor by which a step grows again.
const STEP_MAX: f64 = 0.5;
const STEP_MIN: f64 = 1e-4;
const STEP_GROWTH: f64 = 1.2;

/// Load that the users cause for each other outside the stations.
#[derive(Debug, Clone, Copy)]
struct Burden {
    orders_per_s: f64,
    /// Wait of one call for a slot.
    slot_wait_s: f64,
    stretch: f64,
    /// Wait of one call for its spindle.
    spindle_wait_s: f64,
    flushes_per_s: f64,
}

/// Data blocks that one order reads and writes.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    reads: f64,
    writes: f64,
}

impl Burden {
    fn towards(self, other: Self, part: f64) -> Self {
        let step = |from: f64, to: f64| from + (to - from) * part;
        Self {
            orders_per_s: step(self.orders_per_s, other.orders_per_s),
            slot_wait_s: step(self.slot_wait_s, other.slot_wait_s),
            stretch: step(self.stretch, other.stretch),
            spindle_wait_s: step(self.spindle_wait_s, other.spindle_wait_s),
            flushes_per_s: step(self.flushes_per_s, other.flushes_per_s),
        }
    }
}

impl System {
    /// The equilibrium for `users` if an order reads and writes this number of blocks.
    pub(super) fn steady(&self, users: u32, reads: f64, writes: f64) -> Steady {
        let blocks = Blocks { reads, writes };
        let active = f64::from(users) * (1.0 - self.locks.share(users));
        let mut burden =
            Burden { orders_per_s: self.most(blocks), slot_wait_s: 0.0, stretch: 1.0, spindle_wait_s: 0.0, flushes_per_s: 0.0 };
        let (mut found, mut next) = self.solved(users, active, blocks, &burden);
        let (mut part, mut rose) = (STEP_MAX, true);
        for _ in 0..ROUNDS_MAX {
            let rises = next.orders_per_s > burden.orders_per_s;
            // Overshot: close to saturated processors, slightly less load allows much more throughput.
            part = if rises == rose { (part * STEP_GROWTH).min(STEP_MAX) } else { part / 2.0 };
            rose = rises;
            let before = burden;
            burden = burden.towards(next, part);
            (found, next) = self.solved(users, active, blocks, &burden);
            let change = |a: f64, b: f64| (a - b).abs() > CHANGE_MIN * a.abs().max(b.abs());
            let moved = change(next.orders_per_s, burden.orders_per_s)
                || change(next.slot_wait_s, burden.slot_wait_s)
                || change(next.spindle_wait_s, burden.spindle_wait_s);
            if !moved || (part < STEP_MIN && !change(before.orders_per_s, burden.orders_per_s)) {
                break;
            }
        }
        found
    }

    /// Upper limit of the throughput for any users: the search for the equilibrium begins there.
    fn most(&self, blocks: Blocks) -> f64 {
        let over = |room: f64, work: f64| if work > 0.0 { room / work } else { f64::INFINITY };
        let slots = self.slots.map_or(f64::INFINITY, |slots| over(f64::from(slots), self.held_s + self.held_path_s));
        let spindles = match self.storage {
            Storage::Spindles { count, service_s, cache_hit, .. } => {
                let reading_s = blocks.reads * service_s * (1.0 - cache_hit);
                over(count as f64, reading_s + self.written_s(blocks.writes))
            }
            Storage::Latency { .. } => f64::INFINITY,
        };
        let most = over(self.cores, self.cpu_with(blocks.reads)).min(slots).min(spindles);
        if most.is_finite() { most / 2.0 } else { 0.0 }
    }

    /// Spindle work for the data blocks that one order writes, if users write this number of blocks to free buffers.
    fn written_s(&self, writes: f64) -> f64 {
        let full = if self.writes > 0.0 { (writes / self.writes).min(1.0) } else { 1.0 };
        self.spindle_writes.extending_s + self.spindle_writes.evicting_s * full
    }

    /// Flushes per second for a rate of commits, if each flush takes `flush_s`: one per commit while they are few, and
    /// at most one after the other if every commit finds a flush in progress.
    fn flushes(&self, commits_per_s: f64, flush_s: f64, users: f64) -> f64 {
        let others = (users - 1.0).max(0.0) / users.max(1.0);
        commits_per_s / (1.0 + self.spindle_writes.gathered * commits_per_s * flush_s * others)
    }

    /// The burden that a solution causes. A call waits for its spindle like a read does: for the time of a read there minus the work
    /// for it.
    fn burden(&self, steady: &Steady, reads: f64, flush_s: f64, active: f64) -> Burden {
        let reads_per_s = steady.orders_per_s * reads;
        let each = |customers: f64| if reads_per_s > 0.0 { customers / reads_per_s } else { 0.0 };
        let spindle_wait_s = match self.storage {
            Storage::Spindles { service_s, overhead_s, cache_hit, .. } => {
                let way_s = overhead_s + self.read_path_s * steady.stretch;
                let at_spindle_s = (each(steady.reads_served) - way_s) / (1.0 - cache_hit).max(LEFT_MIN);
                (at_spindle_s - service_s).max(0.0)
            }
            Storage::Latency { .. } => 0.0,
        };
        Burden {
            orders_per_s: steady.orders_per_s,
            slot_wait_s: if self.slots.is_some() { each(steady.at_storage - steady.reads_served) } else { 0.0 },
            stretch: steady.stretch,
            spindle_wait_s,
            flushes_per_s: self.flushes(steady.orders_per_s * self.commits, flush_s, active),
        }
    }

    /// One step: solves the network under a burden, and computes the resulting burden. Commits: one flush serves all that wait, but
    /// a commit that arrives during a flush waits for the next one. A single user waits for one flush, many for one and a half on average.
    fn solved(&self, users: u32, active: f64, Blocks { reads, writes }: Blocks, burden: &Burden) -> (Steady, Burden) {
        let cpu_s = self.cpu_with(reads);
        let users_s = cpu_s * (1.0 - self.beside);
        let load = (self.taken + burden.orders_per_s * cpu_s * self.beside).min(self.cores * (1.0 - LEFT_MIN));
        let processors = Shared { cores: self.cores, load };
        let spindles_writing = self.spindles_writing(writes, burden);
        let alone = self.storage_alone(users, reads, burden.stretch, 1.0 - spindles_writing);
        let slots = self.slots.map_or(f64::INFINITY, |slots| {
            let slots = f64::from(slots.max(1));
            (slots - burden.orders_per_s * (self.held_s + self.held_path_s * burden.stretch)).max(slots * LEFT_MIN)
        });
        let counts = || (1..=users.max(1)).map(f64::from);
        let over = |done: f64, work: f64| if work > 0.0 { done / work } else { f64::INFINITY };
        let call_s = |path_s: f64| path_s * burden.stretch + burden.slot_wait_s;
        let flush_s = self.flush_s + self.flush_path_s;
        let queued_s = self.spindle_writes.log_waits * burden.spindle_wait_s;
        let flush_s = if flush_s > 0.0 { self.flush_s + queued_s + FLUSH_CALLS * call_s(self.flush_path_s) } else { 0.0 };
        let writing_s = writes * call_s(self.write_path_s);
        let stations = [
            Station::Rates(counts().map(|count| over(processors.met(count).served, users_s)).collect()),
            Station::Rates(counts().map(|count| at(&alone, count.min(slots))).collect()),
            Station::Rates(counts().map(|count| over(count, self.commits * flush_s * (1.5 - 0.5 / count))).collect()),
            Station::Delay(self.other_s + writing_s),
        ];
        let (orders_per_s, customers) = interpolated(&stations, active);
        let customers = |place: usize| customers.get(place).copied().unwrap_or(0.0);
        let reads_served = served(&alone, orders_per_s).min(slots).min(customers(1));
        let stretch = 1.0 + self.queueing * (processors.met(customers(0)).stretch - 1.0);
        let steady = Steady {
            orders_per_s,
            at_processors: customers(0),
            at_storage: customers(1),
            at_log: customers(2),
            at_writes: orders_per_s * writing_s,
            elsewhere: orders_per_s * self.other_s,
            reads_served,
            stretch,
            spindles_writing,
        };
        (steady, self.burden(&steady, reads, flush_s, active))
    }

    /// Share of the spindles' time that writes and flushes take; they take precedence over reads.
    fn spindles_writing(&self, writes: f64, burden: &Burden) -> f64 {
        let Storage::Spindles { count, .. } = self.storage else { return 0.0 };
        let busy = burden.orders_per_s * self.written_s(writes) + burden.flushes_per_s * self.spindle_writes.log_s;
        (busy / count.max(1) as f64).min(1.0 - LEFT_MIN)
    }

    /// Orders per second for which the storage completes the reads with 0, 1, … of them in flight, without any other limit.
    /// The writes leave a part `left` of the spindles' time.
    fn storage_alone(&self, users: u32, reads: f64, stretch: f64, left: f64) -> Vec<f64> {
        let most = usize::try_from(users).unwrap_or(1).max(1);
        let path_s = self.read_path_s * stretch;
        match self.storage {
            Storage::Latency { seconds } => throughputs(&[Station::Delay(reads * (seconds + path_s))], most),
            Storage::Spindles { count, service_s, overhead_s, cache_hit } => throughputs(
                &[
                    Station::Delay(reads * (overhead_s + path_s)),
                    Station::Spread(reads * service_s * (1.0 - cache_hit) / left, count),
                ],
                most,
            ),
        }
    }
}

/// The rate for a count, interpolated for fractional counts.
fn at(rates: &[f64], count: f64) -> f64 {
    let below = count.max(0.0).floor();
    let part = count.max(0.0) - below;
    let rate = |place: f64| rates.get(place as usize).or(rates.last()).copied().unwrap_or(f64::INFINITY);
    let low = rate(below);
    if part < 1e-9 { low } else { low + (rate(below + 1.0) - low) * part }
}

/// Number in flight that a rate of orders per second needs: the inverse of [`at`].
fn served(rates: &[f64], orders_per_s: f64) -> f64 {
    let reached = rates.iter().position(|rate| *rate >= orders_per_s).unwrap_or(rates.len());
    let rate = |place: usize| rates.get(place).copied();
    let Some((low, high)) = reached.checked_sub(1).and_then(|below| Some((rate(below)?, rate(reached)?))) else {
        return reached as f64;
    };
    let part = if high.is_finite() && high > low { (orders_per_s - low) / (high - low) } else { 0.0 };
    (reached - 1) as f64 + part
}

/// Throughput and customers for a number of customers, interpolated for fractional numbers.
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
    // If nothing takes time, there is nothing to interpolate.
    if part < 1e-9 || low.0.is_infinite() {
        return low;
    }
    let high = at(below + 1.0);
    let mix = |a: f64, b: f64| a + (b - a) * part;
    let customers = low.1.iter().zip(&high.1).map(|(a, b)| mix(*a, *b)).collect();
    (mix(low.0, high.0), customers)
}
