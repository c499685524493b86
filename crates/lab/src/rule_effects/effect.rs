//! The effect of each change, and whether to keep it.

use results::compare::{Against, Comparison};
use results::curves::LadderStep;
use results::judgement::RelativeDifference;
use results::statistics::{Difference, relative_difference};
use serde::Serialize;

use super::change::RuleChange;
use crate::judge::oets;

/// The effect of one change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// The change.
    pub change: RuleChange,
    /// Orders per minute with this change alone, divided by those of the start, if measured.
    pub ratio: Option<f64>,
    /// Difference of the orders per minute with this change alone.
    pub percent: Option<Percent>,
    /// The same, added to all previous changes, if these are kept.
    pub on_top: Option<Percent>,
    /// Orders per minute with this and all previous changes.
    pub added_up_per_minute: Option<f64>,
    /// Whether to keep it: a gain was shown.
    pub kept: bool,
    /// The same in words.
    pub text: String,
}

/// A difference in percent of the start, with its 95 % interval if there are two rounds or more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percent {
    /// Difference of the means.
    pub middle: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// The effect of each change, in order.
#[must_use]
pub fn effects(comparison: &Comparison, changes: &[RuleChange]) -> Vec<Effect> {
    let mut effects: Vec<Effect> = Vec::new();
    for change in changes {
        let before = effects.last().filter(|_| effects.iter().all(|effect| effect.kept));
        let on_top = before.and_then(|before| on_top(comparison, &before.change.rule, effects.len() == 1, &change.rule));
        effects.push(effect(comparison, change, on_top.as_ref()));
    }
    effects
}

fn effect(comparison: &Comparison, change: &RuleChange, on_top: Option<&RelativeDifference>) -> Effect {
    let step = comparison.ladder.iter().find(|step| step.place > 0 && step.name == change.rule);
    let against = alone(comparison, &change.rule);
    let alone = against.and_then(|line| line.orders_difference.as_ref());
    let kept = match on_top.filter(|found| found.shown == Difference::Shown) {
        Some(found) => found.percent > 0.0,
        None => against.is_some_and(|line| line.difference == Difference::Shown && line.oets_ratio > 1.0),
    };
    Effect {
        change: change.clone(),
        ratio: against.map(|line| line.oets_ratio),
        percent: alone.map(percent),
        on_top: on_top.map(percent),
        added_up_per_minute: step.and_then(|step: &LadderStep| step.added_up.as_ref()).map(|mean| mean.mean),
        kept,
        text: words(&change.rule, against, on_top, kept),
    }
}

fn percent(found: &RelativeDifference) -> Percent {
    Percent { middle: found.percent, low: found.low_percent, high: found.high_percent }
}

/// The rung of this and all previous changes compared with the rung below; `first`: the rung below has only the first change.
fn on_top(comparison: &Comparison, below: &str, first: bool, rule: &str) -> Option<RelativeDifference> {
    let rung = |tuning: &str| comparison.paths.iter().find(|path| path.tuning == tuning);
    let below = rung(&format!("{}-{below}", if first { "only" } else { "upto" }))?;
    relative_difference(&oets(below), &oets(rung(&format!("upto-{rule}"))?))
}

/// The comparison of the rung with this change alone with the start.
fn alone<'a>(comparison: &'a Comparison, rule: &str) -> Option<&'a Against> {
    let tuning = format!("only-{rule}");
    let arm = comparison.paths.iter().find(|path| path.tuning == tuning)?;
    comparison.against_first.iter().find(|line| line.path == arm.arm)
}

fn words(rule: &str, against: Option<&Against>, on_top: Option<&RelativeDifference>, kept: bool) -> String {
    let Some(line) = against else { return format!("{rule}: not measured") };
    let alone = line.orders_difference.as_ref().map_or_else(|| format!("{:+.1} %", (line.oets_ratio - 1.0) * 100.0), range);
    let above = on_top.map(|found| format!(", on top of those before {}", range(found))).unwrap_or_default();
    let shown = on_top.map(|found| found.shown).into_iter().chain([line.difference]);
    let said = match (kept, shown.max_by_key(|shown| *shown == Difference::Shown)) {
        (true, _) => "a gain is shown: kept",
        (false, Some(Difference::Shown)) => "a loss is shown: reverted",
        (false, Some(Difference::Unknown) | None) => "too few runs to claim anything: reverted",
        (false, Some(Difference::NotShown)) => "no difference shown: reverted",
    };
    format!("{rule}: {alone} orders per minute alone{above}; {said}")
}

fn range(found: &RelativeDifference) -> String {
    match (found.low_percent, found.high_percent) {
        (Some(low), Some(high)) => format!("{:+.1} % ({low:+.1} to {high:+.1})", found.percent),
        _ => format!("{:+.1} %", found.percent),
    }
}

#[cfg(test)]
mod tests {
    use results::compare::{PathResult, Run};
    use results::judgement::IntervalMethod;
    use results::statistics::MeanInterval;

    use super::*;

    fn change(rule: &str, settings: &[(&str, &str)]) -> RuleChange {
        RuleChange::of_postgres(rule, settings)
    }

    /// A configuration with this tuning, with four rounds of about `about` orders per minute.
    fn arm(tuning: &str, about: f64) -> PathResult {
        let rounds = (1..).zip([-1.0, 1.0, 0.5, -0.5]);
        let runs = rounds.map(|(round, off)| Run { round, oets_per_minute: about + off, ..Run::default() }).collect();
        PathResult { arm: format!("dnfs {tuning}"), tuning: tuning.to_owned(), runs, ..PathResult::default() }
    }

    fn line(tuning: &str, ratio: f64, difference: Difference) -> Against {
        let orders_difference = Some(RelativeDifference {
            percent: (ratio - 1.0) * 100.0,
            low_percent: Some((ratio - 1.1) * 100.0),
            high_percent: Some((ratio - 0.9) * 100.0),
            with_twice_the_rounds_percent: None,
            claim_factor: None,
            shown: difference,
            method: IntervalMethod::Paired,
            degrees: 2.0,
        });
        Against { path: format!("dnfs {tuning}"), oets_ratio: ratio, difference, orders_difference, ..Against::default() }
    }

    #[test]
    fn what_a_change_brings_on_top_of_kept_ones_counts_more_than_what_it_brings_alone() {
        let rules = ["first", "hidden", "harmful", "after"];
        let comparison = Comparison {
            paths: vec![
                arm("only-first", 140.0),
                arm("only-hidden", 101.0),
                arm("upto-hidden", 180.0),
                arm("only-harmful", 120.0),
                arm("upto-harmful", 150.0),
                arm("only-after", 100.0),
                arm("upto-after", 190.0),
            ],
            against_first: vec![
                line("only-first", 1.4, Difference::Shown),
                line("only-hidden", 1.01, Difference::NotShown),
                line("only-harmful", 1.2, Difference::Shown),
                line("only-after", 1.0, Difference::NotShown),
            ],
            ..Comparison::default()
        };
        let found = effects(&comparison, &rules.map(|rule| change(rule, &[])));
        assert_eq!(found.iter().map(|effect| effect.kept).collect::<Vec<_>>(), [true, true, false, false]);
        assert!(
            found[1].on_top.unwrap().low.unwrap() > 20.0 && found[1].text.contains("on top of those before +28"),
            "{found:?}"
        );
        assert!(found[2].on_top.unwrap().middle < 0.0 && found[2].text.contains("a loss is shown"), "{found:?}");
        assert_eq!(
            (found[0].on_top, found[3].on_top),
            (None, None),
            "there is nothing below the first one, and a reverted one is not a basis"
        );
    }

    #[test]
    fn only_a_shown_gain_is_kept() {
        let rules = ["gains", "loses", "level", "few"];
        let comparison = Comparison {
            paths: rules.map(|rule| arm(&format!("only-{rule}"), 100.0)).to_vec(),
            against_first: vec![
                line("only-gains", 1.4, Difference::Shown),
                line("only-loses", 0.8, Difference::Shown),
                line("only-level", 1.2, Difference::NotShown),
                line("only-few", 3.0, Difference::Unknown),
            ],
            ladder: vec![LadderStep {
                place: 1,
                name: "gains".to_owned(),
                added_up: MeanInterval::of(&[500.0]),
                ..LadderStep::default()
            }],
            ..Comparison::default()
        };
        let changes: Vec<RuleChange> = ["gains", "loses", "level", "few", "absent"].map(|rule| change(rule, &[])).to_vec();
        let found = effects(&comparison, &changes);
        assert_eq!(found.iter().map(|effect| effect.kept).collect::<Vec<_>>(), [true, false, false, false, false]);
        assert_eq!(found[0].added_up_per_minute, Some(500.0));
        assert!(found[0].text.contains("+40.0 %") && found[1].text.contains("a loss is shown"), "{found:?}");
        assert!(found[4].text.contains("not measured"), "{found:?}");
    }
}
