//! Work of the storage: as counted by the database, the paced probe, the modelled medium and the NFS procedures.

use serde::{Deserialize, Serialize};

use crate::names::names;

/// Storage work over the measured intervals, as counted by the database.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Blocks read from storage per order.
    pub reads_per_order: f64,
    /// Data blocks written per order, without the log.
    pub writes_per_order: f64,
    /// Log bytes per order.
    pub log_bytes_per_order: f64,
    /// Bytes read and written, including the log.
    pub bytes: u64,
    /// Bytes read divided by all bytes, 0 to 1.
    pub read_share: f64,
    /// Blocks found in the database's buffers divided by all requested blocks, 0 to 1.
    pub hit_ratio: f64,
    /// Mean number of block reads in progress: total read time divided by elapsed time.
    pub in_flight_mean: f64,
    /// Checkpoints that ended inside the measured intervals.
    pub checkpoints: u64,
}

names! {
    /// The component that counted the traffic of a path.
    pub enum TrafficSource {
        /// Millrace's filers.
        Filer = "filer",
        /// The NFS client, Millrace's or the kernel's.
        Client = "client",
        /// The database itself, on a path without a server or a client that counts.
        Database = "database",
    }
}

/// Traffic of a path over the measured intervals of all its runs, without reads that a page cache above the path served.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The component that counted reads and writes.
    pub source: TrafficSource,
    /// Seconds measured.
    pub seconds: f64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes, including those of the log.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads per second.
    pub reads_per_s: f64,
    /// MiB read per second.
    pub read_mib_per_s: f64,
    /// Writes per second.
    pub writes_per_s: f64,
    /// MiB written per second.
    pub written_mib_per_s: f64,
    /// Number of flushes of the database's log to stable storage, counted by the database on each path.
    pub log_flushes: u64,
    /// The same per second.
    pub log_flushes_per_s: f64,
    /// Mean time of such a flush in milliseconds; absent if the database does not time them.
    #[serde(default)]
    pub log_flush_ms: Option<f64>,
}

/// Paced reads of single blocks over a path, before its first measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadProbe {
    /// Number of reads of 8 KiB, at most four at a time.
    pub reads: u64,
    /// Mean time of one read in microseconds, measured by the program that reads.
    pub read_us: f64,
    /// Standard error of that mean.
    pub error_us: f64,
    /// Mean time of one read in the modelled medium, by the medium's own count.
    pub medium_read_us: Option<f64>,
}

/// Work of a modelled medium over an interval, for all volumes of the configuration together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MediumCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes and changes of names or attributes.
    pub flushes: u64,
    /// Reads served from the medium's own cache.
    pub cache_hits: u64,
    /// Mean time of a read in microseconds.
    pub read_us: f64,
    /// Mean time until a write was acknowledged, in microseconds.
    pub write_us: f64,
    /// Mean time of a flush in microseconds.
    pub flush_us: f64,
    /// Busy seconds of the spindles, summed over spindles.
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
