//! What may be concluded: from results of arms to the sentence at the top. Pure: takes records, gives records.

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

use results::compare::{Against, Cpu, Gate, PathResult, PathStatus, PlanRecord};
use results::statistics::{RunValue, series_mean};

use crate::database::kind::DatabaseKind;
use crate::plan::ShareGate;

#[cfg(test)]
pub(crate) use saturation::tests::arm as arm_on_a_medium;
pub(crate) use saturation::{Saturation, saturation};
pub(crate) use waits::session_time;

/// Share of the host that others may use before the figures are called disturbed.
const OTHERS_BUSY_MAX: f64 = 0.20;
/// Share of the processor time wanted here that may be steal time before the same is said. It
/// comes in bursts, so a tenth on average is far more for some.
pub(crate) const STOLEN_MAX: f64 = 0.10;

/// The conclusions of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    /// The sentence at the top.
    pub(crate) verdict: String,
    /// Each measured arm against the first measured one.
    pub(crate) against_first: Vec<Against>,
    /// What a reader must know before believing the figures.
    pub(crate) notes: Vec<String>,
    /// Why the figures are no result: the sentence at the top begins with it.
    pub(crate) not_a_result: Vec<String>,
    /// No measured arm failed a proof or a check.
    pub(crate) valid: bool,
}

/// Fills what each arm's runs allow to say of it alone: bottleneck, steady state, Little's law.
pub(crate) fn judge_alone(path: &mut PathResult, database: DatabaseKind) {
    path.steady = steady::judge(&path.runs);
    path.little = littles_law::judge(&path.runs);
    path.bottleneck = Some(bottleneck::judge(path, database));
}

/// Compares the arms and concludes. Fills what only a comparison can tell: the relative CPU cost. `guest` is how figures of the guest
/// are to be read in which they were measured.
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

/// Why figures that were measured soundly are no result: a guest, a single run on each path, or a host that others used meanwhile.
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

/// The plan's gates on paths of which an arm ran beside the first. One is missed where the 95 % interval of the ratio lies below it, so
/// that a path which is as good as promised does not pass one time and fail the next; a single run has its ratio alone.
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
        let most = interval.map_or(line.oets_ratio, |(_, high)| 1.0 + high / 100.0);
        Some(Gate { promise, found: line.oets_ratio, least: gate.least, passed: most >= gate.least })
    };
    gates.iter().filter_map(judged).collect()
}

/// OETs per minute of each run with the error inside it.
pub(crate) fn oets(path: &PathResult) -> Vec<RunValue> {
    let value = |run: &results::compare::Run| {
        let seconds: Vec<f64> = run.per_second.iter().map(|orders| *orders as f64 * 60.0).collect();
        let standard_error = series_mean(&seconds).map(|series| series.standard_error);
        RunValue { round: run.round, value: run.oets_per_minute, standard_error }
    };
    path.runs.iter().map(value).collect()
}

/// What a reader of the figures must know: each text once, with the names of all paths that it is about.
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

/// What a reader of this arm's figures must know.
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
    for little in path.little.iter().filter(|little| !little.passed) {
        notes.push(format!(
            "Little's law does not close for {}: {:.2} predicted, {:.2} found ({:+.0} %)",
            little.subject.as_str().replace('_', " "),
            little.in_flight_predicted,
            little.in_flight_found,
            little.difference_percent
        ));
    }
    let errors: u64 = path.response_ms.values().map(|response| response.errors).sum();
    if errors > 0 {
        notes.push(format!("{errors} transactions ended with an error"));
    }
    notes
}

/// A part of a whole; 0 of nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
