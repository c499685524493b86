//! Compares two comparisons: the differences in environment, plan, parameters and figures; and a gate that checks a new
//! comparison against an old one. No I/O.

use std::collections::BTreeMap;

use results::compare::{Comparison, Gate, PathResult, PathStatus, RegimeResult};
use results::judgement::RelativeDifference;
use results::statistics::{Difference, RunValue, relative_difference};
use serde::Serialize;
use serde_json::Value;

use crate::judge;
use crate::paths;
use crate::report::words::{CPU, CPU_WITHOUT_FILER, ORDERS};

/// All differences.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Diff {
    /// Differences in the environment.
    pub environment: Vec<Change>,
    /// Differences in the plan.
    pub plan: Vec<Change>,
    /// Differences in the tunings.
    pub parameters: Vec<Change>,
    /// Configurations that only one side measured.
    pub only: Vec<String>,
    /// Figures of the configurations that both sides measured.
    pub figures: Vec<FigureChange>,
}

/// One difference.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// Value on the first side; `None` if it has none.
    pub a: Option<String>,
    /// Value on the second side; `None` if it has none.
    pub b: Option<String>,
}

/// One figure of one configuration on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureChange {
    /// The configuration.
    pub arm: String,
    /// The figure with its unit.
    pub figure: String,
    /// Mean on the first side.
    pub a: f64,
    /// Mean on the second side.
    pub b: f64,
    /// `b` compared with `a` in percent with its interval, from the runs of both sides.
    pub difference: Option<RelativeDifference>,
    /// Whether larger values are better (orders) or worse (times, costs).
    pub more_is_better: bool,
}

/// Extracts a figure from each run.
type Pick = fn(&PathResult) -> Vec<RunValue>;

/// Compared figures: name with unit, whether larger values are better, value of each run.
const FIGURES: [(&str, bool, Pick); 5] = [
    (ORDERS, true, judge::oets),
    (CPU, false, cpu_cost),
    (CPU_WITHOUT_FILER, false, cpu_cost_without_filer),
    ("block read, us", false, read_us),
    ("transaction, ms", false, response_ms),
];

/// Computes the differences between two comparisons.
#[must_use]
pub fn diff(a: &Comparison, b: &Comparison) -> Diff {
    let mut only = Vec::new();
    let mut figures = Vec::new();
    if let Some(why) = not_comparable(a, b) {
        only.push(format!("no figure is compared: {why}"));
    }
    for path in measured(a) {
        match measured(b).find(|other| other.arm == path.arm) {
            Some(other) if paths::client(path) == paths::client(other) => figures.extend(figures_of(path, other)),
            Some(other) => only.push(format!(
                "{}: by {} on the first side, by {} on the second",
                path.arm,
                paths::client(path),
                paths::client(other)
            )),
            None => only.push(format!("{}: first side only", path.arm)),
        }
    }
    let alone = measured(b).filter(|path| measured(a).all(|other| other.arm != path.arm));
    only.extend(alone.map(|path| format!("{}: second side only", path.arm)));
    for (label, before, after) in shared_regimes(a, b) {
        let is_same =
            |path: &PathResult, other: &PathResult| other.arm == path.arm && paths::client(path) == paths::client(other);
        let pairs = ran(&before.paths).filter_map(|path| Some((path, ran(&after.paths).find(|other| is_same(path, other))?)));
        let named = |figure: FigureChange| FigureChange { arm: format!("{label}: {}", figure.arm), ..figure };
        figures.extend(pairs.flat_map(|(path, other)| figures_of(path, other)).map(named));
    }
    if not_comparable(a, b).is_some() {
        figures.clear();
    }
    Diff {
        environment: changes(&a.environment, &b.environment),
        plan: changes(&a.plan, &b.plan),
        parameters: changes(&a.tunings, &b.tunings),
        only,
        figures,
    }
}

/// Why no figure of one record may be compared with the other's: figures of a guest and of another machine are not comparable.
pub(crate) fn not_comparable(a: &Comparison, b: &Comparison) -> Option<String> {
    let (a, b) = (a.environment.guest.as_deref(), b.environment.guest.as_deref());
    let words = |label: Option<&str>| label.map_or_else(|| "not in a guest".to_owned(), |label| format!("in a guest ({label})"));
    (a != b).then(|| format!("the first was measured {}, the second {}", words(a), words(b)))
}

/// Checks `now` against a baseline: a configuration's orders must not be lower, nor its processor time per order higher, than the
/// runs of both can show. A configuration of the baseline that is not measured now counts as a failed gate.
#[must_use]
pub fn gates(baseline: &Comparison, now: &Comparison) -> Vec<Gate> {
    let mut gates = Vec::new();
    for before in measured(baseline) {
        let is_same = |path: &&PathResult| path.arm == before.arm && paths::client(path) == paths::client(before);
        let Some(after) = measured(now).find(is_same) else {
            let by = before.client.as_ref().map_or_else(String::new, |client| format!(" by {client}"));
            let promise = format!("{} is measured{by}, as in the baseline", before.arm);
            gates.push(Gate::of(promise, 0.0, 1.0));
            continue;
        };
        for figure in figures_of(before, after).into_iter().take(2) {
            let Some(difference) = figure.difference else { continue };
            let (ratio, shown_below) = as_gate(&difference, figure.more_is_better);
            let promise = format!(
                "{} of {} not worse than in the baseline, or the 99 % interval of the difference contains zero",
                figure.figure, before.arm
            );
            gates.push(Gate::of(promise, ratio, shown_below));
        }
    }
    gates
}

/// The ratio, where 1 is as good as before and less is worse, and the smallest ratio that these runs do not show to be worse: 0 if
/// they can show nothing.
pub(crate) fn as_gate(difference: &RelativeDifference, more_is_better: bool) -> (f64, f64) {
    let ratio = |percent: f64| if more_is_better { 1.0 + percent / 100.0 } else { 1.0 / (1.0 + percent / 100.0) };
    (ratio(difference.percent), difference.claim_factor.map_or(0.0, |factor| 1.0 / factor))
}

/// The difference as text.
#[must_use]
pub fn render(diff: &Diff) -> String {
    let mut text = String::new();
    for (title, changes) in [("environment", &diff.environment), ("plan", &diff.plan), ("parameters", &diff.parameters)] {
        text += &format!("{title}: {}\n", if changes.is_empty() { "the same" } else { "differs" });
        for change in changes {
            let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            text += &format!("  {}: {} -> {}\n", change.name, side(&change.a), side(&change.b));
        }
    }
    for line in &diff.only {
        text += &format!("{line}\n");
    }
    for figure in &diff.figures {
        text += &format!("{}: {} {} -> {}", figure.arm, figure.figure, short(figure.a), short(figure.b));
        text += &figure
            .difference
            .as_ref()
            .map_or_else(|| "\n".to_owned(), |found| format!("  {}\n", difference_words(found, figure.more_is_better)));
    }
    text
}

pub(crate) fn short(value: f64) -> String {
    if value >= 1000.0 { crate::summary::grouped(value) } else { format!("{value:.2}") }
}

fn measured(comparison: &Comparison) -> impl Iterator<Item = &PathResult> {
    ran(&comparison.paths)
}

fn ran(paths: &[PathResult]) -> impl Iterator<Item = &PathResult> {
    paths.iter().filter(|path| path.status != PathStatus::Skipped && !path.runs.is_empty())
}

/// Further scenarios of both sides with the same name, medium and load. The rate of a fixed load is determined by each comparison, so
/// figures of two rates are not compared.
fn shared_regimes<'a>(
    a: &'a Comparison,
    b: &'a Comparison,
) -> impl Iterator<Item = (&'a str, &'a RegimeResult, &'a RegimeResult)> {
    let same = |one: &RegimeResult, other: &RegimeResult| {
        (&one.name, &one.medium, &one.load) == (&other.name, &other.medium, &other.load)
    };
    a.regimes.iter().filter_map(move |one| Some((one.name.as_str(), one, b.regimes.iter().find(|other| same(one, other))?)))
}

fn figures_of(a: &PathResult, b: &PathResult) -> Vec<FigureChange> {
    let mut figures = Vec::new();
    for (figure, more_is_better, pick) in FIGURES {
        let (first, second) = (pick(a), pick(b));
        let mean = |runs: &[RunValue]| runs.iter().map(|run| run.value).sum::<f64>() / runs.len().max(1) as f64;
        if first.is_empty() || second.is_empty() {
            continue;
        }
        figures.push(FigureChange {
            arm: a.arm.clone(),
            figure: figure.to_owned(),
            a: mean(&first),
            b: mean(&second),
            difference: between_records(&first, &second),
            more_is_better,
        });
    }
    figures
}

/// Difference of the runs of two records. Their rounds are not close in time, so different numbers prevent pairing.
pub(crate) fn between_records(first: &[RunValue], second: &[RunValue]) -> Option<RelativeDifference> {
    let apart: Vec<RunValue> = second.iter().map(|run| RunValue { round: u32::MAX - run.round, ..*run }).collect();
    relative_difference(first, &apart)
}

/// The difference, and the claim that it allows.
pub(crate) fn difference_words(found: &RelativeDifference, more_is_better: bool) -> String {
    let interval = found
        .low_percent
        .zip(found.high_percent)
        .map_or_else(String::new, |(low, high)| format!(" ({low:+.1} to {high:+.1}, 95 % interval)"));
    let better = (found.percent > 0.0) == more_is_better;
    let verdict = match found.shown {
        Difference::Shown if better => "better",
        Difference::Shown => "WORSE",
        Difference::NotShown => "no difference shown",
        Difference::Unknown => "one run: no claim",
    };
    format!("{:+.1} %{interval}: {verdict}", found.percent)
}

fn cpu_cost(path: &PathResult) -> Vec<RunValue> {
    cpu_of(path, |_| true)
}

/// Processor seconds per 1,000 orders on the database's host, in each run: the storage of the published reports was a separate machine.
pub(crate) fn cpu_cost_without_filer(path: &PathResult) -> Vec<RunValue> {
    cpu_of(path, |owner| owner != "filer")
}

fn cpu_of(path: &PathResult, counts: fn(&str) -> bool) -> Vec<RunValue> {
    let value = |run: &results::compare::Run| {
        let seconds: f64 = run.cpu.iter().filter(|(owner, _)| counts(owner)).map(|(_, time)| time.total_s()).sum();
        RunValue { round: run.round, value: seconds * 1e3 / run.orders as f64, standard_error: None }
    };
    path.runs.iter().filter(|run| run.orders > 0).map(value).filter(|run| run.value > 0.0).collect()
}

fn read_us(path: &PathResult) -> Vec<RunValue> {
    let value = |run: &results::compare::Run| RunValue {
        round: run.round,
        value: run.database.block_read_ms * 1e3 / run.database.blocks_read.max(1) as f64,
        standard_error: None,
    };
    path.runs.iter().filter(|run| run.database.blocks_read > 0).map(value).collect()
}

fn response_ms(path: &PathResult) -> Vec<RunValue> {
    let value = |run: &results::compare::Run| {
        let load = run.load.as_ref().filter(|load| load.transactions > 0)?;
        let value = load.response_s * 1e3 / load.transactions as f64;
        Some(RunValue { round: run.round, value, standard_error: None })
    };
    path.runs.iter().filter_map(value).collect()
}

/// Differences of two records, field by field; nested fields have dotted names.
fn changes<T: Serialize>(a: &T, b: &T) -> Vec<Change> {
    let flat = |record: &T| {
        let mut fields = BTreeMap::new();
        flatten("", &serde_json::to_value(record).unwrap_or(Value::Null), &mut fields);
        fields
    };
    let (a, b) = (flat(a), flat(b));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let changed = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    changed.map(|name| Change { name: name.clone(), a: a.get(name).cloned(), b: b.get(name).cloned() }).collect()
}

fn flatten(name: &str, value: &Value, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(parts) => {
            for (part, value) in parts {
                let name = if name.is_empty() { part.clone() } else { format!("{name}.{part}") };
                flatten(&name, value, fields);
            }
        }
        Value::Null => {}
        Value::String(text) => {
            fields.insert(name.to_owned(), text.clone());
        }
        other => {
            fields.insert(name.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{SOUND, Shape, comparison};

    #[test]
    fn equal_comparisons_differ_in_nothing_and_pass_the_gate() {
        let found = diff(&comparison(SOUND), &comparison(SOUND));
        assert!(found.environment.is_empty() && found.plan.is_empty() && found.only.is_empty(), "{found:?}");
        assert!(found.figures.iter().all(|figure| (figure.a - figure.b).abs() < 1e-9));
        assert!(gates(&comparison(SOUND), &comparison(SOUND)).iter().all(|gate| gate.passed));
        assert!(render(&found).contains("environment: the same"));
    }

    #[test]
    fn a_slower_arm_a_changed_setting_and_a_missing_arm_are_found() {
        let before = comparison(SOUND);
        let mut after = comparison(Shape { dnfs_orders: [1_700, 1_710, 1_690], ..SOUND });
        after.environment.database_settings.insert("shared_buffers".into(), "512MB".into());
        after.plan.users = 16;
        let found = diff(&before, &after);
        let text = render(&found);
        assert!(text.contains("database_settings.shared_buffers: 256MB -> 512MB"), "{text}");
        assert!(text.contains("users: 8 -> 16"), "{text}");
        assert!(text.contains("dnfs: orders/min 4,000 -> 3,400  -15.0 %") && text.contains("WORSE"), "{text}");
        let missed: Vec<Gate> = gates(&before, &after).into_iter().filter(|gate| !gate.passed).collect();
        assert!(missed.iter().any(|gate| gate.promise.contains("orders/min of dnfs")), "{missed:?}");
        assert!(missed.iter().all(|gate| !gate.promise.contains("local")), "{missed:?}");
        // In the other direction, everything is better and no gate fails.
        assert!(gates(&after, &before).iter().all(|gate| gate.passed));
        after.paths.retain(|path| path.arm == "local");
        assert!(diff(&before, &after).only.iter().any(|line| line.contains("dnfs: first side only")));
        assert!(gates(&before, &after).iter().any(|gate| !gate.passed && gate.promise.contains("is measured")));
    }

    #[test]
    fn a_gate_passes_exactly_if_its_value_reaches_the_least_and_no_loss_is_shown() {
        let before = comparison(SOUND);
        let mut verdicts = std::collections::BTreeSet::new();
        for orders in (1_900..=2_010).step_by(2) {
            let after = comparison(Shape { dnfs_orders: [orders, orders + 10, orders - 10], ..SOUND });
            let of_dnfs = |text: &str| text.contains("orders/min of dnfs");
            let gate = gates(&before, &after).into_iter().find(|gate| of_dnfs(&gate.promise)).unwrap();
            let figures = diff(&before, &after).figures;
            let figure = figures.iter().find(|figure| figure.arm == "dnfs" && figure.figure == "orders/min").unwrap();
            let found = figure.difference.as_ref().unwrap();
            let is_loss = found.percent < 0.0 && found.shown == Difference::Shown;
            assert_eq!((gate.passed, gate.found >= gate.least), (!is_loss, !is_loss), "{gate:?} {found:?}");
            verdicts.insert(gate.passed);
        }
        assert_eq!(verdicts.len(), 2, "the range has losses that are shown and others");
    }

    #[test]
    fn a_path_that_another_client_carried_is_named_and_its_figures_are_not_compared() {
        let (mut before, mut after) = (comparison(SOUND), comparison(SOUND));
        for path in before.paths.iter_mut().chain(&mut after.paths).filter(|path| path.arm == "dnfs") {
            path.name = "iscsi".into();
        }
        let dnfs = after.paths.iter_mut().find(|path| path.arm == "dnfs").unwrap();
        dnfs.client = Some("millrace".into());
        assert!(diff(&before, &after).only.is_empty(), "a record of before says none");
        let dnfs = after.paths.iter_mut().find(|path| path.arm == "dnfs").unwrap();
        dnfs.client = Some("open-iscsi".into());
        let found = diff(&before, &after);
        assert_eq!(found.only, ["dnfs: by millrace on the first side, by open-iscsi on the second"]);
        assert!(found.figures.iter().all(|figure| figure.arm != "dnfs"));
        let missed: Vec<Gate> = gates(&after, &before).into_iter().filter(|gate| !gate.passed).collect();
        assert_eq!(missed.len(), 1);
        assert_eq!(missed[0].promise, "dnfs is measured by open-iscsi, as in the baseline");
    }

    #[test]
    fn figures_of_a_guest_are_compared_with_none_of_another_machine() {
        let native = comparison(SOUND);
        let mut guest = native.clone();
        guest.environment.guest = Some(crate::guest::run::EMULATED.to_owned());
        assert!(!diff(&native, &native).figures.is_empty());
        for (a, b) in [(&native, &guest), (&guest, &native)] {
            let found = diff(a, b);
            assert!(found.figures.is_empty(), "{:?}", found.figures);
            assert!(render(&found).contains("no figure is compared: the first was measured"), "{found:?}");
        }
        assert!(!diff(&guest, &guest).figures.is_empty());
    }
}
