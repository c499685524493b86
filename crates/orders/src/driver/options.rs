//! What a run is asked to do, and what it says while it does it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::progress::Progress;
use crate::mix::MixRule;
use crate::model::{LoadModel, Terminals};

/// What to run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Where transactions come from.
    pub model: LoadModel,
    /// How a terminal chooses its warehouse.
    pub terminals: Terminals,
    /// Terminals.
    pub users: u32,
    /// Database sessions they share; never more than users.
    pub connections: u32,
    /// Warehouses the run works on, from the first; all when absent.
    pub active_warehouses: Option<u32>,
    /// Whether a Delivery is only queued by its terminal and done behind it.
    pub deferred_deliveries: bool,
    /// Threads that drive them; never more than sessions.
    pub threads: u32,
    /// Seconds before the measured interval.
    pub warmup_s: u64,
    /// Seconds of the measured interval.
    pub measured_s: u64,
    /// Seed of every choice.
    pub seed: u64,
    /// How the next transaction is chosen.
    pub mix: MixRule,
    /// Where acknowledged orders are noted.
    pub ack_log: Option<PathBuf>,
    /// Whether lost connections are opened again.
    pub reconnect: bool,
    /// Number of the first user: 0, or what drivers before this one drive in the same run.
    pub first_user: u32,
    /// Seconds between two reports of progress; none when absent.
    pub progress_s: Option<u64>,
    /// Set by whoever wants the run to end now, with what was measured so far.
    pub interrupted: Arc<AtomicBool>,
}

/// What happens in a run, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Every session is open; the warm-up begins.
    Connected,
    /// The measured interval begins.
    Measuring,
    /// The measured interval ended.
    Measured,
    /// What was done since the report before, as often as asked for.
    Progress(Progress),
    /// A transaction ended by an error, or a connection was lost; only the first few are told.
    Warning(String),
}
