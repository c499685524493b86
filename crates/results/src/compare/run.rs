//! One run on one path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::processor::CpuTime;
use super::proof::{Checks, Proof};
use super::storage::{MediumCounts, ProcedureCount, ReadProbe};
use crate::judgement::{ArrayLatency, ReadLatency, SlotUse, Wire};
use crate::names::names;
use crate::orders_run::{Conform, SeriesSecond};

names! {
    /// When the transactions of a load begin.
    pub enum LoadModel {
        /// Each user begins the next one when the last one has ended.
        Closed = "closed",
        /// Each terminal waits its keying and think times between two.
        Paced = "paced",
        /// At a fixed rate, whatever the system does.
        OpenConstant = "open-constant",
        /// As a Poisson process of a given rate, whatever the system does.
        OpenPoisson = "open-poisson",
    }
}

names! {
    /// What makes a write survive a power cut once it is answered.
    pub enum Durability {
        /// The host's file system synced it.
        Sync = "sync",
        /// The host is declared to keep its memory: battery or NVRAM.
        Battery = "battery",
        /// Several filers that differ in this.
        Mixed = "mixed",
    }
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
    /// What makes a write survive a power cut once our filers have answered it; absent on a path without them.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// The paced read probe, in the first run of an arm on a modelled medium.
    #[serde(default)]
    pub probe: Option<ReadProbe>,
    /// What the modelled medium below the files did over the interval; absent without one.
    #[serde(default)]
    pub medium: Option<MediumCounts>,
    /// Calls of the NFS client over the interval, our own or the kernel's; empty on a path without one.
    #[serde(default)]
    pub client: BTreeMap<String, ProcedureCount>,
    /// Processor time over the interval by owner.
    pub cpu: BTreeMap<String, CpuTime>,
    /// Host processor seconds that were busy, by anybody.
    pub host_busy_s: f64,
    /// Of these, seconds for which the hypervisor gave the processors to other machines (steal time).
    #[serde(default)]
    pub host_stolen_s: f64,
    /// Of these, seconds in soft interrupts.
    #[serde(default)]
    pub softirq_s: f64,
    /// Context switches over the interval, by owner; `host` are all of the host, those of the kernel's own threads among them.
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
    /// Slots of the NFS client in use over the interval.
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
    /// Bytes of the path's files in this host's page cache after the run, by the size of their folios in KiB: of at most 512 MiB of
    /// files, without the log. Empty where the files lie elsewhere, where the kernel does not show it, and in records written by older versions: there
    /// copies were restored in large units, and local disk and the filers paid more for each small write.
    #[serde(default)]
    pub folio_bytes: BTreeMap<u64, u64>,
    /// Seconds spent on the steps around the interval, by step.
    pub step_s: BTreeMap<String, f64>,
}

/// The load of one run in figures, from the driver's record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunLoad {
    /// When transactions begin.
    pub model: LoadModel,
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

/// Counters of the database over an interval; docs/lab.md has the source of each, on PostgreSQL and on MariaDB.
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
