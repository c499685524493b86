//! The bottleneck of a path.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// Kinds of bottlenecks.
    pub enum BottleneckKind {
        /// The processors of the host are fully used.
        HostCpu = "host_cpu",
        /// Reads or writes queue at the storage.
        Disk = "disk",
        /// Too few concurrent transactions to use any resource fully.
        Concurrency = "concurrency",
        /// The limit of concurrent calls of the client.
        Slots = "slots",
        /// The server's side of a single connection is busy.
        OneConnection = "one_connection",
        /// Commits wait until the log is on stable storage.
        LogFlush = "wal_fsync",
        /// Waits for locks of the database.
        LockWait = "lock_wait",
        /// The threads of the load driver are busy.
        Driver = "driver",
        /// Other processes, or other guests of the hypervisor, used processor time.
        Interference = "interference",
        /// There is no clear bottleneck.
        Unclear = "unclear",
    }
}

names! {
    /// Bottleneck classes of TR-3322 section 3.
    pub enum BottleneckClass {
        /// The host's processors.
        HostCpu = "host CPU",
        /// The storage.
        Disk = "disk",
        /// Too little concurrency.
        Concurrency = "concurrency",
        /// None of these classes.
        None = "",
    }
}

names! {
    /// Activity of a session of the database.
    pub enum SessionState {
        /// Runs.
        Running = "running",
        /// Waits for blocks to be read.
        BlockReads = "block reads",
        /// Waits for the log to be written or flushed.
        Log = "log",
        /// Writes data blocks.
        DataWrites = "data writes",
        /// Waits for locks.
        Locks = "locks",
        /// Waits for the client, which is the load driver.
        Client = "client",
        /// Waits for something else.
        OtherWaits = "other",
    }
}

/// The bottleneck of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Kind of the bottleneck.
    pub kind: BottleneckKind,
    /// The figures that show it.
    pub evidence: String,
    /// Its class in TR-3322 section 3.
    #[serde(default)]
    pub class: BottleneckClass,
    /// Recommended next step.
    #[serde(default)]
    pub next: String,
    /// Share of the sessions' time by activity, 0 to 1, largest first.
    #[serde(default)]
    pub shares: Vec<(SessionState, f64)>,
    /// Its figure divided by the limit at which that figure identifies it; `None` if it has no such figure.
    #[serde(default)]
    pub score: Option<f64>,
    /// The next largest cause, if there is one.
    #[serde(default)]
    pub runner_up: Option<RunnerUp>,
}

/// The second largest cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunnerUp {
    /// Kind of the cause.
    pub kind: BottleneckKind,
    /// Its figure divided by the limit at which that figure identifies it.
    pub score: f64,
    /// Whether figures within the spread of repeats could put this cause first; then both are named.
    #[serde(default)]
    pub close: bool,
}
