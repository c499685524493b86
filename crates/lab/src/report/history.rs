//! The page of a history: for each series a section with three charts and their table, in the style of the report.

mod chart;
pub(crate) mod words;

use results::history::{History, HistoryFigure, HistoryPoint, HistorySeries, HistoryStep, PointBy};

use self::words::{interval_words, point_heading, point_name};
use super::page::{begin, contents};
use super::section::{Section, Table, term};
use super::svg::both;
use super::words::{CPU_WITHOUT_FILER, ORDERS, escape, figure};
use chart::{Followed, draw};

/// How to read a section, after the explanation of a mark.
const LEAD: &str = "The band is the 95 % interval of the runs. The vertical axis does not begin at nought. A ring marks a step: a change from \
    the mark before whose 99 % interval excludes zero, and which three marks before and three from there on confirm.";

/// Number of points above which a table is folded: the charts show the same data.
const UNFOLDED_POINTS_MAX: usize = 20;

/// The figures that are drawn for each series.
const FOLLOWED: [Followed; 3] = [
    Followed { name: ORDERS, short: ORDERS, figure: Some(HistoryFigure::Oets), pick: |point| point.oets_per_minute.as_ref() },
    Followed {
        name: CPU_WITHOUT_FILER,
        short: CPU_WITHOUT_FILER,
        figure: Some(HistoryFigure::Cpu),
        pick: |point| point.cpu_s_per_1000_orders.as_ref(),
    },
    Followed {
        name: "New-Order p99 in milliseconds",
        short: "p99, ms",
        figure: None,
        pick: |point| point.new_order_p99_ms.as_ref(),
    },
];

/// Renders the complete page: one file without external resources or scripts.
#[must_use]
pub fn render(history: &History) -> String {
    let sections: Vec<Section> =
        history.series.iter().enumerate().filter_map(|(place, series)| section(place, series, &history.by)).collect();
    let first = sections.first().map_or_else(|| "left-out".to_owned(), |section| section.id.clone().into_owned());
    let left_out = left_out(history);
    let more: &[(&str, &str)] = if left_out.is_empty() { &[] } else { &[("left-out", "Not shown")] };
    let mut page = begin("Run history", "", &first, &contents(&sections, more));
    page += &header(history);
    page.extend(sections.iter().map(Section::html));
    page + &left_out + "</main>\n</body></html>\n"
}

fn header(history: &History) -> String {
    let (records, series) = (history.records, history.series.len());
    let span = history.span_utc.as_ref().map_or_else(String::new, |(first, last)| format!("{first} to {last}"));
    let steps: Vec<String> =
        history.series.iter().filter_map(last_step).map(|line| format!("<li>{}</li>\n", escape(&line))).collect();
    let steps = if steps.is_empty() {
        "<p class=\"verdict\">No step is shown.</p>\n".to_owned()
    } else {
        format!(
            "<p class=\"verdict\">The last step of each series</p>\n<ul class=\"notes\" aria-label=\"Steps\">\n{}</ul>\n",
            steps.concat()
        )
    };
    format!(
        "<header>\n<h1>Run history</h1>\n{steps}<p class=\"faint\">{records} record{} · {series} series · {}</p>\n</header>\n",
        if records == 1 { "" } else { "s" },
        escape(&span)
    )
}

/// The newest step of a series in words.
fn last_step(series: &HistorySeries) -> Option<String> {
    let point = series.points.iter().rev().find(|point| !point.steps.is_empty())?;
    let words: Vec<String> = point.steps.iter().map(words::step_words).collect();
    Some(format!("{}: {} at {} of {}", series.arm, words.join(", "), point_name(point), point.span_utc.0))
}

fn section(place: usize, series: &HistorySeries, by: &PointBy) -> Option<Section> {
    let mut body = String::new();
    if !series.differs.is_empty() {
        let items: String = series.differs.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
        body += &format!(
            "<p class=\"faint\">A series of its own, for it differs from the first one of {}:</p>\n",
            escape(&series.path)
        );
        body += &format!("<ul class=\"notes\">\n{items}</ul>\n");
    }
    let hue = place % 6;
    for followed in &FOLLOWED {
        if series.points.iter().any(|point| (followed.pick)(point).is_some()) {
            let label = format!("{}: {}", series.arm, followed.name);
            body += &format!("<h3>{}</h3>\n", escape(followed.name));
            body += &both(&label, |width| draw(width, hue, &series.points, followed, by));
        }
    }
    let table = table(series, by).html();
    body += &if series.points.len() > UNFOLDED_POINTS_MAX {
        format!("<details><summary>Mark by mark, as a table</summary>\n{table}</details>\n")
    } else {
        table
    };
    body += &conditions(series);
    let mark = if *by == PointBy::Date { "a record at the moment of its start" } else { "a commit, or a record that names none" };
    let lead = format!("Each mark is {mark}. {LEAD}");
    Section::new(format!("series-{}", place + 1), title(series), lead, body)
}

fn table(series: &HistorySeries, by: &PointBy) -> Table {
    let name = point_heading(&series.points);
    let mut heads = if *by == PointBy::Date { vec!["date", name, "runs"] } else { vec![name, "date", "runs"] };
    heads.extend(FOLLOWED.map(|followed| followed.short));
    heads.push("<change");
    let mut table = Table::new(&format!("{}, mark by mark", series.arm), &heads);
    for point in &series.points {
        let (commit, date) = (escape(&point_name(point)), escape(&minute(point)));
        let runs = point.oets_per_minute.as_ref().map_or(0, |interval| interval.runs).to_string();
        let mut cells = if *by == PointBy::Date { vec![date, commit, runs] } else { vec![commit, date, runs] };
        cells.extend(FOLLOWED.iter().map(|followed| (followed.pick)(point).map_or_else(|| "–".to_owned(), interval_words)));
        cells.push(remarks(point));
        table.row(&cells);
    }
    table
}

/// The moment of a point without its seconds: `2026-11-01 04:00`.
fn minute(point: &HistoryPoint) -> String {
    point.span_utc.0.chars().take(16).collect::<String>().replace('T', " ")
}

/// Steps and other changes, as HTML.
fn remarks(point: &HistoryPoint) -> String {
    let step = |step: &HistoryStep| {
        let (class, mark) = if step.better { ("good", "✓") } else { ("bad", "✗") };
        format!("<span class=\"{class}\">{mark} {}</span>", escape(&words::step_words(step)))
    };
    let mut all: Vec<String> = point.steps.iter().map(step).collect();
    all.extend(point.changed.iter().map(|change| escape(change)));
    if let [_, _, ..] = point.oets_of_records.as_slice() {
        let (low, high) = ends(&point.oets_of_records);
        all.push(format!("{} records, {} to {} orders/min", point.records.len(), figure(low), figure(high)));
    }
    all.extend(point.not_a_result.iter().map(|why| format!("not a result: {}", escape(why))));
    all.join("; ")
}

fn conditions(series: &HistorySeries) -> String {
    let mut list = String::new();
    for (name, value) in &series.conditions {
        term(&mut list, name, &escape(value));
    }
    format!("<details><summary>What is the same in all of them</summary><dl class=\"facts\">\n{list}</dl></details>\n")
}

fn left_out(history: &History) -> String {
    let items: String = history
        .left_out
        .iter()
        .map(|left| format!("<li><code>{}</code>: {}</li>\n", escape(&left.record), escape(&left.reason)))
        .collect();
    let lead = "Files that are no record of a comparison, and paths whose figures must not be used.";
    let body = if items.is_empty() { items } else { format!("<ul class=\"notes\">\n{items}</ul>\n") };
    Section::new("left-out", "Not shown", lead, body).map(|section| section.html()).unwrap_or_default()
}

/// A series in one line: its configuration, database, load and medium, and its differences from the first one of its path.
pub(crate) fn title(series: &HistorySeries) -> String {
    let fact = |name: &str| series.conditions.get(name).map(String::as_str);
    let warehouses = fact("warehouses").map(|count| format!("{count} warehouses"));
    let medium = fact("medium").map(|medium| format!("on {medium}"));
    let facts = [fact("database").map(str::to_owned), warehouses, fact("load").map(str::to_owned), medium];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let others: Vec<&str> = series.differs.iter().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let others = if others.is_empty() { String::new() } else { format!(" (other {})", others.join(", ")) };
    format!("{}: {}{others}", series.arm, facts.join(", "))
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::seeded::{Level, record};
    use crate::history::{Choice, Entry, Found, history};

    fn of(count: u64, by: PointBy) -> History {
        let level = |number| Level { factor: if number < 3 { 1.0 } else { 0.8 }, ..Level::default() };
        let entries: Vec<Entry> =
            (0..count).map(|number| Entry::of(&record(number, &level(number)), format!("<{number}>"))).collect();
        let found =
            Found { entries, left_out: vec![results::history::LeftOut { record: "x<y".into(), reason: "no & record".into() }] };
        history(&found, &Choice { by, ..Choice::default() }).unwrap()
    }

    #[test]
    fn the_page_has_a_chart_a_table_and_a_step_for_each_figure_of_each_series() {
        for by in [PointBy::Commit, PointBy::Date] {
            let page = render(&of(6, by));
            assert_eq!(page.matches("<section id=\"series-").count(), 2, "{page}");
            assert_eq!(page.matches("<svg ").count(), 2 * 3 * 2, "three charts for two widths and two series");
            assert!(page.contains("class=\"ring\"") && page.contains("orders/min −") && page.contains("worse"), "{page}");
            assert!(page.contains("x&lt;y") && page.contains("no &amp; record") && !page.contains("<script"));
            assert!(
                page.contains("<title>2026-01-01T04:00:00Z") || page.contains(", 2026-01-01T04:00:00Z"),
                "hover titles have the date"
            );
        }
    }

    #[test]
    fn one_record_is_a_page_too() {
        let page = render(&of(1, PointBy::Commit));
        assert!(page.contains("No step is shown") && page.contains("1 record ·"), "{page}");
        assert!(!page.contains("NaN"));
    }
}
