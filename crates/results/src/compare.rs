//! The record of one comparison: `results.json`, schema 1.
//!
//! Fields are added, never renamed. Every figure of a path stands on the runs in
//! [`PathResult::runs`]; means carry their interval ([`MeanInterval`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::curves::{CurvePoint, LadderStep, StandsFor};
use crate::environment::Environment;
use crate::judgement::{ArrayLatency, FixedLoad, Little, Prediction, ReadLatency, RelativeDifference, SlotUse, Steady, Wire};
use crate::orders_run::{Conform, SeriesSecond};
use crate::statistics::{Difference, MeanInterval};

/// Version of the record's shape.
pub const SCHEMA: u32 = 1;

/// One comparison of storage paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Version of this record's shape ([`SCHEMA`]).
    pub schema: u32,
    /// Kind of record: always `compare`.
    pub kind: String,
    /// Start, UTC, RFC 3339 with seconds.
    pub started_utc: String,
    /// Wall time of the whole comparison in seconds.
    pub elapsed_s: f64,
    /// Both sides on one host: mechanisms are compared, not products.
    pub rehearsal: bool,
    /// What that means, in one sentence.
    pub rehearsal_note: String,
    /// What the figures are not.
    pub disclaimer: String,
    /// One sentence that says what was found.
    pub verdict: String,
    /// False when a proof, a check or the exercise of storage failed on a measured path.
    pub valid: bool,
    /// Whatever a reader must know before believing the figures.
    pub notes: Vec<String>,
    /// What was asked for.
    pub plan: PlanRecord,
    /// One entry for each path asked for, measured or not.
    pub paths: Vec<PathResult>,
    /// Each measured path against the first one.
    pub against_first: Vec<Against>,
    /// Promises the plan asked to be tested.
    pub gates: Vec<Gate>,
    /// Points kept out of a model's fit, predicted and measured.
    #[serde(default)]
    pub predictions: Vec<Prediction>,
    /// Where it was measured.
    pub environment: Environment,
    /// Every load that was tried, when load was searched or swept; empty otherwise.
    #[serde(default)]
    pub curve: Vec<CurvePoint>,
    /// Steps between two tunings, each alone and added up; empty without a ladder.
    #[serde(default)]
    pub ladder: Vec<LadderStep>,
    /// The report the plan stands for; absent for a plan of its own.
    #[serde(default)]
    pub stands_for: Option<StandsFor>,
    /// Parts that arms play in checked shapes: `SC1` to `capped` to the name of an arm.
    #[serde(default)]
    pub roles: BTreeMap<String, BTreeMap<String, String>>,
    /// What each tuning sets, by its name: knob (`database.work_mem`, `dnfs.slots`) to value with unit.
    #[serde(default)]
    pub tunings: BTreeMap<String, BTreeMap<String, String>>,
}

/// The plan as it was carried out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Names of the arms ([`PathResult::arm`]) in the order asked for.
    pub paths: Vec<String>,
    /// Warehouses loaded.
    pub warehouses: u32,
    /// Users without think time.
    pub users: u32,
    /// Driver threads.
    pub driver_threads: u32,
    /// Seconds measured in each run.
    pub seconds: u64,
    /// Seconds dropped before the interval in each run.
    pub warmup_seconds: u64,
    /// Runs asked for on each path.
    pub repeats: u32,
    /// Runs carried out on each path, less than `repeats` when the budget ended.
    pub repeats_done: u32,
    /// Order in which the runs were carried out, by arm.
    pub order: Vec<String>,
    /// Seconds after which no further round is started.
    pub budget_seconds: u64,
    /// First seed of the driver; each round takes the next one, the same on every path.
    pub seed: u64,
    /// Size of the loaded database in bytes.
    pub database_bytes: u64,
    /// `shared_buffers` of the database in bytes.
    pub buffers_bytes: u64,
    /// How the loaded state was brought back before each run: `reflink`, `copy` or, on an export, `nfs`.
    pub restore: String,
}

/// Whether a path was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathStatus {
    /// Ran, and every proof and check passed.
    Measured,
    /// Ran, but a proof or a check failed: the figures must not be used.
    NotValid,
    /// Not run; `reason` says why.
    #[default]
    Skipped,
}

/// What one arm gave: a storage path with its tuning, layout, medium and load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// `local`, `dnfs`, `iscsi`, `knfs` or `fc`.
    pub name: String,
    /// Unique name of the arm: the path, its label, and what varies within the plan.
    #[serde(default)]
    pub arm: String,
    /// Label that tells two arms of one path apart.
    #[serde(default)]
    pub label: Option<String>,
    /// Storage that was there before: directory, URL or device; absent on Millrace's own.
    #[serde(default)]
    pub target: Option<String>,
    /// Medium below the files as given to the media model; absent when none was put there.
    #[serde(default)]
    pub medium: Option<String>,
    /// `one`, `split`, `split-archive` or `filers=N`.
    #[serde(default)]
    pub layout_name: Option<String>,
    /// Load as asked for: `users=8`, `saturate@local`.
    #[serde(default)]
    pub load_level: Option<String>,
    /// Users of the runs, after a search for the load.
    #[serde(default)]
    pub users: Option<u32>,
    /// `direct` or `cached`: whether a cache below the database's own may have served its reads.
    #[serde(default)]
    pub caching_class: Option<String>,
    /// The paced read probe before the runs; only of arms on a modelled medium.
    #[serde(default)]
    pub read_probe: Option<ReadProbe>,
    /// Name of the set of knobs: `untuned`, `tuned` or one of the plan's own.
    pub tuning: String,
    /// Whether it was measured.
    pub status: PathStatus,
    /// Why it was skipped or is not valid.
    pub reason: Option<String>,
    /// Order entry transactions per minute over the runs.
    pub oets_per_minute: Option<MeanInterval>,
    /// Response times in milliseconds by transaction, from merged histograms.
    pub response_ms: BTreeMap<String, ResponseMs>,
    /// Mean time of one block read as the database saw it.
    pub block_read_us: Option<BlockReadUs>,
    /// Processor time over the measured intervals.
    pub cpu: Option<Cpu>,
    /// Consistency conditions after every run.
    pub checks: Option<Checks>,
    /// What limited the path.
    pub bottleneck: Option<Bottleneck>,
    /// Storage work of one order and in all.
    pub io: Option<Io>,
    /// How the load was applied.
    pub load: Option<String>,
    /// How the files lie.
    pub layout: Option<String>,
    /// Which caches stand in the path.
    pub caching: Option<String>,
    /// Evidence that the database's reads took this path.
    pub proof: Option<Proof>,
    /// Steady-state test of the runs.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// Little's law as a check of the measuring itself, one entry for each thing in flight.
    #[serde(default)]
    pub little: Vec<Little>,
    /// Times of single block reads seen by our own client, over all runs.
    #[serde(default)]
    pub read_latency: Option<ReadLatency>,
    /// What the storage says of its own latency, over all runs.
    #[serde(default)]
    pub array_latency: Option<ArrayLatency>,
    /// Slots of our client in use, over all runs.
    #[serde(default)]
    pub slot_use: Option<SlotUse>,
    /// Relative CPU cost as TR-3408 and TR-3495 have it: (host CPU % / OETs) x K, K such that the first path has 1.
    #[serde(default)]
    pub relative_cpu_cost: Option<f64>,
    /// Context switches for one order, by owner.
    #[serde(default)]
    pub context_switches_per_order: BTreeMap<String, f64>,
    /// Bytes on the wire for one order, all headers included, both directions.
    #[serde(default)]
    pub wire_bytes_per_order: Option<f64>,
    /// The runs, in the order they were carried out.
    pub runs: Vec<Run>,
}

/// A paced reading of single blocks over a path, before anything is measured on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadProbe {
    /// Reads of 8 KiB, at most four at a time.
    pub reads: u64,
    /// Mean time of one in microseconds as the program saw it.
    pub read_us: f64,
    /// Standard error of that mean.
    pub error_us: f64,
    /// Mean time the modelled medium took for one, as it counted.
    pub medium_read_us: Option<f64>,
}

/// What a modelled medium did over an interval, all volumes of the arm together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MediumCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes and changes of names or attributes.
    pub flushes: u64,
    /// Reads answered by the medium's own cache.
    pub cache_hits: u64,
    /// Mean time of a read in microseconds.
    pub read_us: f64,
    /// Mean time until a write was answered in microseconds.
    pub write_us: f64,
    /// Mean time of a flush in microseconds.
    pub flush_us: f64,
    /// Seconds that spindles were at work, summed over them.
    pub busy_s: f64,
    /// Seconds that operations waited for their spindle.
    pub queued_s: f64,
}

/// Response times of one transaction in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseMs {
    /// Committed or, for New-Order, also rolled back as the rules ask.
    pub count: u64,
    /// Errors that reached the driver.
    pub errors: u64,
    /// Retries after a deadlock or a serialization failure.
    pub retries: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

/// Time of one block read in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockReadUs {
    /// Mean over the measured intervals: `blk_read_time` by `blks_read`.
    pub mean: f64,
    /// Median; absent while the database tells only sums.
    pub p50: Option<f64>,
    /// 99th percentile; absent while the database tells only sums.
    pub p99: Option<f64>,
}

/// Processor time in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub sys_s: f64,
}

impl CpuTime {
    /// User and kernel time together.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.user_s + self.sys_s
    }
}

/// Processor time of a path over all measured intervals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// User time of every owner.
    pub user_s: f64,
    /// Kernel time of every owner.
    pub sys_s: f64,
    /// Both, for 1,000 orders.
    pub s_per_1000_orders: f64,
    /// `database` (with the Direct NFS client inside it), `filer`, `driver`.
    pub by_owner: BTreeMap<String, OwnerCpu>,
    /// Share of the host's processors that was busy, by anybody, 0 to 1.
    pub host_busy_share: f64,
    /// Share that was busy with processes this comparison did not start, 0 to 1.
    pub others_busy_share: f64,
    /// Of the processor time that anybody on this host wanted, the share that the machine below it gave to others (steal time
    /// of proc(5)), 0 to 1.
    #[serde(default)]
    pub stolen_share: f64,
    /// Seconds the host's processors spent in soft interrupts (network mostly), by anybody. The kernel may
    /// book part of it on the process that was interrupted, so it is not added to the owners.
    #[serde(default)]
    pub softirq_s: f64,
    /// The same for 1,000 orders.
    #[serde(default)]
    pub softirq_s_per_1000_orders: f64,
}

impl Cpu {
    /// Share of the host's processors that this comparison could not have: others here, and the machine below, 0 to 1.
    #[must_use]
    pub fn foreign_share(&self) -> f64 {
        (self.others_busy_share + self.stolen_share * self.host_busy_share).min(1.0)
    }
}

/// Processor time of one owner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnerCpu {
    /// User time in seconds.
    pub user_s: f64,
    /// Kernel time in seconds.
    pub sys_s: f64,
    /// Both, for 1,000 orders.
    pub s_per_1000_orders: f64,
}

/// Consistency conditions over all runs of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// Conditions that held.
    pub passed: u32,
    /// Conditions that did not.
    pub failed: u32,
    /// What failed, one line each.
    pub failures: Vec<String>,
}

/// What limited a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// `host_cpu`, `disk`, `concurrency`, `slots`, `one_connection`, `wal_fsync`, `lock_wait`, `driver`,
    /// `interference` or `unclear`.
    pub kind: String,
    /// The figures that say so.
    pub evidence: String,
    /// The class of TR-3322 section 3 it falls under: `host CPU`, `disk`, `concurrency`; empty when none does.
    #[serde(default)]
    pub class: String,
    /// What to try next.
    #[serde(default)]
    pub next: String,
    /// Share of a transaction's time by what was waited for, 0 to 1, largest first.
    #[serde(default)]
    pub shares: Vec<(String, f64)>,
}

/// Storage work over the measured intervals, as the database counts it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Blocks read from storage for one order.
    pub reads_per_order: f64,
    /// Data blocks written for one order (log apart).
    pub writes_per_order: f64,
    /// Log bytes for one order.
    pub log_bytes_per_order: f64,
    /// Bytes read and written, log included.
    pub bytes: u64,
    /// Bytes read by all bytes, 0 to 1.
    pub read_share: f64,
    /// Blocks found in the database's buffers by all blocks asked for, 0 to 1.
    pub hit_ratio: f64,
    /// Mean number of block reads in progress: read time by elapsed time.
    pub in_flight_mean: f64,
    /// Checkpoints that ended inside the measured intervals.
    pub checkpoints: u64,
}

/// Evidence that the database's reads took the path they are booked on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// What the database's reads are held against: `filer_reads`, `client_reads` or `read_calls`.
    pub kind: String,
    /// Bytes the database says it read: blocks by block size.
    pub database_read_bytes: u64,
    /// Bytes seen on the path.
    pub path_read_bytes: u64,
    /// Difference in percent of the larger.
    pub difference_percent: f64,
    /// Largest difference that passes.
    pub tolerance_percent: f64,
    /// Whether it passes.
    pub passed: bool,
    /// What was counted, over which interval.
    pub explanation: String,
}

/// A moment of a warm-up whose buffers begin empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filling {
    /// New orders committed since the load began.
    pub orders: u64,
    /// Bytes of data read on the path since then, without what sessions read when they begin.
    pub read_bytes: u64,
}

/// One run on one path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Place in the whole sequence, from 1.
    pub sequence: u32,
    /// Round, from 1: each round runs every path once.
    pub round: u32,
    /// Seed of the driver.
    pub seed: u64,
    /// Seconds measured.
    pub measured_s: f64,
    /// Seconds dropped before.
    pub warmup_s: f64,
    /// New orders committed in the interval.
    pub orders: u64,
    /// Order entry transactions per minute.
    pub oets_per_minute: f64,
    /// Orders in each second of the interval.
    pub per_second: Vec<u64>,
    /// The driver's time series over the interval; empty in records of before.
    #[serde(default)]
    pub series: Vec<SeriesSecond>,
    /// The run held against the ranges of the specification, when the driver did so.
    #[serde(default)]
    pub conform: Option<Conform>,
    /// Orders in each second of the warm-up that was dropped before; empty when it was not kept.
    #[serde(default)]
    pub warmup_per_second: Vec<u64>,
    /// What was read on the path until some moments of the warm-up; empty when it was not looked at.
    #[serde(default)]
    pub filling: Vec<Filling>,
    /// Moments at which a checkpoint ended, in seconds since the interval began; negative in the warm-up.
    #[serde(default)]
    pub checkpoint_ends_s: Vec<f64>,
    /// Database counters over the interval.
    pub database: DatabaseCounters,
    /// Filer counters over the interval; empty on a path without our filer.
    pub filer: BTreeMap<String, ProcedureCount>,
    /// What made our filers' promises survive a power cut: `sync`, `battery` or `mixed`; absent on a path without them.
    #[serde(default)]
    pub durability: Option<String>,
    /// The paced read probe, in the first run of an arm on a modelled medium.
    #[serde(default)]
    pub probe: Option<ReadProbe>,
    /// What the modelled medium below the files did over the interval; absent without one.
    #[serde(default)]
    pub medium: Option<MediumCounts>,
    /// Calls of our own client over the interval; empty on a path without it.
    #[serde(default)]
    pub client: BTreeMap<String, ProcedureCount>,
    /// Processor time over the interval by owner.
    pub cpu: BTreeMap<String, CpuTime>,
    /// Host processor seconds that were busy, by anybody.
    pub host_busy_s: f64,
    /// Of these, seconds for which the machine below gave the processors to others.
    #[serde(default)]
    pub host_stolen_s: f64,
    /// Of these, seconds in soft interrupts.
    #[serde(default)]
    pub softirq_s: f64,
    /// Context switches over the interval, by owner.
    #[serde(default)]
    pub context_switches: BTreeMap<String, u64>,
    /// Seconds of the interval that threads were ready to run and had no processor, by owner, all threads together; an owner
    /// is absent where the kernel does not say.
    #[serde(default)]
    pub processor_queue_s: BTreeMap<String, f64>,
    /// Bytes on the wire over the interval; absent where nothing goes over a network.
    #[serde(default)]
    pub wire: Option<Wire>,
    /// Block reads timed by our own client over the interval.
    #[serde(default)]
    pub read_latency: Option<ReadLatency>,
    /// Slots of our client in use over the interval.
    #[serde(default)]
    pub slot_use: Option<SlotUse>,
    /// What the storage says of its own latency, when asked for (`--metrics`).
    #[serde(default)]
    pub array_latency: Option<ArrayLatency>,
    /// Bytes read over the interval from each volume (`data`, `data-2`, `log`, `archive`), by the filers' count or our
    /// client's; empty on a path without either.
    #[serde(default)]
    pub read_bytes_by_volume: BTreeMap<String, u64>,
    /// Most connections that the filers of the data saw open at the ends of the interval, all of them together; absent
    /// where no filer of ours tells.
    #[serde(default)]
    pub connections: Option<u64>,
    /// The load as the driver applied it.
    #[serde(default)]
    pub load: Option<RunLoad>,
    /// Share of waits seen when sampling the database's sessions, 0 to 1 by wait event.
    pub waits: BTreeMap<String, f64>,
    /// Share of the looks at the sessions that found an autovacuum at work, 0 to 1.
    #[serde(default)]
    pub vacuum_share: f64,
    /// Consistency conditions after this run.
    pub checks: Checks,
    /// Proof of path over this whole run, warm-up included.
    pub proof: Proof,
    /// Seconds spent on the steps around the interval, by step.
    pub step_s: BTreeMap<String, f64>,
}

/// The load of one run in figures, from the driver's record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunLoad {
    /// `closed`, `paced`, `open-constant` or `open-poisson`.
    pub model: String,
    /// Users, terminals or workers.
    pub users: u32,
    /// Database sessions.
    pub connections: u32,
    /// Transactions of all kinds that ended in the interval, those rolled back on purpose and errors included.
    pub transactions: u64,
    /// Sum of their service times in seconds: from the first attempt to the acknowledgement.
    pub service_s: f64,
    /// Sum of their response times in seconds (from the due time in paced and open).
    pub response_s: f64,
    /// Repeated after a deadlock or serialization failure.
    pub retries: u64,
    /// Threads of the driver.
    pub threads: u32,
    /// Warehouses worked on.
    pub active_warehouses: u32,
}

/// Counters of the database over an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseCounters {
    /// Blocks read from storage; blocks that only extended a file are taken out.
    pub blocks_read: u64,
    /// Blocks by which tables and indexes grew.
    #[serde(default)]
    pub blocks_extended: u64,
    /// Blocks found in buffers.
    pub blocks_hit: u64,
    /// Time in block reads, milliseconds.
    pub block_read_ms: f64,
    /// Time in block writes, milliseconds.
    pub block_write_ms: f64,
    /// Data blocks written.
    pub blocks_written: u64,
    /// Log bytes.
    pub log_bytes: u64,
    /// Times the log was flushed to stable storage.
    #[serde(default)]
    pub log_syncs: u64,
    /// Time in these flushes, milliseconds; 0 when the database does not time them.
    #[serde(default)]
    pub log_sync_ms: f64,
    /// Checkpoints, timed or asked for.
    pub checkpoints: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Blocks whose checksum did not match.
    pub checksum_failures: u64,
    /// Finished log segments that were copied to the archive over the whole run, warm-up included; 0 without one.
    #[serde(default)]
    pub log_segments_archived: u64,
    /// Times over the whole run that a segment could not be copied there.
    #[serde(default)]
    pub log_archive_failures: u64,
}

/// Calls and payload bytes of one NFS procedure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcedureCount {
    /// Calls.
    pub calls: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// One measured path against the first measured one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Name of the first measured arm.
    pub first: String,
    /// Name of the arm held against it.
    pub path: String,
    /// OETs of `path` by OETs of `first`.
    pub oets_ratio: f64,
    /// Processor time for 1,000 orders, `path` by `first`.
    pub cpu_ratio: f64,
    /// Whether the intervals show a difference.
    pub difference: Difference,
    /// Difference of the orders per minute with its interval, in percent of the first path's.
    #[serde(default)]
    pub orders_difference: Option<RelativeDifference>,
    /// Difference of the processor time for 1,000 orders with its interval.
    #[serde(default)]
    pub cpu_difference: Option<RelativeDifference>,
    /// Whether the processor costs may be compared at equal load.
    #[serde(default)]
    pub fixed_load: Option<FixedLoad>,
    /// The same in words.
    pub text: String,
}

/// A promise the plan asked to be tested.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What must hold.
    pub promise: String,
    /// The figure found.
    pub found: f64,
    /// The least figure that passes.
    pub least: f64,
    /// Whether it passed.
    pub passed: bool,
}
