//! State that the runs of a comparison share, and the description of one run.

use std::path::PathBuf;

use crate::database::cluster::ClusterPlace;
use crate::measure::metrics::Source;
use crate::paths::storage::StartOrder;
use crate::placement::KeptState;
use crate::placement::restore::Method;
use crate::placement::workdir::WorkDir;
use crate::plan::{Arm, Knob, ORDERS, Plan};
use crate::run::driver::RunOrder;

/// State that all runs of a comparison share.
pub(crate) struct Setup<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) work: &'a WorkDir,
    pub(crate) place: &'a ClusterPlace,
    /// The copy of this program that the database's user can read.
    pub(crate) program: PathBuf,
    pub(crate) method: Method,
    pub(crate) block_bytes: u64,
    /// Size of the database's buffers.
    pub(crate) buffers_bytes: u64,
    /// Source of the latency that the storage itself reports.
    pub(crate) metrics: Option<&'a Source>,
}

/// One run to carry out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) arm: &'a Arm,
    /// Position in the complete sequence, from 1.
    pub(crate) sequence: u32,
    /// Round, from 1.
    pub(crate) round: u32,
    /// The driver's order.
    pub(crate) order: RunOrder,
}

impl Turn<'_> {
    /// Name of the configuration.
    pub(crate) fn name(&self) -> &str {
        &self.arm.id
    }
}

impl Setup<'_> {
    /// The loaded state that every run starts from.
    pub(crate) fn kept_state(&self) -> KeptState {
        KeptState { root: self.work.path("master"), parts: self.place.engine.parts() }
    }

    /// The order to start the storage of a run.
    pub(crate) fn start_order<'a>(&'a self, turn: &Turn<'a>) -> StartOrder<'a> {
        StartOrder {
            program: &self.program,
            work: self.work,
            tuning: self.plan.tuning_of(turn.arm),
            medium: turn.arm.medium.as_deref(),
            sequence: turn.sequence,
        }
    }

    /// The server's log of a run.
    pub(crate) fn database_log(&self, turn: Turn<'_>) -> PathBuf {
        self.work.path("logs").join(format!("database-{}-{}.log", turn.sequence, turn.arm.path.kind.name()))
    }
}

/// Options of the driver for a configuration's load model and tuning.
pub(crate) fn driver_options(plan: &Plan, arm: &Arm) -> Vec<String> {
    let mut words = Knob::arguments(plan.tuning_of(arm).of(ORDERS));
    let load = &arm.load;
    let model = (load.model != "closed").then(|| load.model.clone());
    for (name, value) in [("--model", model), ("--rate", load.rate.clone()), ("--arrivals", load.arrivals.clone())] {
        if let Some(value) = value {
            words.extend([name.to_owned(), value]);
        }
    }
    words
}
