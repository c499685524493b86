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
    /// When the transactions of a load start.
    pub enum LoadModel {
        /// Each user starts the next transaction when the last one has ended.
        Closed = "closed",
        /// Each terminal waits its keying and think times between two transactions.
        Paced = "paced",
        /// At a fixed rate that does not depend on the system.
        OpenConstant = "open-constant",
        /// As a Poisson process with a given rate that does not depend on the system.
        OpenPoisson = "open-poisson",
    }
}

names! {
    /// Why an acknowledged write survives a power cut.
    pub enum Durability {
        /// The host's file system has synced it.
        Sync = "sync",
        /// The user declares that the host keeps its memory: battery or NVRAM.
        Battery = "battery",
        /// Several filers with different durability.
        Mixed = "mixed",
    }
}

/// A moment of a warm-up that starts with empty buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filling {
    /// New orders committed since the load began.
    pub orders: u64,
    /// Bytes of data read on the path since then, without those that sessions read when they start.
    pub read_bytes: u64,
}

/// One run on one path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Position in the sequence of all runs, from 1.
    pub sequence: u32,
    /// Number of the round, from 1: each round runs every path once.
    pub round: u32,
    /// Seed of the driver.
    pub seed: u64,
    /// Seconds measured.
    pub measured_s: f64,
    /// Seconds of warm-up before the interval.
    pub warmup_s: f64,
    /// New orders committed in the interval.
    pub orders: u64,
    /// Order entry transactions per minute.
    pub oets_per_minute: f64,
    /// Orders in each second of the interval.
    pub per_second: Vec<u64>,
    /// The driver's time series over the interval; empty in records of older versions.
    #[serde(default)]
    pub series: Vec<SeriesSecond>,
    /// The run compared with the ranges of the specification, if the driver did that.
    #[serde(default)]
    pub conform: Option<Conform>,
    /// Orders in each second of the warm-up; empty if they were not kept.
    #[serde(default)]
    pub warmup_per_second: Vec<u64>,
    /// Bytes read on the path up to some moments of the warm-up; empty if they were not observed.
    #[serde(default)]
    pub filling: Vec<Filling>,
    /// Times at which a checkpoint ended, in seconds since the start of the interval; negative in the warm-up.
    #[serde(default)]
    pub checkpoint_ends_s: Vec<f64>,
    /// Database counters over the interval.
    pub database: DatabaseCounters,
    /// Filer counters over the interval; empty on a path without Millrace's filer.
    pub filer: BTreeMap<String, ProcedureCount>,
    /// Why a write that Millrace's filers acknowledged survives a power cut; absent on a path without them.
    #[serde(default)]
    pub durability: Option<Durability>,
    /// The paced read probe, in the first run of a configuration on a modelled medium.
    #[serde(default)]
    pub probe: Option<ReadProbe>,
    /// Work of the modelled medium over the interval; absent without one.
    #[serde(default)]
    pub medium: Option<MediumCounts>,
    /// Calls of the NFS client, Millrace's or the kernel's, over the interval; empty on a path without one.
    #[serde(default)]
    pub client: BTreeMap<String, ProcedureCount>,
    /// Processor time over the interval by owner.
    pub cpu: BTreeMap<String, CpuTime>,
    /// What served existing storage besides disks of the host; absent if nothing did, on other paths, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// Busy processor seconds of the host, by all processes.
    pub host_busy_s: f64,
    /// Of these, seconds for which the hypervisor gave the processors to other machines (steal time).
    #[serde(default)]
    pub host_stolen_s: f64,
    /// Of these, seconds in soft interrupts.
    #[serde(default)]
    pub softirq_s: f64,
    /// Context switches over the interval, by owner; `host` is the total of the host, including the kernel's own threads.
    #[serde(default)]
    pub context_switches: BTreeMap<String, u64>,
    /// Seconds in which threads were ready to run and had no processor, by owner, summed over all threads. An owner
    /// is absent if the kernel does not report the time.
    #[serde(default)]
    pub processor_queue_s: BTreeMap<String, f64>,
    /// Bytes on the wire over the interval; absent if the path has no network.
    #[serde(default)]
    pub wire: Option<Wire>,
    /// Block reads that Millrace's NFS client timed over the interval.
    #[serde(default)]
    pub read_latency: Option<ReadLatency>,
    /// Slots of the NFS client in use over the interval.
    #[serde(default)]
    pub slot_use: Option<SlotUse>,
    /// Latency that the storage itself reports, if requested (`--metrics`).
    #[serde(default)]
    pub array_latency: Option<ArrayLatency>,
    /// Bytes read over the interval from each volume (`data`, `data-2`, `log`, `archive`), as counted by Millrace's filers or
    /// its NFS client; empty on a path without either.
    #[serde(default)]
    pub read_bytes_by_volume: BTreeMap<String, u64>,
    /// Sum of the filers' open connections for the data: the larger of the values at the start and
    /// the end of the interval. Absent if no filer of Millrace reports them.
    #[serde(default)]
    pub connections: Option<u64>,
    /// The load as the driver applied it.
    #[serde(default)]
    pub load: Option<RunLoad>,
    /// Share of each wait event in the samples of the database's sessions, 0 to 1.
    pub waits: BTreeMap<String, f64>,
    /// Share of the samples that found an autovacuum running, 0 to 1.
    #[serde(default)]
    pub vacuum_share: f64,
    /// Consistency conditions after this run.
    pub checks: Checks,
    /// Proof of path over the complete run, including warm-up.
    pub proof: Proof,
    /// Bytes of the path's files in this host's page cache after the run, by the size of their
    /// folios in KiB, for at most 512 MiB of files, without the log. Empty if the files are
    /// elsewhere, if the kernel does not show the sizes, and in records of older versions: those
    /// restored copies in large units, which made each small write more expensive on local disk and
    /// on the filers.
    #[serde(default)]
    pub folio_bytes: BTreeMap<u64, u64>,
    /// Seconds spent on the steps around the interval, by step.
    pub step_s: BTreeMap<String, f64>,
}

/// What served a directory or a device that Millrace did not make: clients in processes (FUSE), and servers over NFS or iSCSI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The processes and servers, in a clause.
    pub by: String,
    /// Whether all of them are processes of this host, whose processor time `cpu` includes: of clients in `database`, of servers in
    /// `filer`.
    pub is_counted: bool,
}

/// Figures of the load of one run, from the driver's record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunLoad {
    /// When transactions start.
    pub model: LoadModel,
    /// Users, terminals or workers.
    pub users: u32,
    /// Database sessions.
    pub connections: u32,
    /// Transactions of all kinds that ended in the interval, including errors and those rolled back on purpose.
    pub transactions: u64,
    /// Sum of their service times in seconds: from the first attempt to the acknowledgement.
    pub service_s: f64,
    /// Sum of their response times in seconds (from the due time in paced and open).
    pub response_s: f64,
    /// Repeated after a deadlock or serialization failure.
    pub retries: u64,
    /// Threads of the driver.
    pub threads: u32,
    /// Warehouses that the run used.
    pub active_warehouses: u32,
}

/// Counters of the database over an interval; docs/lab.md has the source of each, on PostgreSQL and on MariaDB.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseCounters {
    /// Blocks read from storage, without blocks that only extended a file.
    pub blocks_read: u64,
    /// Blocks by which tables and indexes grew.
    #[serde(default)]
    pub blocks_extended: u64,
    /// Blocks found in the buffers.
    pub blocks_hit: u64,
    /// Time in block reads, milliseconds.
    pub block_read_ms: f64,
    /// Time in block writes, milliseconds.
    pub block_write_ms: f64,
    /// Data blocks written.
    pub blocks_written: u64,
    /// Log bytes.
    pub log_bytes: u64,
    /// Number of flushes of the log to stable storage.
    #[serde(default)]
    pub log_syncs: u64,
    /// Time in these flushes, milliseconds; 0 if the database does not time them.
    #[serde(default)]
    pub log_sync_ms: f64,
    /// Checkpoints, timed and requested.
    pub checkpoints: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Blocks whose checksum did not match.
    pub checksum_failures: u64,
    /// Finished log segments that were copied to the archive over the complete run, including warm-up; 0 without an archive.
    #[serde(default)]
    pub log_segments_archived: u64,
    /// Failed copies of a segment to the archive over the complete run.
    #[serde(default)]
    pub log_archive_failures: u64,
}
