//! A history as tables for a terminal.

use results::history::{History, HistoryPoint, HistorySeries, PointBy};
use results::statistics::MeanInterval;

use crate::diff::short;
use crate::report::history::title;
use crate::report::history::words::{point_heading, point_name, step_words};
use crate::report::words::{CPU_WITHOUT_FILER, ORDERS};

/// The tables, one for each series.
#[must_use]
pub fn render(history: &History) -> String {
    let mut text = String::new();
    for series in &history.series {
        text += &format!("{}\n", title(series));
        for line in &series.differs {
            text += &format!("  {line}\n");
        }
        text += &table(series, &history.by);
        text.push('\n');
    }
    let records = history.records;
    let span = history.span_utc.as_ref().map_or_else(String::new, |(first, last)| format!(", {first} to {last}"));
    text += &format!("{records} record{}{span}\n", if records == 1 { "" } else { "s" });
    text
}

fn table(series: &HistorySeries, by: &PointBy) -> String {
    let mut rows =
        vec![["when", point_heading(&series.points), "runs", ORDERS, CPU_WITHOUT_FILER, "p99 ms", "change"].map(str::to_owned)];
    rows.extend(series.points.iter().map(|point| row(point, by)));
    let widths: Vec<usize> =
        (0..7).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (place, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Text is left-aligned, figures are right-aligned.
            line += &if matches!(place, 2..=5) { format!(" {cell:>width$} ") } else { format!(" {cell:<width$} ") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn row(point: &HistoryPoint, by: &PointBy) -> [String; 7] {
    let runs = point.oets_per_minute.as_ref().map_or(0, |interval| interval.runs);
    let when = &point.span_utc.0;
    let mut remarks: Vec<String> = point.steps.iter().map(step_words).collect();
    remarks.extend(point.changed.iter().cloned());
    if !point.not_a_result.is_empty() {
        remarks.push("not a result".to_owned());
    }
    [
        if *by == PointBy::Date { when.clone() } else { when.split('T').next().unwrap_or(when).to_owned() },
        point_name(point),
        runs.to_string(),
        figure(point.oets_per_minute.as_ref()),
        figure(point.cpu_s_per_1000_orders.as_ref()),
        point.new_order_p99_ms.as_ref().map_or_else(|| "-".to_owned(), |p99| short(p99.mean)),
        remarks.join("; "),
    ]
}

fn figure(interval: Option<&MeanInterval>) -> String {
    let Some(interval) = interval else { return "-".to_owned() };
    let half = interval.ci95.map_or_else(String::new, |half| format!(" ± {}", short(half)));
    short(interval.mean) + &half
}
