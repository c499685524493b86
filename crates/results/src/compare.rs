//! The record of one comparison: `results.json`, schema 1.
//!
//! Fields are added, never renamed. Every figure of a path stands on the runs in
//! [`PathResult::runs`]; means carry their interval ([`MeanInterval`](crate::statistics::MeanInterval)). What is one of a few values has a type that
//! keeps a value it does not know, so that a record of a later version can be read, shown and written again.

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
pub use run::{DatabaseCounters, Durability, Filling, LoadModel, Run, RunLoad};
pub use storage::{Io, MediumCounts, ProcedureCount, ReadProbe, Traffic, TrafficSource};

/// Version of the record's shape.
pub const SCHEMA: u32 = 1;

/// One comparison of storage paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Version of this record's shape ([`SCHEMA`]).
    pub schema: u32,
    /// Kind of record: always `compare`.
    pub kind: String,
    /// Start, UTC, RFC 3339 with seconds.
    pub started_utc: String,
    /// Wall time of the whole comparison in seconds.
    pub elapsed_s: f64,
    /// Both sides on one host: mechanisms are compared, not products.
    pub rehearsal: bool,
    /// What that means, in one sentence.
    pub rehearsal_note: String,
    /// What the figures are not.
    pub disclaimer: String,
    /// One sentence that says what was found.
    pub verdict: String,
    /// Why the figures are no result to cite, each in a clause; empty when they are. The verdict begins with it.
    #[serde(default)]
    pub not_a_result: Vec<String>,
    /// False when a proof, a check or the exercise of storage failed on a measured path.
    pub valid: bool,
    /// Whatever a reader must know before believing the figures.
    pub notes: Vec<String>,
    /// What was asked for.
    pub plan: PlanRecord,
    /// One entry for each path asked for, measured or not.
    pub paths: Vec<PathResult>,
    /// Each measured path against the first one.
    pub against_first: Vec<Against>,
    /// The same paths in further regimes, each apart: verdict, `paths` and `gates` above are of the first regime alone. Empty
    /// where the plan has one regime.
    #[serde(default)]
    pub regimes: Vec<RegimeResult>,
    /// Promises the plan asked to be tested.
    pub gates: Vec<Gate>,
    /// Each measured arm against the newest earlier record, when that was asked for.
    #[serde(default)]
    pub against_last: Option<AgainstLast>,
    /// Points kept out of a model's fit, predicted and measured.
    #[serde(default)]
    pub predictions: Vec<Prediction>,
    /// Where it was measured.
    pub environment: Environment,
    /// Every load that was tried, when load was searched or swept; empty otherwise.
    #[serde(default)]
    pub curve: Vec<CurvePoint>,
    /// Steps between two tunings, each alone and added up; empty without a ladder.
    #[serde(default)]
    pub ladder: Vec<LadderStep>,
    /// The report the plan stands for; absent for a plan of its own.
    #[serde(default)]
    pub stands_for: Option<StandsFor>,
    /// Parts that arms play in checked shapes: `SC1` to `capped` to the name of an arm.
    #[serde(default)]
    pub roles: BTreeMap<String, BTreeMap<String, String>>,
    /// What each tuning sets, by its name: knob (`database.work_mem`, `dnfs.slots`) to value with unit.
    #[serde(default)]
    pub tunings: BTreeMap<String, BTreeMap<String, String>>,
}
