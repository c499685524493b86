//! What one arm gave.

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
    /// Caches below the database's own.
    pub enum CachingClass {
        /// Reads come from the medium: no cache of a kernel of ours can answer them.
        Direct = "direct",
        /// Reads may come from the page cache of a host of ours.
        Cached = "cached",
    }
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
    /// `local`, `dnfs`, `iscsi`, `knfs`, `fc` or `block`.
    pub name: String,
    /// Unique name of the arm: the path, its label, and what varies within the plan.
    #[serde(default)]
    pub arm: String,
    /// Label that tells two arms of one path apart.
    #[serde(default)]
    pub label: Option<String>,
    /// Client that carries the path, where it is one of several: of `iscsi` `open-iscsi` or `millrace` (our initiator, FUSE and a loop
    /// device), of `fc` `software-fcoe`; absent elsewhere, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Storage that was there before: directory, URL or device; absent on Millrace's own.
    #[serde(default)]
    pub target: Option<String>,
    /// Medium below the files as given to the media model; absent when none was put there.
    #[serde(default)]
    pub medium: Option<String>,
    /// `one`, `split`, `split-archive`, `filers=N`, `luns=N` or `mounts=N`.
    #[serde(default)]
    pub layout_name: Option<String>,
    /// Load as asked for: `users=8`, `saturate@local`.
    #[serde(default)]
    pub load_level: Option<String>,
    /// Users of the runs, after a search for the load.
    #[serde(default)]
    pub users: Option<u32>,
    /// Whether a cache below the database's own may have served its reads.
    #[serde(default)]
    pub caching_class: Option<CachingClass>,
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
    /// What crossed the path; absent in records written by older versions.
    #[serde(default)]
    pub traffic: Option<Traffic>,
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
    /// Context switches for one order, by owner; `host` are all of the host.
    #[serde(default)]
    pub context_switches_per_order: BTreeMap<String, f64>,
    /// Bytes on the wire for one order, all headers included, both directions.
    #[serde(default)]
    pub wire_bytes_per_order: Option<f64>,
    /// The runs, in the order they were carried out.
    pub runs: Vec<Run>,
}
