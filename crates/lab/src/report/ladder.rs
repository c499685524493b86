//! The ladder: the effect of each step of a tuning alone, and of all of them accumulated.

use results::curves::LadderStep;
use results::statistics::MeanInterval;

use super::rows::{self, Row};
use super::section::{Section, Table};
use super::view::View;
use super::words::{escape, figure, interval_words};

const LEAD: &str = "Steps from one tuning to another. The solid bar is the orders per minute with this step and all above it, \
    with the 95 % interval; the dot is this step alone on top of the start. A dot right of the first bar is a step that helps by \
    itself; a bar that grows where its dot did not is a step that only works with the others.";

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let steps = &view.comparison.ladder;
    let mut arms: Vec<&str> = Vec::new();
    for step in steps {
        if !arms.contains(&step.arm.as_str()) {
            arms.push(&step.arm);
        }
    }
    let mut body = String::new();
    for (place, arm) in arms.into_iter().enumerate() {
        let mut climbed: Vec<&LadderStep> = steps.iter().filter(|step| step.arm == arm).collect();
        climbed.sort_by_key(|step| step.place);
        let hue =
            view.arms.iter().find(|known| known.name == arm || known.result.name == arm).map_or(place % 6, |known| known.hue);
        let bars: Vec<Row> = climbed.iter().map(|step| row(step, hue)).collect();
        body += &format!("<h3>{}</h3>\n", escape(arm));
        body += &rows::chart(&format!("Tuning steps on {arm}"), "orders per minute", &bars);
        body += &table(arm, &climbed).html();
    }
    Section::new("ladder", "Step by step", LEAD, body)
}

fn row(step: &LadderStep, hue: usize) -> Row {
    let value = step.added_up.as_ref().map_or(0.0, |interval| interval.mean);
    let text = step.added_up.as_ref().map_or_else(|| "not measured".to_owned(), interval_words);
    Row {
        label: step.name.clone(),
        parts: vec![(format!("fill h{hue} s{}", u32::from(step.place > 0)), value, format!("{}: {text}", step.name))],
        interval: step.added_up.as_ref().and_then(MeanInterval::ends),
        dots: step.alone.iter().map(|interval| interval.mean).collect(),
        text,
    }
}

fn table(arm: &str, steps: &[&LadderStep]) -> Table {
    let heads =
        ["step", "<sets", "alone", "alone, against start", "cumulative", "cumulative, against start", "gain over previous step"];
    let mut table = Table::new(&format!("Steps on {arm}, orders per minute"), &heads);
    let start = steps.first().and_then(|step| step.added_up.as_ref()).map_or(f64::NAN, |interval| interval.mean);
    let mut before = f64::NAN;
    for step in steps {
        let sets: Vec<String> = step.sets.iter().map(|(knob, value)| format!("{}={}", escape(knob), escape(value))).collect();
        let words = |interval: &Option<MeanInterval>| interval.as_ref().map_or_else(|| "–".to_owned(), interval_words);
        let times = |interval: &Option<MeanInterval>, of: f64| {
            let ratio = interval.as_ref().map_or(f64::NAN, |interval| interval.mean / of);
            if ratio.is_finite() { format!("{} ×", figure(ratio)) } else { "–".to_owned() }
        };
        table.row(&[
            escape(&step.name),
            sets.join(", "),
            words(&step.alone),
            times(&step.alone, start),
            words(&step.added_up),
            times(&step.added_up, start),
            times(&step.added_up, before),
        ]);
        before = step.added_up.as_ref().map_or(before, |interval| interval.mean);
    }
    table
}
