//! Work of the storage: as the database counts it, by the paced probe, of the modelled medium, of the NFS procedures.

use serde::{Deserialize, Serialize};

use crate::names::names;

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

names! {
    /// Who counted what crossed a path.
    pub enum TrafficSource {
        /// Our filers, as they served it.
        Filer = "filer",
        /// The NFS client, ours or the kernel's.
        Client = "client",
        /// The database itself: on a path without a server or a client that counts.
        Database = "database",
    }
}

/// What crossed a path over the measured intervals of all its runs. Reads that a page cache above the path answered are not in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Who counted reads and writes.
    pub source: TrafficSource,
    /// Seconds measured.
    pub seconds: f64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes, the log's among them.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads a second.
    pub reads_per_s: f64,
    /// MiB read a second.
    pub read_mib_per_s: f64,
    /// Writes a second.
    pub writes_per_s: f64,
    /// MiB written a second.
    pub written_mib_per_s: f64,
    /// Times the database flushed its log to stable storage, as it counts them on each path.
    pub log_flushes: u64,
    /// The same a second.
    pub log_flushes_per_s: f64,
    /// Mean time of such a flush in milliseconds; absent where the database does not time them.
    #[serde(default)]
    pub log_flush_ms: Option<f64>,
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

/// Calls and payload bytes of one NFS procedure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcedureCount {
    /// Calls.
    pub calls: u64,
    /// Payload bytes.
    pub bytes: u64,
}
