//! Compares a new comparison with the newest earlier record of each configuration's series. Does no I/O except reading records.

use std::path::PathBuf;

use results::compare::{AgainstLast, ArmAgainstLast, Comparison, Gate, PathStatus};
use results::judgement::RelativeDifference;
use results::statistics::RunValue;

use super::conditions::changes;
use super::entry::{ArmFigures, Entry, figures};
use super::find::{self, Found};
use crate::diff::{as_gate, between_records, difference_words, short};
use crate::error::LabError;
use crate::report::words::{CPU_WITHOUT_FILER, ORDERS};

/// Location of the earlier records, and the allowed loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Last {
    /// A directory with records at any depth.
    pub directory: PathBuf,
    /// Whether it is the directory that will contain this record's directory: then only its direct subdirectories are searched.
    pub beside: bool,
    /// Allowed loss in percent.
    pub threshold_percent: f64,
}

impl Last {
    /// Refuses a missing directory before anything is measured. A directory beside the new record may not exist yet.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        if self.beside {
            return Ok(());
        }
        std::fs::read_dir(&self.directory).map(|_| ()).map_err(LabError::file("look for records in", &self.directory))
    }

    /// Description for a dry run.
    pub(crate) fn words(&self) -> String {
        let place = if self.beside { "in the directories of" } else { "below" };
        format!("the newest record of each path {place} {}, {} % may be lost", self.directory.display(), self.threshold_percent)
    }

    /// Compares the comparison with the records, stores the result in it, and adds the gates.
    pub(crate) fn hold(&self, comparison: &mut Comparison) {
        let found = if self.beside {
            find::siblings(&self.directory)
        } else {
            find::find(std::slice::from_ref(&self.directory), &mut |_, _| {})
        };
        // A directory that disappeared in the meantime must not discard the measurement.
        let found = found.unwrap_or_else(|error| {
            comparison.notes.push(format!("not held against earlier records: cannot {error}"));
            Found::default()
        });
        let (held, gates) = against(comparison, &found, self.threshold_percent);
        comparison.gates.extend(gates);
        comparison.against_last = Some(held);
    }
}

/// Compares each measured configuration with its newest earlier record, and adds a gate for each figure that could be compared.
#[must_use]
pub fn against(now: &Comparison, found: &Found, threshold_percent: f64) -> (AgainstLast, Vec<Gate>) {
    let earlier: Vec<&Entry> = found.entries.iter().filter(|entry| entry.started_utc < now.started_utc).collect();
    let (mut arms, mut gates) = (Vec::new(), Vec::new());
    for path in now.paths.iter().filter(|path| path.status == PathStatus::Measured && !path.runs.is_empty()) {
        let (arm, of_arm) = one(&figures(now, path), &earlier, threshold_percent);
        arms.push(arm);
        gates.extend(of_arm);
    }
    (AgainstLast { threshold_percent, records: earlier.len(), arms }, gates)
}

fn one(now: &ArmFigures, earlier: &[&Entry], threshold_percent: f64) -> (ArmAgainstLast, Vec<Gate>) {
    let mut held = ArmAgainstLast { arm: now.arm.clone(), ..ArmAgainstLast::default() };
    let same = |entry: &&Entry| entry.arms.iter().any(|arm| arm.conditions.is_same(&now.conditions));
    let mut chosen = None;
    for entry in earlier.iter().rev().copied().filter(same) {
        let Some(arm) = entry.arms.iter().find(|arm| arm.conditions.is_same(&now.conditions)) else { continue };
        let why_not = if arm.lost {
            Some("it had lost more than was allowed against its own last record")
        } else if arm.oets.len() < 2 {
            Some("it has one run, which has no interval")
        } else {
            None
        };
        match why_not {
            Some(reason) => held.passed_over.push(format!("{}: {reason}", entry.record)),
            None => {
                chosen = Some((entry, arm));
                break;
            }
        }
    }
    let Some((entry, before)) = chosen else {
        let why = if held.passed_over.is_empty() { "" } else { ", but for some that were passed over" };
        held.text = format!("{}: no earlier record of the same series among {}{why}", now.arm, earlier.len());
        return (held, Vec::new());
    };
    held.record = Some(entry.record.clone());
    held.started_utc = Some(entry.started_utc.clone());
    held.commit.clone_from(&entry.commit);
    held.changed = changes(&before.changeable, &now.changeable);
    held.orders_difference = between_records(&before.oets, &now.oets);
    held.cpu_difference = between_records(&before.cpu, &now.cpu);
    let what = entry.commit.as_ref().map_or_else(|| entry.record.clone(), |commit| format!("{commit:.12}"));
    let gates: Vec<Gate> = [(ORDERS, true, &held.orders_difference), (CPU_WITHOUT_FILER, false, &held.cpu_difference)]
        .into_iter()
        .filter_map(|(figure, more_is_better, found)| {
            Some(gate(figure, more_is_better, found.as_ref()?, threshold_percent, &now.arm))
        })
        .collect();
    held.lost = gates.iter().any(|gate| !gate.passed);
    held.text = words(now, before, &held, &format!("{what} of {}", entry.started_utc));
    (held, gates)
}

/// The gate fails if the figure is worse by more than the threshold, and the interval of the difference shows that it is worse.
fn gate(figure: &str, more_is_better: bool, found: &RelativeDifference, threshold_percent: f64, arm: &str) -> Gate {
    let (ratio, shown_below) = as_gate(found, more_is_better);
    let allowed = if more_is_better { 1.0 - threshold_percent / 100.0 } else { 1.0 / (1.0 + threshold_percent / 100.0) };
    let promise = format!(
        "{figure} of {arm} at most {threshold_percent} % worse than in its last record, or the 99 % interval of the difference contains zero"
    );
    Gate::of(promise, ratio, allowed.min(shown_below))
}

fn words(now: &ArmFigures, before: &ArmFigures, held: &ArmAgainstLast, what: &str) -> String {
    let mean = |runs: &[RunValue]| runs.iter().map(|run| run.value).sum::<f64>() / runs.len().max(1) as f64;
    let part = |name: &str, a: &[RunValue], b: &[RunValue], found: Option<&RelativeDifference>, more_is_better: bool| {
        let said = found.map_or_else(|| "not known".to_owned(), |found| difference_words(found, more_is_better));
        format!("{name} {} -> {}, {said}", short(mean(a)), short(mean(b)))
    };
    let mut text = format!(
        "{} against {what}: {}; {}",
        now.arm,
        part(ORDERS, &before.oets, &now.oets, held.orders_difference.as_ref(), true),
        part(CPU_WITHOUT_FILER, &before.cpu, &now.cpu, held.cpu_difference.as_ref(), false),
    );
    if held.lost {
        text += "; LOSS beyond the threshold";
    }
    if now.oets.len() < 2 {
        text += "; two runs on each path are needed for a claim: --repeats 2 or more";
    }
    if !held.changed.is_empty() {
        text += &format!("; since then {}", held.changed.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::exit_code;
    use crate::history::seeded::{Level, record};

    fn found(records: &[Comparison]) -> Found {
        let entries = records.iter().enumerate().map(|(place, record)| Entry::of(record, format!("{place:02}/results.json")));
        Found { entries: entries.collect(), left_out: Vec::new() }
    }

    /// The result for `now` after `earlier`, stored in its record as in a comparison.
    fn held(now: &mut Comparison, earlier: &[Comparison], threshold: f64) -> AgainstLast {
        let (held, gates) = against(now, &found(earlier), threshold);
        now.gates = gates;
        now.against_last = Some(held.clone());
        held
    }

    #[test]
    fn a_loss_of_ten_percent_is_missed_in_nineteen_of_twenty_seeds_and_no_loss_in_none_of_twenty() {
        let level = |factor| Level { factor, records_noise: 0.005, ..Level::default() };
        let (mut lost, mut alarms) = (0, Vec::new());
        for seed in 0..20 {
            let earlier = [record(seed, &level(1.0))];
            let mut slower = record(seed + 100, &level(0.9));
            let mut equal = record(seed + 200, &Level::default());
            lost += usize::from(held(&mut slower, &earlier, 5.0).is_lost());
            if held(&mut equal, &earlier, 5.0).is_lost() {
                alarms.push(seed);
            }
            assert_eq!(exit_code(&slower), u8::from(slower.against_last.as_ref().unwrap().is_lost()));
        }
        assert!(lost >= 19, "{lost} of 20 losses of 10 % were found");
        assert!(alarms.is_empty(), "false alarms with seeds {alarms:?}");
    }

    #[test]
    fn of_two_hundred_records_without_a_loss_at_most_six_are_said_to_have_one_however_runs_scatter() {
        for runs_noise in [0.02, 0.08] {
            let level = Level { runs_noise, ..Level::default() };
            let is_alarm = |seed: &u64| held(&mut record(seed + 1_000, &level), &[record(*seed, &level)], 5.0).is_lost();
            let alarms: Vec<u64> = (0..200).filter(is_alarm).collect();
            assert!(alarms.len() <= 6, "at a scatter of {runs_noise}: {} false alarms, seeds {alarms:?}", alarms.len());
        }
    }

    #[test]
    fn a_loss_stays_one_when_it_is_measured_again_until_it_is_accepted_without_the_gate() {
        let first = record(0, &Level::default());
        let slow = Level { factor: 0.85, ..Level::default() };
        let mut second = record(1, &slow);
        assert!(held(&mut second, std::slice::from_ref(&first), 5.0).is_lost());
        let mut again = record(2, &slow);
        let verdict = held(&mut again, &[first.clone(), second.clone()], 5.0);
        assert!(verdict.is_lost() && verdict.arms[0].passed_over.len() == 1, "{verdict:?}");
        let accepted = record(3, &slow);
        let mut after = record(4, &slow);
        assert!(!held(&mut after, &[first, second, again, accepted], 5.0).is_lost());
    }

    #[test]
    fn a_small_or_an_unsure_loss_passes_and_a_gain_too() {
        let earlier = [record(0, &Level { runs_noise: 0.002, ..Level::default() })];
        let sure = |factor| record(9, &Level { factor, runs_noise: 0.002, records_noise: 0.0, ..Level::default() });
        assert!(!held(&mut sure(0.97), &earlier, 5.0).is_lost());
        assert!(held(&mut sure(0.97), &earlier, 0.5).is_lost());
        assert!(!held(&mut sure(1.3), &earlier, 5.0).is_lost());
        let mut unsure = record(9, &Level { factor: 0.9, runs_noise: 0.2, ..Level::default() });
        assert!(!held(&mut unsure, &earlier, 5.0).is_lost());
        let mut single = record(9, &Level { factor: 0.5, repeats: 1, ..Level::default() });
        let verdict = held(&mut single, &earlier, 5.0);
        assert!(!verdict.is_lost() && verdict.arms[0].text.contains("--repeats"), "{verdict:?}");
    }

    #[test]
    fn without_an_earlier_record_of_the_series_nothing_is_missed_and_it_is_said() {
        let mut other = record(0, &Level::default());
        other.environment.cpu_count = 64;
        let single = record(1, &Level { repeats: 1, ..Level::default() });
        let later = record(20, &Level::default());
        let mut now = record(9, &Level { factor: 0.5, ..Level::default() });
        let verdict = held(&mut now, &[other, single, later], 5.0);
        assert!(verdict.arms.iter().all(|arm| arm.record.is_none() && arm.text.contains("no earlier record")), "{verdict:?}");
        assert_eq!((exit_code(&now), verdict.arms[0].passed_over.len()), (0, 1));
    }
}
