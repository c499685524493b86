//! The kept part of a record: the figures of its configurations, run by run.

use std::collections::BTreeMap;

use results::compare::{Comparison, PathResult, PathStatus};
use results::statistics::RunValue;

use super::conditions::{self, Conditions};
use crate::{diff, judge};

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// File or other place of the record.
    pub(crate) record: String,
    /// Start, UTC, RFC 3339.
    pub(crate) started_utc: String,
    pub(crate) commit: Option<String>,
    pub(crate) version: String,
    /// Names of the plan: its own, and that of the report that it reproduces.
    pub(crate) plans: Vec<String>,
    pub(crate) not_a_result: Vec<String>,
    /// Configurations whose figures may be used.
    pub(crate) arms: Vec<ArmFigures>,
    /// The other configurations that ran, each with the reason.
    pub(crate) not_valid: Vec<(String, String)>,
}

/// The figures of one configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArmFigures {
    pub(crate) arm: String,
    pub(crate) path: String,
    pub(crate) conditions: Conditions,
    /// Properties that may change within a series.
    pub(crate) changeable: BTreeMap<String, String>,
    /// Orders per minute of each run.
    pub(crate) oets: Vec<RunValue>,
    /// Processor seconds per 1,000 orders without the filer, of each run.
    pub(crate) cpu: Vec<RunValue>,
    pub(crate) new_order_p99_ms: Option<f64>,
    /// Whether it was compared with the previous record and had lost more than allowed.
    pub(crate) lost: bool,
}

impl Entry {
    /// Reduces a record. `record` is its place.
    #[must_use]
    pub fn of(comparison: &Comparison, record: String) -> Self {
        let ran = || comparison.paths.iter().filter(|path| !path.runs.is_empty());
        let reason = |path: &PathResult| path.reason.clone().unwrap_or_else(|| "a proof or a check failed".to_owned());
        let not_valid = ran().filter(|path| path.status == PathStatus::NotValid);
        let report = comparison.stands_for.as_ref().map(|stands_for| stands_for.report.clone());
        Self {
            record,
            started_utc: comparison.started_utc.clone(),
            commit: comparison.environment.millrace_commit.clone().filter(|commit| !commit.is_empty()),
            version: comparison.environment.millrace_version.clone(),
            plans: comparison.plan.name.clone().into_iter().chain(report).collect(),
            not_a_result: comparison.not_a_result.clone(),
            arms: ran().filter(|path| path.status == PathStatus::Measured).map(|path| figures(comparison, path)).collect(),
            not_valid: not_valid.map(|path| (name(path).to_owned(), reason(path))).collect(),
        }
    }
}

/// The figures of one measured configuration.
pub(super) fn figures(comparison: &Comparison, path: &PathResult) -> ArmFigures {
    let held = comparison.against_last.as_ref();
    ArmFigures {
        arm: name(path).to_owned(),
        path: path.name.clone(),
        conditions: Conditions::of(comparison, path),
        changeable: conditions::changeable(comparison, path),
        oets: judge::oets(path),
        cpu: diff::cpu_cost_without_filer(path),
        new_order_p99_ms: path.response_ms.get("new_order").map(|response| response.p99).filter(|p99| *p99 > 0.0),
        lost: held.is_some_and(|held| held.arms.iter().any(|arm| arm.lost && arm.arm == name(path))),
    }
}

/// Name of a configuration; records of older versions contain only the path's name.
fn name(path: &PathResult) -> &str {
    if path.arm.is_empty() { &path.name } else { &path.arm }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{SOUND, Shape, comparison};

    #[test]
    fn an_arm_that_is_not_valid_has_no_figures_and_the_filer_is_not_the_databases_host() {
        let sound = Entry::of(&comparison(SOUND), "a".into());
        assert_eq!(sound.arms.iter().map(|arm| arm.arm.as_str()).collect::<Vec<_>>(), ["local", "dnfs"]);
        let dnfs = &sound.arms[1];
        assert!((dnfs.cpu[0].value - 29.0 * 1e3 / 2_000.0).abs() < 1e-9, "{:?}", dnfs.cpu);
        assert!(dnfs.new_order_p99_ms.is_some());
        let failed = Entry::of(&comparison(Shape { failed_checks: 1, ..SOUND }), "b".into());
        assert_eq!(failed.arms.len(), 1);
        assert_eq!(failed.not_valid.len(), 1);
        assert_eq!(failed.not_valid[0].0, "dnfs");
    }
}
