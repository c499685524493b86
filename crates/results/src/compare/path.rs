//! Results of one configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bottleneck::Bottleneck;
use super::processor::Cpu;
use super::proof::{Checks, Proof};
use super::response::{BlockReadUs, ResponseMs};
use super::run::Run;
use super::storage::{Io, ReadProbe, Traffic};
use crate::judgement::{ArrayLatency, Little, ReadLatency, SlotUse, Steady};
use crate::names::names;
use crate::statistics::MeanInterval;

names! {
    /// Caches below the database's own buffers.
    pub enum CachingClass {
        /// Reads come from the medium: no page cache of a host under Millrace's control can serve them.
        Direct = "direct",
        /// Reads may come from the page cache of a host under Millrace's control.
        Cached = "cached",
    }
}

/// Whether a path was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathStatus {
    /// It ran, and every proof and check passed.
    Measured,
    /// It ran, but a proof or a check failed: the figures must not be used.
    NotValid,
    /// It did not run; `reason` gives the cause.
    #[default]
    Skipped,
}

/// Results of one configuration: a storage path with its tuning, layout, medium and load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// Name of the storage path: `local`, for example. docs/glossary.md lists them.
    pub name: String,
    /// Unique name of the configuration: the path, its label, and what varies within the plan.
    #[serde(default)]
    pub arm: String,
    /// Label that distinguishes two configurations of one path.
    #[serde(default)]
    pub label: Option<String>,
    /// The client, on a path that supports several: for `iscsi`, `open-iscsi` or `millrace`
    /// (Millrace's initiator, FUSE and a loop device); for `fc`, `software-fcoe`. Absent for other
    /// paths, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Existing storage: directory, URL or device; absent if Millrace provides the storage.
    #[serde(default)]
    pub target: Option<String>,
    /// Modelled medium below the files, as given to the media model; absent without one.
    #[serde(default)]
    pub medium: Option<String>,
    /// `one`, `split`, `split-archive`, `filers=N`, `luns=N` or `mounts=N`.
    #[serde(default)]
    pub layout_name: Option<String>,
    /// Requested load: `users=8`, `saturate@local`.
    #[serde(default)]
    pub load_level: Option<String>,
    /// Number of users of the runs, after a search for the load.
    #[serde(default)]
    pub users: Option<u32>,
    /// Whether a cache below the database's own buffers may have served its reads.
    #[serde(default)]
    pub caching_class: Option<CachingClass>,
    /// The paced read probe before the runs; only for configurations on a modelled medium.
    #[serde(default)]
    pub read_probe: Option<ReadProbe>,
    /// Name of the tuning: `untuned`, `tuned` or one of the plan's own.
    pub tuning: String,
    /// Whether the configuration was measured.
    pub status: PathStatus,
    /// Why it was skipped or is not valid.
    pub reason: Option<String>,
    /// Order entry transactions per minute over the runs.
    pub oets_per_minute: Option<MeanInterval>,
    /// Response times in milliseconds by transaction, from merged histograms.
    pub response_ms: BTreeMap<String, ResponseMs>,
    /// Mean time of one block read, measured by the database.
    pub block_read_us: Option<BlockReadUs>,
    /// Processor time over the measured intervals.
    pub cpu: Option<Cpu>,
    /// Consistency conditions after every run.
    pub checks: Option<Checks>,
    /// What limited the path.
    pub bottleneck: Option<Bottleneck>,
    /// Storage work per order and in total.
    pub io: Option<Io>,
    /// Traffic of the path; absent in records of older versions.
    #[serde(default)]
    pub traffic: Option<Traffic>,
    /// How the load was applied.
    pub load: Option<String>,
    /// Layout of the files.
    pub layout: Option<String>,
    /// Caches in the path.
    pub caching: Option<String>,
    /// Evidence that the database's reads took this path.
    pub proof: Option<Proof>,
    /// Steady-state test of the runs.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// Little's law as a check of the measurement itself, one entry for each unit in flight.
    #[serde(default)]
    pub little: Vec<Little>,
    /// Times of single block reads, measured by Millrace's NFS client, over all runs.
    #[serde(default)]
    pub read_latency: Option<ReadLatency>,
    /// Latency that the storage itself reports, over all runs.
    #[serde(default)]
    pub array_latency: Option<ArrayLatency>,
    /// Occupied slots of the NFS client, over all runs.
    #[serde(default)]
    pub slot_use: Option<SlotUse>,
    /// Relative CPU cost as in TR-3408 and TR-3495: (host CPU % / OETs) x K, with K such that the first path has 1.
    #[serde(default)]
    pub relative_cpu_cost: Option<f64>,
    /// Context switches per order, by owner; `host` is the total of the host.
    #[serde(default)]
    pub context_switches_per_order: BTreeMap<String, f64>,
    /// Bytes on the wire per order, including all headers, both directions.
    #[serde(default)]
    pub wire_bytes_per_order: Option<f64>,
    /// The runs, in the order in which they were carried out.
    pub runs: Vec<Run>,
}
