//! A small event simulation of a database host, so that the model is checked against results that none of its formulas
//! produced: processors and spindles serve in order of arrival, buffers keep recently used pages, one flush serves all that wait.

use std::collections::{BTreeMap, HashMap, VecDeque};

use results::compare::{
    Comparison, CpuTime, DatabaseCounters, Filling, Io, MediumCounts, PathResult, PathStatus, ProcedureCount, Proof, Run, RunLoad,
};
use results::judgement::{ReadLatency, SlotUse};
use sim::Rng;

use super::ladder::{errors, ladder};

const MEDIUM: &str = "spindles=80,service_ms=2,distribution=exponential,nvram=on";
const SPINDLES: u64 = 80;
const CORES: usize = 2;
/// Pages of the data, and pages that fit into the buffers.
const PAGES: f64 = 40_000.0;
const BUFFERS: usize = 3_000;
/// Pages that an order uses.
const TOUCHES: u32 = 12;
/// Number of times in the warm-up at which the reads are counted.
const SAMPLES: u32 = 8;

/// Seconds. The spindle time of reads and processor times (of a page, of the path of a call) vary around these; that of a flush does not.
struct Times {
    service_s: f64,
    touch_s: f64,
    way_s: f64,
    flush_s: f64,
    warmup_s: f64,
    measured_s: f64,
}

const TIMES: Times =
    Times { service_s: 0.002, touch_s: 0.000_1, way_s: 0.000_12, flush_s: 0.000_3, warmup_s: 4.0, measured_s: 10.0 };

/// The next step of a user after an event.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Touch,
    ReadGranted,
    ReadArrived,
    ReadDone,
    WriteGranted,
    WriteDone,
    FlushGranted,
    FlushArrived,
    FlushDone,
}

#[derive(Default, Clone, Copy)]
struct Counts {
    orders: u64,
    reads: u64,
    read_s: f64,
    medium_s: f64,
    flushes: u64,
    flush_s: f64,
    users_cpu_s: f64,
    way_cpu_s: f64,
    held_s: f64,
    wait_s: f64,
    calls: u64,
}

struct Host {
    chance: Rng,
    now: f64,
    events: BTreeMap<(u64, u64), (usize, Step, bool)>, // by ns and number: who, what next, whether a processor gets free
    number: u64,
    idle: usize,
    ready: VecDeque<(usize, Step, f64)>,
    slots: usize,
    queue: VecDeque<(usize, Step, f64)>,
    spindles: Vec<f64>,
    recency: BTreeMap<u64, u64>,
    pages: HashMap<u64, u64>,
    touches: Vec<u32>,
    began: Vec<f64>,
    granted: Vec<f64>,
    waiting: Vec<usize>,
    flushed: Vec<usize>,
    done: Counts,
}

impl Host {
    fn drawn(&mut self, mean: f64) -> f64 {
        -(1.0 - self.chance.bits() as f64 / 1.9e19).max(1e-12).ln() * mean
    }

    fn at(&mut self, time: f64, who: usize, step: Step, processor: bool) {
        self.number += 1;
        self.events.insert(((time * 1e9) as u64, self.number), (who, step, processor));
    }

    fn work(&mut self, who: usize, step: Step, seconds: f64) {
        if self.idle == 0 {
            return self.ready.push_back((who, step, seconds));
        }
        self.idle -= 1;
        self.at(self.now + seconds, who, step, true);
    }

    fn call(&mut self, who: usize, step: Step) {
        self.began[who] = self.now;
        self.queue.push_back((who, step, self.now));
        self.grant();
    }

    fn grant(&mut self) {
        while self.slots > 0 {
            let Some((who, step, since)) = self.queue.pop_front() else { return };
            self.slots -= 1;
            self.done.calls += 1;
            self.done.wait_s += self.now - since;
            self.granted[who] = self.now;
            self.at(self.now, who, step, false);
        }
    }

    fn release(&mut self, who: usize) {
        self.slots += 1;
        self.done.held_s += self.now - self.granted[who];
        self.grant();
    }

    /// Whether a page was in the buffers. Puts it there if not.
    fn found(&mut self, page: u64) -> bool {
        self.number += 1;
        let before = self.pages.insert(page, self.number);
        before.and_then(|stamp| self.recency.remove(&stamp));
        self.recency.insert(self.number, page);
        if self.pages.len() > BUFFERS {
            let (_, oldest) = self.recency.pop_first().unwrap();
            self.pages.remove(&oldest);
        }
        before.is_some()
    }

    fn touch_next(&mut self, who: usize) {
        let seconds = self.drawn(TIMES.touch_s);
        self.done.users_cpu_s += seconds;
        self.work(who, Step::Touch, seconds);
    }

    fn way(&mut self, who: usize, step: Step) {
        let seconds = self.drawn(TIMES.way_s);
        self.done.way_cpu_s += seconds;
        self.work(who, step, seconds);
    }

    /// The log writes for all that wait.
    fn flush(&mut self) {
        let log = self.touches.len();
        if self.flushed.is_empty() && !self.waiting.is_empty() {
            self.flushed = std::mem::take(&mut self.waiting);
            self.call(log, Step::WriteGranted);
        }
    }

    fn step(&mut self, who: usize, step: Step) {
        match step {
            Step::Touch if self.touches[who] == TOUCHES => {
                self.touches[who] = 0;
                self.waiting.push(who);
                self.flush();
            }
            Step::Touch => {
                self.touches[who] += 1;
                // A few pages are used often, most of them rarely.
                let page = (PAGES * (self.chance.bits() as f64 / 1.9e19).powi(4)) as u64;
                if self.found(page) { self.touch_next(who) } else { self.call(who, Step::ReadGranted) }
            }
            Step::ReadGranted => self.way(who, Step::ReadArrived),
            Step::ReadArrived => {
                let spindle = self.chance.below(SPINDLES) as usize;
                let end = self.spindles[spindle].max(self.now) + self.drawn(TIMES.service_s);
                self.spindles[spindle] = end;
                self.done.medium_s += end - self.now;
                self.at(end, who, Step::ReadDone, false);
            }
            Step::ReadDone => {
                self.release(who);
                self.done.reads += 1;
                self.done.read_s += self.now - self.began[who];
                self.touch_next(who);
            }
            Step::WriteGranted => self.way(who, Step::WriteDone),
            Step::WriteDone => {
                self.release(who);
                self.call(who, Step::FlushGranted);
            }
            Step::FlushGranted => self.way(who, Step::FlushArrived),
            Step::FlushArrived => self.at(self.now + TIMES.flush_s, who, Step::FlushDone, false),
            Step::FlushDone => {
                self.release(who);
                self.done.flushes += 1;
                self.done.flush_s += self.now - self.began[who];
                for user in std::mem::take(&mut self.flushed) {
                    self.done.orders += 1;
                    self.touch_next(user);
                }
                self.flush();
            }
        }
    }

    fn until(&mut self, end: f64) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 as f64 / 1e9 <= end) {
            let ((ns, _), (who, step, processor)) = entry.remove_entry();
            self.now = ns as f64 / 1e9;
            if processor {
                self.idle += 1;
                if let Some((next, step, seconds)) = self.ready.pop_front() {
                    self.work(next, step, seconds);
                }
            }
            self.step(who, step);
        }
    }
}

/// Work done at some moments of the warm-up, the last of which is its end, and at the end of the interval.
fn simulate(users: usize, slots: usize) -> (Vec<Counts>, Counts) {
    let mut host = Host {
        chance: Rng::new(users as u64 * 1_000 + slots as u64),
        now: 0.0,
        events: BTreeMap::new(),
        number: 0,
        idle: CORES,
        ready: VecDeque::new(),
        slots,
        queue: VecDeque::new(),
        spindles: vec![0.0; SPINDLES as usize],
        recency: BTreeMap::new(),
        pages: HashMap::new(),
        touches: vec![0; users],
        began: vec![0.0; users + 1],
        granted: vec![0.0; users + 1],
        waiting: Vec::new(),
        flushed: Vec::new(),
        done: Counts::default(),
    };
    (0..users).for_each(|user| host.touch_next(user));
    let mut sample = |end: f64| {
        host.until(end);
        host.done
    };
    let samples = (1..=SAMPLES).map(|number| sample(TIMES.warmup_s * f64::from(number) / f64::from(SAMPLES))).collect();
    (samples, sample(TIMES.warmup_s + TIMES.measured_s))
}

/// The record of a run on this host.
fn record(users: u32, slots: u32) -> PathResult {
    let (samples, after) = simulate(users as usize, slots as usize);
    let before = samples.last().copied().unwrap();
    let count = |pick: fn(&Counts) -> u64| pick(&after) - pick(&before);
    let sum = |pick: fn(&Counts) -> f64| pick(&after) - pick(&before);
    let (orders, reads, flushes) = (count(|done| done.orders), count(|done| done.reads), count(|done| done.flushes));
    let oets = orders as f64 / TIMES.measured_s * 60.0;
    let calls = |calls: u64| ProcedureCount { calls, bytes: 0 };
    let cpu = |user_s: f64| CpuTime { user_s, sys_s: 0.0 };
    let run = Run {
        measured_s: TIMES.measured_s,
        warmup_s: TIMES.warmup_s,
        orders,
        oets_per_minute: oets,
        warmup_per_second: vec![before.orders],
        filling: samples.iter().map(|seen| Filling { orders: seen.orders, read_bytes: seen.reads * 8192 }).collect(),
        cpu: BTreeMap::from([
            ("database".to_owned(), cpu(sum(|done| done.users_cpu_s))),
            ("filer".to_owned(), cpu(sum(|done| done.way_cpu_s))),
        ]),
        filer: BTreeMap::from([("READ".to_owned(), calls(reads)), ("WRITE".to_owned(), calls(2 * flushes))]),
        database: DatabaseCounters {
            blocks_read: reads,
            block_read_ms: sum(|done| done.read_s) * 1e3,
            log_syncs: flushes,
            log_sync_ms: sum(|done| done.flush_s) * 1e3,
            ..DatabaseCounters::default()
        },
        medium: Some(MediumCounts {
            reads,
            read_us: sum(|done| done.medium_s) / reads as f64 * 1e6,
            flushes,
            flush_us: TIMES.flush_s * 1e6,
            ..MediumCounts::default()
        }),
        proof: Proof { database_read_bytes: after.reads * 8192, ..Proof::default() },
        // 0.92 of the transactions commit: one per order.
        load: Some(RunLoad { model: "closed".into(), users, transactions: (orders as f64 / 0.92) as u64, ..RunLoad::default() }),
        ..Run::default()
    };
    let busy = (sum(|done| done.users_cpu_s) + sum(|done| done.way_cpu_s)) / (CORES as f64 * TIMES.measured_s);
    let (mean, wait_s) = (sum(|done| done.held_s) / TIMES.measured_s, sum(|done| done.wait_s));
    PathResult {
        name: "dnfs".into(),
        arm: format!("dnfs slots{slots} users={users}"),
        status: PathStatus::Measured,
        medium: Some(MEDIUM.to_owned()),
        users: Some(users),
        oets_per_minute: results::statistics::MeanInterval::of(&[oets]),
        cpu: Some(results::compare::Cpu { host_busy_share: busy, ..results::compare::Cpu::default() }),
        io: Some(Io { bytes: reads * 8192, ..Io::default() }),
        read_latency: Some(ReadLatency { count: reads, sum_us: sum(|done| done.read_s) * 1e6, ..ReadLatency::default() }),
        slot_use: Some(SlotUse { slots, mean, wait_s, calls: count(|done| done.calls), ..SlotUse::default() }),
        runs: vec![run],
        ..PathResult::default()
    }
}

#[test]
fn a_host_simulated_event_by_event_is_predicted_from_one_of_its_runs() {
    let mut comparison = Comparison::default();
    comparison.environment.cpu_count = CORES;
    comparison.plan.buffers_bytes = BUFFERS as u64 * 8192;
    for slots in [256, 8, 4] {
        comparison.paths.extend([1, 2, 4, 8, 16, 32].map(|users| record(users, slots)));
    }
    let predictions = ladder(&comparison);
    for point in &predictions {
        println!(
            "{} {:.0} {:.0} {:+.1} {}",
            point.held_out, point.predicted, point.measured, point.error_percent, point.bottleneck
        );
    }
    let errors = errors(&predictions).unwrap();
    assert_eq!(errors.count, 17);
    assert!(errors.median_percent < 5.0 && errors.worst_percent < 15.0, "{errors:?}");
}
