//! Options of a run, and the events that it reports.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::progress::Progress;
use crate::mix::MixRule;
use crate::model::{LoadModel, Terminals};

/// Options of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The load model.
    pub model: LoadModel,
    /// How a terminal chooses its warehouse.
    pub terminals: Terminals,
    /// Terminals.
    pub users: u32,
    /// Database sessions that the terminals share; at most one per user.
    pub connections: u32,
    /// Number of warehouses, from the first, that the run uses; `None` for all.
    pub active_warehouses: Option<u32>,
    /// Whether a terminal only queues its Delivery, and a session carries it out later.
    pub deferred_deliveries: bool,
    /// Threads that drive the sessions; at most one per session.
    pub threads: u32,
    /// Seconds before the measured interval.
    pub warmup_s: u64,
    /// Seconds of the measured interval.
    pub measured_s: u64,
    /// Seed of all random draws.
    pub seed: u64,
    /// How the next transaction is chosen.
    pub mix: MixRule,
    /// File to which acknowledged orders are appended.
    pub ack_log: Option<PathBuf>,
    /// Whether the driver reconnects after a lost connection.
    pub reconnect: bool,
    /// Number of the first user: 0, or the number of users of the preceding drivers of the same run.
    pub first_user: u32,
    /// Seconds between two progress reports; `None` for no reports.
    pub progress_s: Option<u64>,
    /// Set to end the run now, with the measurements so far.
    pub interrupted: Arc<AtomicBool>,
}

/// Events of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Every session is open; the warm-up begins.
    Connected,
    /// The measured interval begins.
    Measuring,
    /// The measured interval ended.
    Measured,
    /// The work since the last progress report.
    Progress(Progress),
    /// A transaction ended by an error, or a connection was lost. Only the first few are reported.
    Warning(String),
}
