//! The request for a comparison.

use std::path::PathBuf;

use results::compare::Comparison;

use crate::history::last::Last;
use crate::measure::metrics::Source;
use crate::plan::Plan;

/// Plan, work directory, output directory and further options of a comparison.
#[derive(Debug, Clone)]
pub struct Request {
    /// The plan.
    pub plan: Plan,
    /// Directory below which the work directory is created.
    pub work_base: PathBuf,
    /// Directory for `results.json` and `report.html`.
    pub out: PathBuf,
    /// Whether to continue the comparison whose finished runs are in `out`.
    pub resume: bool,
    /// Whether the command has the option `--resume`, so that hints may mention it.
    pub resumable: bool,
    /// Whether to keep the work directory.
    pub keep: bool,
    /// Directory of PostgreSQL's server programs; `None` to search for it.
    pub pg_bin: Option<PathBuf>,
    /// Whether the contents of the plan's block devices may be destroyed.
    pub overwrite_devices: bool,
    /// This program: its child processes serve, execute and load.
    pub program: PathBuf,
    /// Version of this program.
    pub version: String,
    /// Commit from which it was built, if known.
    pub commit: Option<String>,
    /// An earlier comparison that this one must not be worse than.
    pub baseline: Option<Comparison>,
    /// Earlier records that this one must not be worse than.
    pub last: Option<Last>,
    /// Source of the latency that the storage itself reports.
    pub metrics: Option<Source>,
}
