//! Draws conclusions, from the results of configurations to the verdict. Pure: takes and returns records.

mod against;
mod bottleneck;
mod figures;
mod littles_law;
pub(crate) mod regime;
mod runner_up;
mod saturation;
mod steady;
mod verdict;
mod waits;

use results::compare::{Against, Cpu, Gate, PathResult, PathStatus, PlanRecord, Served};
use results::statistics::{RunValue, series_mean};

use crate::database::kind::DatabaseKind;
use crate::measure::proof;
use crate::plan::ShareGate;

#[cfg(test)]
pub(crate) use saturation::tests::arm as arm_on_a_medium;
pub(crate) use saturation::{Saturation, saturation};
pub(crate) use waits::session_time;

/// Share of the host above which use by other programs makes the figures disturbed.
const OTHERS_BUSY_MAX: f64 = 0.20;
/// The same for steal time, as a share of the requested processor time. Steal time
/// comes in bursts, so a mean of a tenth is far more for some runs.
pub(crate) const STOLEN_MAX: f64 = 0.10;

/// The conclusions of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    /// The verdict: the sentence at the top of the report.
    pub(crate) verdict: String,
    /// Each measured configuration compared with the first measured one.
    pub(crate) against_first: Vec<Against>,
    /// Restrictions that a reader must know before using the figures.
    pub(crate) notes: Vec<String>,
    /// Why the figures are not a result. The verdict begins with these reasons.
    pub(crate) not_a_result: Vec<String>,
    /// Whether no measured configuration failed a proof or a check.
    pub(crate) valid: bool,
}

/// Fills in the conclusions about one configuration alone: bottleneck, steady state, Little's law.
pub(crate) fn judge_alone(path: &mut PathResult, database: DatabaseKind) {
    path.steady = steady::judge(&path.runs);
    path.little = littles_law::judge(&path.runs);
    path.bottleneck = Some(bottleneck::judge(path, database));
}

/// Compares the configurations and draws conclusions. Fills in the relative CPU cost, which needs a comparison. `guest` is the label
/// of the guest in which the figures were measured.
pub(crate) fn judge(paths: &mut [PathResult], plan: &PlanRecord, guest: Option<&str>) -> Judgement {
    against::relative_cpu_cost(paths);
    let against_first = against::against_first(paths);
    let mut verdict = verdict::verdict(paths, &against_first);
    let mut notes = merged(paths);
    if plan.repeats_done == 1 && !against_first.is_empty() {
        notes.push("one run has no interval: --repeats 3 gives one, --repeats 5 or more a claim about a few percent".to_owned());
    }
    let valid = paths.iter().all(|path| path.status != PathStatus::NotValid);
    let not_a_result = not_a_result(paths, plan, guest);
    if let Some(label) = guest {
        notes.insert(0, format!("measured in a guest: {label}; these figures are never held against those of another machine"));
    }
    if valid && !not_a_result.is_empty() {
        verdict = format!("NOT A RESULT: {}. {verdict}", not_a_result.join("; "));
    }
    Judgement { verdict, against_first, notes, not_a_result, valid }
}

/// Why correctly measured figures are not a result: a guest, a single run on each path, or a host that other programs used.
fn not_a_result(paths: &[PathResult], plan: &PlanRecord, guest: Option<&str>) -> Vec<String> {
    let ran: Vec<&PathResult> = paths.iter().filter(|path| path.oets_per_minute.is_some()).collect();
    let mut reasons: Vec<String> = guest.map(str::to_owned).into_iter().collect();
    if plan.repeats_done == 1 && !ran.is_empty() {
        reasons.push("one run on each path".to_owned());
    }
    let most = |share: fn(&Cpu) -> f64| ran.iter().filter_map(|path| path.cpu.as_ref()).map(share).fold(0.0, f64::max);
    let (others, stolen) = (most(|cpu| cpu.others_busy_share), most(|cpu| cpu.stolen_share));
    if others > OTHERS_BUSY_MAX {
        reasons.push(format!("other programs used up to {:.0} % of this host", others * 100.0));
    }
    if stolen > STOLEN_MAX {
        reasons.push(format!("other machines took up to {:.0} % of the processor time wanted here (steal time)", stolen * 100.0));
    }
    reasons
}

/// The plan's gates on paths with a configuration that ran besides the first one. A gate fails if the 95 % interval of the ratio is
/// below it, so that a path at the required value does not pass once and fail the next time; a single run has only its ratio.
pub(crate) fn gates(paths: &[PathResult], against: &[Against], gates: &[ShareGate]) -> Vec<Gate> {
    let is_of = |arm: &str, path: &str| paths.iter().any(|result| result.arm == arm && result.name == path);
    let judged = |gate: &ShareGate| {
        let line = against.iter().find(|line| is_of(&line.path, &gate.path))?;
        let mut promise = format!("orders per minute of {} at least {} of those of {}", gate.path, gate.least, line.first);
        let interval = line.orders_difference.as_ref().and_then(|found| found.low_percent.zip(found.high_percent));
        if let Some((low, high)) = interval {
            let share = |percent: f64| 1.0 + percent / 100.0;
            promise += &format!(", by the 95 % interval, {:.2} to {:.2}", share(low), share(high));
        }
        let above = interval.map_or(0.0, |(_, high)| 1.0 + high / 100.0 - line.oets_ratio);
        Some(Gate::of(promise, line.oets_ratio, gate.least - above))
    };
    gates.iter().filter_map(judged).collect()
}

/// OETs per minute of each run, with the error from inside the run.
pub(crate) fn oets(path: &PathResult) -> Vec<RunValue> {
    let value = |run: &results::compare::Run| {
        let seconds: Vec<f64> = run.per_second.iter().map(|orders| *orders as f64 * 60.0).collect();
        let standard_error = series_mean(&seconds).map(|series| series.standard_error);
        RunValue { round: run.round, value: run.oets_per_minute, standard_error }
    };
    path.runs.iter().map(value).collect()
}

/// Notes for the reader of the figures: each text once, with the names of all paths that it applies to.
fn merged(paths: &[PathResult]) -> Vec<String> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for path in paths {
        for text in notes(path) {
            match found.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(&path.arm),
                None => found.push((text, vec![&path.arm])),
            }
        }
    }
    found.into_iter().map(|(text, names)| format!("{}: {text}", names.join(", "))).collect()
}

/// Notes for the reader of this configuration's figures.
fn notes(path: &PathResult) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(cpu) = path.cpu.as_ref().filter(|cpu| cpu.others_busy_share > OTHERS_BUSY_MAX) {
        let percent = cpu.others_busy_share * 100.0;
        notes.push(format!("processes outside the comparison used {percent:.0} % of the host while it was measured"));
    }
    if let Some(cpu) = path.cpu.as_ref().filter(|cpu| cpu.stolen_share > STOLEN_MAX) {
        let percent = cpu.stolen_share * 100.0;
        notes
            .push(format!("the hypervisor gave {percent:.0} % of the processor time wanted here to other machines (steal time)"));
    }
    if path.io.as_ref().is_some_and(|io| io.checkpoints == 0) {
        notes.push("no checkpoint ended inside the measured intervals".to_owned());
    }
    let archived: u64 = path.runs.iter().map(|run| run.database.log_segments_archived).sum();
    if path.layout_name.as_deref() == Some("split-archive") && !path.runs.is_empty() && archived == 0 {
        notes.push("no log segment was finished and archived during the runs".to_owned());
    }
    if let Some(steady) = path.steady.as_ref().filter(|steady| !steady.passed) {
        notes.push(steady.text.clone());
    }
    if let Some(why) = path.proof.as_ref().and_then(|proof| proof.not_proven.as_ref()) {
        notes.push(format!("path not proven: {why}"));
    }
    notes.extend(path.proof.as_ref().and_then(proof::answered_by_page_cache));
    for little in path.little.iter().filter(|little| !little.passed) {
        notes.push(format!(
            "Little's law does not close for {}: {:.2} predicted, {:.2} found ({:+.0} %)",
            little.subject.as_str().replace('_', " "),
            little.in_flight_predicted,
            little.in_flight_found,
            little.difference_percent
        ));
    }
    notes.extend(path.runs.iter().find_map(|run| run.served.as_ref()).map(served));
    let errors: u64 = path.response_ms.values().map(|response| response.errors).sum();
    if errors > 0 {
        notes.push(format!("{errors} transactions ended with an error"));
    }
    notes
}

/// The processes and servers that served a named directory or device, and where their processor time is counted.
fn served(served: &Served) -> String {
    let counted = if served.is_counted {
        "their whole processor time is counted: a client's as the database's, a server's as the filer's"
    } else {
        "what is not a process here, or may not be inspected by this user, is not in the processor time"
    };
    format!("the files were served by {}; {counted}", served.by)
}

/// `part` divided by `whole`; 0 if `whole` is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
