//! The record of one comparison: `results.json`, schema 1.
//!
//! Fields are added, never renamed. Every figure of a path is computed from the runs in
//! [`PathResult::runs`]; means include their interval
//! ([`MeanInterval`](crate::statistics::MeanInterval)). Fields with one of a few names keep an
//! unknown name, so that a record of a later version can be read, shown and written again.

mod against;
mod against_last;
mod bottleneck;
mod path;
mod plan;
mod processor;
mod proof;
mod regime;
mod response;
mod run;
mod storage;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::curves::{CurvePoint, LadderStep, StandsFor};
use crate::environment::Environment;
use crate::judgement::Prediction;

pub use against::{Against, Gate};
pub use against_last::{AgainstLast, ArmAgainstLast};
pub use bottleneck::{Bottleneck, BottleneckClass, BottleneckKind, RunnerUp, SessionState};
pub use path::{CachingClass, PathResult, PathStatus};
pub use plan::{DatabaseSystem, PlanRecord, RestoreMethod};
pub use processor::{Cpu, CpuTime, OwnerCpu};
pub use proof::{Carried, Checks, Proof, ProofSource};
pub use regime::{RegimeResult, RegimeStatus};
pub use response::{BlockReadUs, ResponseMs};
pub use run::{DatabaseCounters, Durability, Filling, LoadModel, Run, RunLoad, Served};
pub use storage::{Io, MediumCounts, ProcedureCount, ReadProbe, Traffic, TrafficSource};

/// Version of the record's schema.
pub const SCHEMA: u32 = 1;

/// One comparison of storage paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Version of this record's schema ([`SCHEMA`]).
    pub schema: u32,
    /// Kind of record: always `compare`.
    pub kind: String,
    /// Start, UTC, RFC 3339 with seconds.
    pub started_utc: String,
    /// Wall-clock time of the complete comparison in seconds.
    pub elapsed_s: f64,
    /// Whether both sides ran on one host: then mechanisms are compared, not products.
    pub rehearsal: bool,
    /// Consequence of a rehearsal, in one sentence.
    pub rehearsal_note: String,
    /// Restriction on the use of the figures.
    pub disclaimer: String,
    /// The result in one sentence.
    pub verdict: String,
    /// Why the figures are not a citable result, each reason as a clause; empty if they are. The verdict begins with these.
    #[serde(default)]
    pub not_a_result: Vec<String>,
    /// False if a proof, a check or the exercise of storage failed on a measured path.
    pub valid: bool,
    /// Restrictions that a reader must know before using the figures.
    pub notes: Vec<String>,
    /// The plan as carried out.
    pub plan: PlanRecord,
    /// One entry for each requested path, measured or not.
    pub paths: Vec<PathResult>,
    /// Each measured path compared with the first one.
    pub against_first: Vec<Against>,
    /// The same paths in further scenarios, evaluated separately: verdict, `paths` and `gates`
    /// above are those of the first scenario only. Empty if the plan has one scenario.
    #[serde(default)]
    pub regimes: Vec<RegimeResult>,
    /// Guarantees that the plan tests.
    pub gates: Vec<Gate>,
    /// Each measured configuration compared with the newest earlier record, if requested.
    #[serde(default)]
    pub against_last: Option<AgainstLast>,
    /// Points that were excluded from a model's fit, predicted and measured.
    #[serde(default)]
    pub predictions: Vec<Prediction>,
    /// Host, store and programs of the measurement.
    pub environment: Environment,
    /// Every load that was tried, if the load was searched or swept; otherwise empty.
    #[serde(default)]
    pub curve: Vec<CurvePoint>,
    /// Steps between two tunings, each alone and accumulated; empty without a ladder.
    #[serde(default)]
    pub ladder: Vec<LadderStep>,
    /// The published report that the plan reproduces; absent for other plans.
    #[serde(default)]
    pub stands_for: Option<StandsFor>,
    /// Roles of configurations in the checked findings: from `SC1` and `capped` to the name of a
    /// configuration.
    #[serde(default)]
    pub roles: BTreeMap<String, BTreeMap<String, String>>,
    /// Settings of each tuning, by its name: knob (`database.work_mem`, `dnfs.slots`) to value with unit.
    #[serde(default)]
    pub tunings: BTreeMap<String, BTreeMap<String, String>>,
}
