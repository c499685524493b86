//! What a comparison is asked for.

use std::path::PathBuf;

use results::compare::Comparison;

use crate::history::last::Last;
use crate::measure::metrics::Source;
use crate::plan::Plan;

/// What to compare, where to work, where to leave the record.
#[derive(Debug, Clone)]
pub struct Request {
    /// The plan.
    pub plan: Plan,
    /// Directory below which the work directory is made.
    pub work_base: PathBuf,
    /// Directory for `results.json` and `report.html`.
    pub out: PathBuf,
    /// Go on with the comparison whose finished runs are in `out`.
    pub resume: bool,
    /// Whether who asks takes `--resume`, and may be told so.
    pub resumable: bool,
    /// Leave the work directory in place.
    pub keep: bool,
    /// Directory of PostgreSQL's server programs, when not to be searched.
    pub pg_bin: Option<PathBuf>,
    /// What is on block devices that the plan names may be destroyed.
    pub overwrite_devices: bool,
    /// This program: serves, executes and loads as a child.
    pub program: PathBuf,
    /// Version of this program.
    pub version: String,
    /// Commit it was built from, when known.
    pub commit: Option<String>,
    /// An earlier comparison that this one must not be worse than.
    pub baseline: Option<Comparison>,
    /// Earlier records that this one must not be worse than.
    pub last: Option<Last>,
    /// Where the storage reports its own latency.
    pub metrics: Option<Source>,
}
