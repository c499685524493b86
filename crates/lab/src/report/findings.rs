//! Conclusions: the bottleneck of each configuration, its steady state, whether the counts agree, and predictions.

use std::fmt::Write;

use results::compare::{BottleneckClass, PathResult};
use results::judgement::{Prediction, RelativeDifference};

use crate::judge::{self, Saturation};

use super::bars::difference;
use super::section::{Section, Table, arm_cell, outcome, swatch, term};
use super::view::View;
use super::words::{bottleneck_name, bottleneck_words, escape, figure, grouped, not_counted, signed};

const LEAD: &str = "The bottleneck of each path, with the figures that show it and what to try next, and up to which load \
    throughput grows with the number in flight. Then checks of the measurement itself: whether the runs were in steady state, \
    whether rate times time gives the number in flight (Little's law), and how well one point that was held out of the model \
    was predicted.";

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let mut body = limits(view);
    body += &carrying(&judge::saturation(view.comparison));
    body += &differences(view).html();
    body += &steady(view).html();
    body += &little(view).html();
    body += &predictions(&view.comparison.predictions).html();
    Section::new("findings", "Bottlenecks, and checks of the measurement", LEAD, body)
}

fn limits(view: &View<'_>) -> String {
    let mut cards = String::new();
    for arm in &view.arms {
        let mut list = String::new();
        if let Some(bottleneck) = &arm.result.bottleneck {
            let class = if bottleneck.class == BottleneckClass::None {
                String::new()
            } else {
                format!(" ({})", escape(bottleneck.class.as_str()))
            };
            term(&mut list, "bottleneck", &format!("<b>{}</b>{class}", escape(&bottleneck_words(bottleneck))));
            term(&mut list, "evidence", &escape(&bottleneck.evidence));
            if !bottleneck.next.is_empty() {
                term(&mut list, "try next", &escape(&bottleneck.next));
            }
        }
        if let Some(reason) = arm.result.reason.as_deref().filter(|_| !arm.valid()) {
            term(&mut list, "not valid", &format!("<span class=\"bad\">{}</span>", escape(reason)));
        }
        conditions(&mut list, arm.result);
        let _ = writeln!(
            cards,
            "<article class=\"card\"><h3>{}{}</h3><dl>{list}</dl></article>",
            swatch(&arm.class()),
            escape(arm.name)
        );
    }
    if cards.is_empty() { cards } else { format!("<div class=\"cards\">{cards}</div>\n") }
}

/// The load, the layout of the files, and the caches.
fn conditions(list: &mut String, result: &PathResult) {
    let class = result.caching_class.as_ref().map_or_else(String::new, |class| format!("<b>{}</b>: ", escape(class.as_str())));
    let texts = [("load", &result.load), ("layout", &result.layout), ("caches", &result.caching)];
    for (name, text) in texts {
        if let Some(text) = text {
            let prefix = if name == "caches" { class.as_str() } else { "" };
            term(list, name, &format!("<span class=\"faint\">{prefix}{}</span>", escape(text)));
        }
    }
}

/// The load up to which throughput equals in-flight / latency, and what ends that.
fn carrying(found: &[Saturation]) -> String {
    let heads =
        ["path", "users", "<counted", "in flight / latency, 1/s", "measured, 1/s", "measured / expected", "processors busy, %"];
    let mut table = Table::new("Throughput against in flight / latency, load by load", &heads);
    let mut items = String::new();
    for one in found {
        let _ = writeln!(items, "<li><b>{}</b>: {}</li>", escape(&one.arm), escape(&one.text));
        for step in &one.steps {
            table.row(&[
                escape(&one.arm),
                step.users.to_string(),
                one.counted.to_owned(),
                figure(step.expected_per_s),
                figure(step.found_per_s),
                format!("{:.2}", step.reached()),
                format!("{:.0}", step.busy * 100.0),
            ]);
        }
    }
    if items.is_empty() { items } else { format!("<ul>{items}</ul>\n{}", table.html()) }
}

fn differences(view: &View<'_>) -> Table {
    let heads = ["path", "<against", "orders", "<difference", "CPU per order", "<difference", "<CPU comparable at equal load"];
    let mut table = Table::new("Against the first path, with 95 % intervals of the difference", &heads);
    for line in &view.comparison.against_first {
        let ratio = |ratio: f64| format!("{ratio:.2} ×");
        let words = |known: &Option<RelativeDifference>| {
            known.as_ref().map_or_else(|| "–".to_owned(), |known| format!("{}, {}", interval(known), difference(known.shown)))
        };
        let fixed = line
            .fixed_load
            .as_ref()
            .map_or_else(|| "–".to_owned(), |fixed| format!("{} {}", outcome(fixed.valid, "yes", "no"), escape(&fixed.reason)));
        let orders = if line.orders_difference.is_some() {
            words(&line.orders_difference)
        } else {
            difference(line.difference).to_owned()
        };
        table.row(&[
            escape(&line.path),
            escape(&line.first),
            ratio(line.oets_ratio),
            orders,
            ratio(line.cpu_ratio),
            words(&line.cpu_difference),
            fixed,
        ]);
    }
    table
}

fn interval(known: &RelativeDifference) -> String {
    match (known.low_percent, known.high_percent) {
        (Some(low), Some(high)) => format!("{} % [{}, {}]", signed(known.percent), signed(low), signed(high)),
        _ => format!("{} %", signed(known.percent)),
    }
}

fn steady(view: &View<'_>) -> Table {
    let heads = ["path", "<steady", "drift, % of mean", "range of fifths, %", "still warming up, s", "checkpoints", "<summary"];
    let mut table = Table::new(
        "Steady state (drift at most 10 %, means of the five fifths of a run within 20 %, a checkpoint inside)",
        &heads,
    );
    for arm in &view.arms {
        let Some(steady) = &arm.result.steady else { continue };
        // Records of older versions contain only the text; the note below the figures gives the reason.
        if steady.not_tested || steady.text.starts_with("steady state can't be tested") {
            let dash = || "–".to_owned();
            let cells = ["<span class=\"faint\">not tested</span>".to_owned(), dash(), dash(), dash()];
            let row: Vec<String> =
                [vec![arm_cell(arm)], cells.to_vec(), vec![steady.checkpoints.to_string(), String::new()]].concat();
            table.row(&row);
            continue;
        }
        table.row(&[
            arm_cell(arm),
            outcome(steady.passed, "yes", "no"),
            figure(steady.drift_percent),
            figure(steady.range_percent),
            figure(steady.dropped_s),
            steady.checkpoints.to_string(),
            escape(&steady.text),
        ]);
    }
    table
}

fn little(view: &View<'_>) -> Table {
    let heads = ["path", "<in flight", "rate × time", "observed", "difference, %", "<agrees", "<how both were counted"];
    let mut table = Table::new("Little's law: rate × time against what was observed in flight", &heads);
    for arm in &view.arms {
        for law in &arm.result.little {
            table.row(&[
                arm_cell(arm),
                escape(&law.subject.as_str().replace('_', " ")),
                figure(law.in_flight_predicted),
                figure(law.in_flight_found),
                signed(law.difference_percent),
                outcome(law.passed, "yes", "no"),
                escape(&law.explanation),
            ]);
        }
    }
    table
}

fn predictions(predictions: &[Prediction]) -> Table {
    let heads = ["held out", "<fitted on", "<of", "predicted", "measured", "error, %", "<bottleneck by the model"];
    let mut table = Table::new("Held-out predictions", &heads);
    for point in predictions {
        let range = point.range.map_or_else(String::new, |(low, high)| format!(" ({} to {})", grouped(low), grouped(high)));
        table.row(&[
            escape(&(point.held_out.clone() + &not_counted(point))),
            escape(&point.fitted_on),
            escape(&point.quantity.replace('_', " ")),
            grouped(point.predicted) + &range,
            grouped(point.measured),
            signed(point.error_percent),
            escape(&bottleneck_name(&point.bottleneck)),
        ]);
    }
    table
}
