//! The figures that determine a bottleneck: how far each is from its limit, and by how much repeats would differ.

use results::compare::{BottleneckKind, MediumCounts, PathResult, Run, SessionState};

use super::waits::{Waits, waits};
use super::{OTHERS_BUSY_MAX, STOLEN_MAX, oets, share};
use crate::limits::WAIT_SAMPLE_EVERY;

/// Busy share of the host at which the processors are the limit. TR-3322 says 100 %; a host with few cores is idle for a
/// moment between two transactions of a closed loop.
pub(super) const HOST_BUSY_LIMIT: f64 = 0.90;
/// The same if sessions also queue for a processor, or do not wait for anything else.
pub(super) const QUEUEING_BUSY: f64 = 0.80;
/// Share of the sessions' time that makes a wait the limit.
pub(super) const WAIT_LIMIT: f64 = 0.25;
/// Busy share of its threads at which the driver is the limit.
pub(super) const DRIVER_BUSY_LIMIT: f64 = 0.85;
/// Mean share of occupied slots at which slots are the limit.
pub(super) const SLOTS_TAKEN_LIMIT: f64 = 0.80;
/// Share of calls that waited for a slot at which slots are the limit.
pub(super) const SLOTS_WAITED_LIMIT: f64 = 0.20;
/// Time of a read divided by the storage's own work for it (if only the client measures times: by the fastest tenth) from which
/// reads count as queueing there.
pub(super) const QUEUEING_RATIO: f64 = 2.0;
/// Share of one processor above which the filer's work for one connection cannot grow.
pub(super) const ONE_CONNECTION_BUSY: f64 = 0.85;

/// Standard errors by which a repeat is assumed to differ at most: 1 of 80 differs more.
const ERRORS_FAR: f64 = 2.5;
/// Smallest and largest relative difference that is assumed for figures of a repeat.
const NOISE: (f64, f64) = (0.03, 0.10);
/// The smallest difference if there are too few runs to measure their spread: ten runs of one load, on processors shared with
/// other machines, had a standard deviation of 8 % (4 users) and 13 % (6); the seconds of one run show a quarter of it. The busy
/// share has this minimum too: with 16 users it was 87 to 96 %.
const NOISE_UNKNOWN: f64 = 0.07;
/// The largest difference for a wait, which is sampled a few times per second: with a smaller limit, the label of a short run would be
/// random.
const WAIT_NOISE_MAX: f64 = 0.30;
/// The largest difference for waiting for a processor.
const QUEUE_NOISE_MAX: f64 = 0.50;
/// Factor for the deviation of a share (at most a half) by which a busy share varies with the load: the complete variation up to 80 %.
const BUSY_ROOM: f64 = 2.5;
/// Smallest share of the processors' time that is assumed to be idle.
const IDLE_MIN: f64 = 0.01;
/// Upper limit of the score of limited concurrency: the nearest limit is at a tenth.
const CONCURRENCY_MAX: f64 = 10.0;

/// How much longer a read takes at the storage than the storage's own work for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queueing {
    /// Time divided by work, at least 1.
    pub(super) ratio: f64,
    /// Whether a modelled medium counted it, for reads and writes together; otherwise, the fastest tenth by the NFS client's clock
    /// represents a read that does not wait.
    pub(super) by_medium: bool,
}

/// The input of the decision: means over the runs of a configuration; shares from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) others: f64,
    pub(super) stolen: f64,
    pub(super) busy: f64,
    /// Busy share of the driver's threads.
    pub(super) driver: Option<f64>,
    /// Share of the sessions' time in which they were ready to run and had no processor.
    pub(super) queued: Option<f64>,
    pub(super) waits: Waits,
    pub(super) slots_taken: Option<f64>,
    pub(super) slots_waited: Option<f64>,
    /// Processors that the filer's side of a single connection keeps busy; `None` with several connections or if they are not counted.
    pub(super) connection: Option<f64>,
    pub(super) queueing: Option<Queueing>,
}

/// The waits that can be a bottleneck.
pub(super) const STORAGE_AND_LOCKS: [SessionState; 4] =
    [SessionState::BlockReads, SessionState::Log, SessionState::Locks, SessionState::DataWrites];

/// A figure that can differ in a repeat.
#[derive(Debug, Clone)]
pub(super) enum Figure {
    Others,
    Stolen,
    /// Busy processors, and the queue for them, which is longer the fewer are idle.
    Busy,
    Driver,
    Queued,
    Wait(SessionState),
    SlotsTaken,
    SlotsWaited,
    Connection,
    Queueing,
}

/// Expected relative difference between repeats of the configuration's runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    /// For figures that vary with the throughput.
    load: f64,
    /// The minimum for a busy share.
    least: f64,
    /// Number of sampled session states, over all runs.
    looks: f64,
}

impl Figures {
    /// The figures of a configuration.
    pub(super) fn of(path: &PathResult) -> Self {
        let cpu = path.cpu.clone().unwrap_or_default();
        let slots = path.slot_use.as_ref().filter(|slots| slots.slots > 0);
        Self {
            others: cpu.others_busy_share,
            stolen: cpu.stolen_share,
            busy: cpu.host_busy_share,
            driver: driver_busy(&path.runs),
            queued: queued_share(&path.runs),
            waits: waits(&path.runs),
            slots_taken: slots.map(|slots| share(slots.mean, f64::from(slots.slots))),
            slots_waited: slots.map(|slots| share(slots.waits as f64, slots.calls as f64)),
            connection: (connections(&path.runs) == Some(1)).then(|| filer_busy(path)),
            queueing: queueing(path),
        }
    }

    /// The wait with the largest share of the sessions' time, of those that can be a bottleneck.
    pub(super) fn longest_wait(&self) -> (SessionState, f64) {
        let parts = self.waits.by_state().into_iter().filter(|(state, _)| STORAGE_AND_LOCKS.contains(state));
        parts.fold((SessionState::OtherWaits, 0.0), |best, next| if next.1 > best.1 { next } else { best })
    }

    /// Score of queueing for processors. Sessions that wait for storage leave processors idle at times, and queue for them at others.
    /// Every other wait includes such queueing: it ends when its process gets a processor, not when the data arrive. So queueing
    /// indicates the processors if it is the longest wait, or if they are nearly fully used; from 1 on.
    pub(super) fn queueing_for_processors(&self) -> f64 {
        let queued = self.queued.unwrap_or(0.0);
        let longest = self.longest_wait().1;
        let stands_out = if longest > 0.0 { queued / longest } else { f64::INFINITY };
        (queued / WAIT_LIMIT).min(stands_out.max(self.busy / QUEUEING_BUSY))
    }

    /// Utilization of each of the places at which a read may wait, 1 at its limit.
    fn of_reads(&self) -> [(BottleneckKind, f64); 3] {
        let over = |figure: Option<f64>, limit: f64| figure.unwrap_or(0.0) / limit;
        let slots = over(self.slots_taken, SLOTS_TAKEN_LIMIT).max(over(self.slots_waited, SLOTS_WAITED_LIMIT));
        [
            (BottleneckKind::Slots, slots),
            (BottleneckKind::OneConnection, over(self.connection, ONE_CONNECTION_BUSY)),
            (BottleneckKind::Disk, over(self.queueing.map(|queueing| queueing.ratio), QUEUEING_RATIO)),
        ]
    }

    /// Every cause with its figure divided by the limit at which it identifies the cause; a cause may occur twice. The causes of
    /// waiting reads share the reads' score, reduced if their own figure is below its limit. Limited concurrency is the more likely the
    /// farther all figures are from their limits.
    pub(super) fn scores(&self) -> Vec<(BottleneckKind, f64)> {
        let mut scores = vec![
            (BottleneckKind::Interference, (self.others / OTHERS_BUSY_MAX).max(self.stolen / STOLEN_MAX)),
            (BottleneckKind::Driver, self.driver.unwrap_or(0.0) / DRIVER_BUSY_LIMIT),
            (BottleneckKind::HostCpu, (self.busy / HOST_BUSY_LIMIT).max(self.queueing_for_processors())),
        ];
        let mut users_alone: f64 = 0.0;
        for (state, part) in self.waits.by_state() {
            let wait = part / WAIT_LIMIT;
            match state {
                SessionState::BlockReads => {
                    let places = self.of_reads();
                    let fullest = places.iter().map(|place| place.1).fold(0.0, f64::max);
                    users_alone = wait * (1.0 / fullest.max(1.0 / CONCURRENCY_MAX)).min(1.0);
                    scores.extend(places.map(|(kind, used)| (kind, wait * used.min(1.0))));
                }
                SessionState::Log => scores.push((BottleneckKind::LogFlush, wait)),
                SessionState::Locks => scores.push((BottleneckKind::LockWait, wait)),
                SessionState::DataWrites => scores.push((BottleneckKind::Disk, wait)),
                _ => {}
            }
        }
        let nearest = scores.iter().map(|(_, score)| *score).fold(1.0 / CONCURRENCY_MAX, f64::max);
        scores.push((BottleneckKind::Concurrency, users_alone.max(1.0 / nearest)));
        scores
    }

    /// All figures that may differ in a repeat.
    pub(super) fn varied() -> impl Iterator<Item = Figure> {
        let waits = STORAGE_AND_LOCKS.into_iter().map(Figure::Wait);
        let others = [Figure::Others, Figure::Stolen, Figure::Busy, Figure::Driver, Figure::Queued];
        let places = [Figure::SlotsTaken, Figure::SlotsWaited, Figure::Connection, Figure::Queueing];
        others.into_iter().chain(waits).chain(places)
    }

    /// Idle share of the processors' time.
    fn idle(&self) -> f64 {
        (1.0 - self.busy).max(IDLE_MIN)
    }

    /// The same figures with one multiplied by `1 + part`; a busy share is limited to 1.
    pub(super) fn with(mut self, figure: &Figure, part: f64) -> Self {
        let times = 1.0 + part;
        match figure {
            Figure::Others => self.others *= times,
            Figure::Stolen => self.stolen *= times,
            Figure::Busy => {
                let idle = self.idle();
                self.busy = (self.busy * times).min(1.0);
                let longer = (idle / self.idle()).clamp(1.0 / (1.0 + QUEUE_NOISE_MAX), 1.0 + QUEUE_NOISE_MAX);
                self.queued = self.queued.map(|queued| queued * longer);
            }
            Figure::Driver => self.driver = self.driver.map(|busy| (busy * times).min(1.0)),
            Figure::Queued => self.queued = self.queued.map(|queued| queued * times),
            Figure::Wait(state) => *self.waits.of(state) *= times,
            Figure::SlotsTaken => self.slots_taken = self.slots_taken.map(|taken| taken * times),
            Figure::SlotsWaited => self.slots_waited = self.slots_waited.map(|waited| waited * times),
            Figure::Connection => self.connection = self.connection.map(|busy| busy * times),
            Figure::Queueing => {
                // The wait varies, not the work.
                let longer = |found: Queueing| Queueing { ratio: 1.0 + (found.ratio - 1.0) * times, ..found };
                self.queueing = self.queueing.map(longer);
            }
        }
        self
    }
}

impl Noise {
    /// The differences that the runs indicate: the error of their throughput from its seconds (batch means, as for intervals), or the
    /// spread between runs if that is larger.
    pub(super) fn of(path: &PathResult) -> Self {
        let runs = oets(path);
        let count = runs.len() as f64;
        let mean = share(runs.iter().map(|run| run.value).sum(), count);
        let errors: Option<f64> = runs.iter().map(|run| run.standard_error.map(|error| error * error)).sum();
        let within = errors.map(|squares| squares.sqrt() / count);
        let squares: f64 = runs.iter().map(|run| (run.value - mean).powi(2)).sum();
        let between = (runs.len() > 2).then(|| (squares / (count - 1.0) / count).sqrt());
        let error = within.into_iter().chain(between).reduce(f64::max).filter(|_| mean > 0.0);
        let least = if between.is_some() { NOISE.0 } else { NOISE_UNKNOWN };
        let load = error.map_or(NOISE_UNKNOWN, |error| (ERRORS_FAR * error / mean).clamp(least, NOISE.1));
        let sessions = |run: &Run| run.load.as_ref().map_or(1, |load| load.connections.max(1));
        let looks = path.runs.iter().map(|run| run.measured_s / WAIT_SAMPLE_EVERY.as_secs_f64() * f64::from(sessions(run))).sum();
        Self { load, least, looks }
    }

    /// The difference of one figure: a wait occurs in some of the samples of the sessions, and in a repeat in more or fewer of them. A
    /// share close to all of the time can hardly vary.
    pub(super) fn of_figure(&self, figures: &Figures, figure: &Figure) -> f64 {
        if matches!(figure, Figure::Queued) {
            // Like a queue at the storage.
            return (self.load / figures.idle()).min(QUEUE_NOISE_MAX);
        }
        if matches!(figure, Figure::Busy) {
            let room = (figures.busy * (1.0 - figures.busy)).max(0.0).sqrt();
            return (self.load * (BUSY_ROOM * room).min(1.0)).max(self.least);
        }
        if let (Figure::Queueing, Some(queueing)) = (figure, figures.queueing) {
            // The wait in a queue grows faster than the load: with one server, by the factor of its time divided by the work.
            return (self.load * queueing.ratio).min(WAIT_NOISE_MAX);
        }
        let Figure::Wait(state) = figure else { return self.load };
        let mut waits = figures.waits;
        let part = waits.of(state).clamp(0.0, 1.0);
        if part <= 0.0 || self.looks <= 0.0 {
            return self.load;
        }
        let sampled = ERRORS_FAR * ((1.0 - part) / part / self.looks).sqrt();
        self.load.hypot(sampled).min(WAIT_NOISE_MAX)
    }
}

/// Share of the sessions' time in which they were ready to run and had no processor; `None` if the kernel does not report it.
pub(super) fn queued_share(runs: &[Run]) -> Option<f64> {
    let (mut queued_s, mut time_s) = (0.0, 0.0);
    for run in runs {
        queued_s += run.processor_queue_s.get("database")?;
        time_s += f64::from(run.load.as_ref()?.connections) * run.measured_s;
    }
    (time_s > 0.0).then(|| queued_s / time_s)
}

/// Busy share of the driver's threads; `None` if their number is not known.
fn driver_busy(runs: &[Run]) -> Option<f64> {
    let (mut busy, mut capacity) = (0.0, 0.0);
    for run in runs {
        let threads = run.load.as_ref().map(|load| load.threads).filter(|threads| *threads > 0)?;
        busy += run.cpu.get("driver")?.total_s();
        capacity += f64::from(threads) * run.measured_s;
    }
    (capacity > 0.0).then(|| busy / capacity)
}

/// Largest number of connections of the data's filers in any run; `None` without a filer of Millrace.
fn connections(runs: &[Run]) -> Option<u64> {
    runs.iter().filter_map(|run| run.connections).max()
}

/// Number of processors that the filer keeps busy.
fn filer_busy(path: &PathResult) -> f64 {
    let busy: f64 = path.runs.iter().filter_map(|run| run.cpu.get("filer")).map(results::compare::CpuTime::total_s).sum();
    share(busy, path.runs.iter().map(|run| run.measured_s).sum())
}

fn queueing(path: &PathResult) -> Option<Queueing> {
    let of = |pick: fn(&MediumCounts) -> f64| path.runs.iter().filter_map(|run| run.medium.as_ref()).map(pick).sum::<f64>();
    let (busy_s, queued_s) = (of(|medium| medium.busy_s), of(|medium| medium.queued_s));
    if busy_s > 0.0 {
        return Some(Queueing { ratio: 1.0 + queued_s / busy_s, by_medium: true });
    }
    let latency = path.read_latency.as_ref()?;
    let quick = latency.quantile_us(0.1).filter(|quick| *quick > 0.0)?;
    Some(Queueing { ratio: latency.mean_us()? / quick, by_medium: false })
}
