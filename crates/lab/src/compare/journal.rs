//! The journal of finished runs, kept beside the record during a comparison: after an interruption,
//! `--resume` continues and loses one run, not all.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use results::compare::Run;
use results::orders_run::OrdersRun;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::limits::{ARMS_MAX, REGIMES_MAX, REPEATS_MAX};
use crate::plan::Plan;
use crate::report::RECORD;

/// Name of the journal in the output directory.
const JOURNAL: &str = "runs.jsonl";

/// The journal file, open for more runs.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Number of runs in it.
    count: usize,
}

/// First line: the plan of the runs below it.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: u32,
    plan: String,
}

/// A finished run: every line except the first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FinishedRun {
    /// Name of its scenario; `None` for the plan's own configurations.
    #[serde(default)]
    pub(crate) regime: Option<String>,
    /// Index of its configuration among the measured ones.
    pub(crate) place: usize,
    pub(crate) run: Run,
    /// The driver's record of the run.
    pub(crate) record: OrdersRun,
}

impl Journal {
    /// Creates a journal.
    pub(crate) fn create(out: &Path, plan: &Plan) -> Result<Self, LabError> {
        let path = out.join(JOURNAL);
        let file = File::create_new(&path).map_err(LabError::file("create", &path))?;
        let mut journal = Self { path, file, count: 0 };
        journal.write(&Head { schema: 1, plan: fingerprint(plan) })?;
        Ok(journal)
    }

    /// Continues a journal of the same plan; drops an incomplete line. Returns the finished runs.
    pub(crate) fn resume(out: &Path, plan: &Plan) -> Result<(Self, Vec<FinishedRun>), LabError> {
        let done = Self::finished(out, plan)?;
        // Writes the file again, because further lines must not follow an incomplete one.
        let path = out.join(JOURNAL);
        fs::remove_file(&path).map_err(LabError::file("replace", &path))?;
        let mut journal = Self::create(out, plan)?;
        for line in &done {
            journal.append(line)?;
        }
        Ok((journal, done))
    }

    /// The finished runs of the same plan. Changes nothing.
    pub(crate) fn finished(out: &Path, plan: &Plan) -> Result<Vec<FinishedRun>, LabError> {
        let path = out.join(JOURNAL);
        if !path.exists() && out.join(RECORD).exists() {
            return Err(LabError::plan(
                format!("resume {}: its comparison is complete", out.display()),
                "its results.json has everything (millrace report draws its page); measure again into another directory: --out",
            ));
        }
        let lines = File::open(&path).map_err(LabError::file("resume from", &path))?;
        let mut lines =
            BufReader::new(lines).lines().map_while(Result::ok).take(1 + (1 + REGIMES_MAX) * ARMS_MAX * REPEATS_MAX as usize);
        let head: Option<Head> = lines.next().and_then(|line| serde_json::from_str(&line).ok());
        if head.is_none_or(|head| head.schema != 1 || head.plan != fingerprint(plan)) {
            return Err(LabError::plan(
                format!("resume {}: its runs were asked for by another plan", out.display()),
                "resume with the plan and the options of the comparison that was interrupted",
            ));
        }
        Ok(lines.map_while(|line| serde_json::from_str(&line).ok()).collect())
    }

    /// Appends a finished run.
    ///
    /// Durability: on the device when it returns.
    pub(crate) fn append(&mut self, finished: &FinishedRun) -> Result<(), LabError> {
        self.write(finished)?;
        self.count += 1;
        self.file.sync_data().map_err(LabError::file("sync", &self.path))
    }

    /// Removes the journal if it has no runs. Returns whether it did.
    pub(crate) fn remove_if_empty(&self) -> bool {
        self.count == 0 && fs::remove_file(&self.path).is_ok()
    }

    /// Removes the journal, because the comparison is complete and its record contains everything.
    pub(crate) fn finish(self) {
        let _ = fs::remove_file(&self.path);
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), LabError> {
        let mut text = serde_json::to_vec(line).map_err(|source| LabError::Record { program: "the journal", source })?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(LabError::file("write", &self.path))
    }
}

/// Removes the journal of a comparison that was killed before its first run. Returns whether it did.
pub(crate) fn remove_journal_without_runs(out: &Path) -> bool {
    let path = out.join(JOURNAL);
    let lines = fs::read(&path).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count());
    lines < 2 && fs::remove_file(path).is_ok()
}

/// The parts of the plan that define its runs: its name, the budget and the gates may change.
fn fingerprint(plan: &Plan) -> String {
    let plan = Plan { name: String::new(), budget: std::time::Duration::ZERO, share_gates: Vec::new(), ..plan.clone() };
    format!("{plan:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DEFAULT_PLAN, Overrides};

    fn plan(users: u32, budget: &str) -> Plan {
        let overrides =
            Overrides { users: Some(users), budget: Some(crate::plan::parse_duration(budget).unwrap()), ..Overrides::default() };
        Plan::parse(DEFAULT_PLAN, &overrides).unwrap()
    }

    fn finished(place: usize, run: Run) -> FinishedRun {
        FinishedRun { regime: None, place, run, record: OrdersRun::default() }
    }

    #[test]
    fn finished_runs_come_back_for_the_same_plan_and_half_a_line_does_not() {
        let out = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(out.path(), &plan(4, "1m")).unwrap();
        for sequence in 1..=2 {
            let run = Run { sequence, orders: 7, ..Run::default() };
            journal.append(&finished(sequence as usize - 1, run)).unwrap();
        }
        journal.file.write_all(b"{\"place\":0,\"ru").unwrap();
        let (mut journal, done) = Journal::resume(out.path(), &plan(4, "2h")).unwrap();
        assert_eq!(done.iter().map(|done| (done.place, done.run.sequence)).collect::<Vec<_>>(), [(0, 1), (1, 2)]);
        journal.append(&finished(0, Run::default())).unwrap();
        assert_eq!(Journal::resume(out.path(), &plan(4, "1m")).unwrap().1.len(), 3);
    }

    #[test]
    fn another_plan_is_refused_and_an_empty_journal_goes_away() {
        let out = tempfile::tempdir().unwrap();
        let journal = Journal::create(out.path(), &plan(4, "1m")).unwrap();
        let error = Journal::resume(out.path(), &plan(5, "1m")).err().unwrap();
        assert!(error.to_string().contains("another plan") && error.hint().is_some());
        assert!(journal.remove_if_empty() && !out.path().join(JOURNAL).exists());
    }
}
