//! What limited a path.

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// What limited a path.
    pub enum BottleneckKind {
        /// The processors of the host are used up.
        HostCpu = "host_cpu",
        /// Reads or writes queue at the storage.
        Disk = "disk",
        /// Too few transactions at a time to use anything up.
        Concurrency = "concurrency",
        /// The calls the client may have in flight at a time.
        Slots = "slots",
        /// The server's side of a single connection is busy.
        OneConnection = "one_connection",
        /// Commits wait until the log is on stable storage.
        LogFlush = "wal_fsync",
        /// Waits for locks of the database.
        LockWait = "lock_wait",
        /// The threads of the load driver are busy.
        Driver = "driver",
        /// Other processes, or other guests of the hypervisor, took processor time.
        Interference = "interference",
        /// Nothing stands out.
        Unclear = "unclear",
    }
}

names! {
    /// Classes of TR-3322 section 3.
    pub enum BottleneckClass {
        /// The host's processors.
        HostCpu = "host CPU",
        /// The storage.
        Disk = "disk",
        /// Too little at a time.
        Concurrency = "concurrency",
        /// It falls under none of them.
        None = "",
    }
}

names! {
    /// What a session of the database does or waits for.
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

/// What limited a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// What it is.
    pub kind: BottleneckKind,
    /// The figures that say so.
    pub evidence: String,
    /// The class of TR-3322 section 3 it falls under.
    #[serde(default)]
    pub class: BottleneckClass,
    /// What to try next.
    #[serde(default)]
    pub next: String,
    /// Share of the sessions' time by what they did or waited for, 0 to 1, largest first.
    #[serde(default)]
    pub shares: Vec<(SessionState, f64)>,
    /// Its figure divided by the limit from which that figure names it; `None` where it has no such figure.
    #[serde(default)]
    pub score: Option<f64>,
    /// The next largest cause, when there is one.
    #[serde(default)]
    pub runner_up: Option<RunnerUp>,
}

/// The cause that comes second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunnerUp {
    /// What it is.
    pub kind: BottleneckKind,
    /// Its figure divided by the limit from which that figure names it.
    pub score: f64,
    /// Whether figures that differ as much as repeats may would name this one first: then both are named.
    #[serde(default)]
    pub close: bool,
}
