//! The report page: one file without external resources, readable in light and dark mode, on a phone and on paper.

use std::fmt::Write;

use results::compare::{Comparison, PathStatus};

use super::headline::headline;
use super::section::{Section, swatch};
use super::view::{self, View};
use super::words::{CPU, ORDERS, WITHOUT_FILER, bottleneck_words, escape, figure, interval_words, micros, script_json};
use super::{bars, cpu, curve, disclosure, findings, ladder, latency, proof, regimes, response, series, stack, traffic, tunings};
use crate::database::kind::title_of;
use crate::error::LabError;
use crate::paths;

pub(super) const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Explanation of the page's terms, before the first figure.
fn terms() -> String {
    let (local, example) = (paths::ALL[0].title(), paths::EXAMPLE.title());
    format!(
        "<p class=\"faint\"><b>Orders</b>: New-Order transactions that were committed, the unit of the load. \
         <b>Path</b>: the way from database to storage, such as {local} or {example}; where a plan varies tuning, layout, medium or load, \
         each combination counts as one. <b>Without filer</b>: the processor time of the database's host alone. <b>Proof of path</b>: the \
         bytes the database says it read, compared with those counted on the path, so that no figure is attributed to a path its reads \
         did not take.</p>\n"
    )
}

type Part = fn(&View<'_>) -> Option<Section>;

/// Sections in the order of the page; those without data are left out.
const PARTS: [Part; 14] = [
    regimes::overview,
    bars::section,
    traffic::section,
    findings::section,
    cpu::section,
    latency::section,
    response::section,
    stack::section,
    series::section,
    curve::section,
    ladder::section,
    tunings::section,
    proof::section,
    disclosure::section,
];

/// Renders the complete page.
///
/// # Errors
/// The record cannot be written as JSON.
pub fn render(comparison: &Comparison) -> Result<String, LabError> {
    let view = View::new(comparison);
    let mut sections: Vec<Section> = PARTS.iter().filter_map(|part| part(&view)).collect();
    // The section about the complete comparison stays last.
    let last = sections.iter().position(|section| section.id == "disclosure").unwrap_or(sections.len());
    sections.splice(last..last, comparison.regimes.iter().filter_map(|regime| regimes::section(comparison, regime)));
    let class = if comparison.not_a_result.is_empty() { "" } else { " class=\"not-a-result\"" };
    let title = format!("{}Storage paths compared", if comparison.rehearsal { "REHEARSAL · " } else { "" });
    let mut page = begin(&title, class, "orders", &contents(&sections, &[("record", "The record")]));
    page += &header(&view);
    for section in &sections {
        page += &section.html();
    }
    let _ = write!(
        page,
        "<section id=\"record\" aria-labelledby=\"record-title\"><h2 id=\"record-title\">The record</h2>\n\
         <p class=\"lead\">Everything above was drawn from this record, <code>results.json</code>, which is inside this page.</p>\n\
         <p><button id=\"save\" type=\"button\" hidden>Save results.json</button></p>\n\
         <details id=\"raw\"><summary>Show the record</summary><pre tabindex=\"0\" aria-label=\"results.json\"></pre></details>\n\
         <noscript><p class=\"faint\">Without scripts, it is at the end of this page's source.</p></noscript></section>\n\
         <footer class=\"faint\"><p>{}.</p></footer>\n</main>\n\
         <script type=\"application/json\" id=\"results\">{}</script>\n<script>\n{SCRIPT}</script>\n</body></html>\n",
        escape(&comparison.disclaimer),
        script_json(&super::json(comparison)?),
    );
    Ok(page)
}

/// A page up to its first heading, with `contents` beside it on wide screens. `title` is plain text.
pub(super) fn begin(title: &str, class: &str, skip_to: &str, contents: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{} · Millrace</title>\n<style>\n{STYLE}</style></head>\n<body{class}>\n\
         <a class=\"skip\" href=\"#{skip_to}\">Skip to the figures</a>\n{contents}<main>\n",
        escape(title),
    )
}

/// Links to the sections, and to `more` by anchor and title.
pub(super) fn contents(sections: &[Section], more: &[(&str, &str)]) -> String {
    let item = |id: &str, title: &str| format!("<li><a href=\"#{}\">{}</a></li>\n", escape(id), escape(title));
    let mut items: String = sections.iter().map(|section| item(&section.id, &section.title)).collect();
    items.extend(more.iter().map(|(id, title)| item(id, title)));
    format!("<nav aria-label=\"Contents\"><p class=\"brand\">Millrace</p>\n<ol>{items}</ol></nav>\n")
}

fn header(view: &View<'_>) -> String {
    let comparison = view.comparison;
    let mut head = String::from("<header>\n");
    let (headline, sentences) = headline(comparison);
    let _ = writeln!(head, "<h1>Storage paths compared</h1>\n<p class=\"verdict\">{}</p>", escape(&headline));
    if comparison.rehearsal {
        let note = comparison.rehearsal_note.strip_prefix("REHEARSAL").unwrap_or(&comparison.rehearsal_note);
        let note = note.trim_start_matches([':', ' ']);
        let _ = writeln!(
            head,
            "<p class=\"rehearsal\"><strong>REHEARSAL</strong> <span>{}.</span></p>",
            escape(note.trim_end_matches('.'))
        );
    }
    let plan = &comparison.plan;
    let measured = view.arms.iter().filter(|arm| arm.valid()).count();
    let skipped = comparison.paths.iter().filter(|path| path.status == PathStatus::Skipped).count();
    let _ = writeln!(
        head,
        "<p class=\"faint\">{} · {}, {} warehouses, {} users · {} × {} s \
         on each path, interleaved · {measured} measured{}{} · took {}</p>",
        escape(&comparison.started_utc),
        escape(title_of(&plan.database)),
        plan.warehouses,
        plan.users,
        plan.repeats_done,
        plan.seconds,
        if view.arms.len() > measured { format!(", {} not valid", view.arms.len() - measured) } else { String::new() },
        if skipped > 0 { format!(", {skipped} skipped") } else { String::new() },
        micros(comparison.elapsed_s * 1e6),
    );
    if !comparison.valid {
        head += "<p class=\"void-note\"><strong>Not valid.</strong> A proof of path or a consistency check failed: figures marked so must not be used.</p>\n";
    }
    head += &tiles(view);
    for sentence in &sentences {
        let _ = writeln!(head, "<p>{}</p>", escape(sentence));
    }
    head += &notes(view);
    head += &terms();
    head + "</header>\n"
}

/// Notes that a reader must know, each once.
fn notes(view: &View<'_>) -> String {
    let items: String = view::notes(view.comparison).iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    if items.is_empty() { items } else { format!("<ul class=\"notes\" aria-label=\"Notes\">\n{items}</ul>\n") }
}

/// The figure of each configuration in large type.
fn tiles(view: &View<'_>) -> String {
    let mut tiles = String::new();
    for arm in &view.arms {
        let Some(oets) = &arm.result.oets_per_minute else { continue };
        let against = view.comparison.against_first.iter().find(|line| line.path == arm.name);
        let mut small = Vec::new();
        if let Some(line) = against {
            small.push(format!("{:.2} × {}", line.oets_ratio, escape(&line.first)));
        }
        if let Some(cpu) = &arm.result.cpu {
            small.push(format!("{} {CPU}", figure(cpu.s_per_1000_orders)));
            small.push(format!("{} {WITHOUT_FILER}", figure(cpu.without_filer_s_per_1000_orders())));
        }
        if let Some(bottleneck) = &arm.result.bottleneck {
            small.push(format!("bottleneck: {}", escape(&bottleneck_words(bottleneck))));
        }
        if !arm.valid() {
            small.insert(0, "<span class=\"bad\">✗ not valid</span>".to_owned());
        }
        let items: String = small.iter().map(|line| format!("<li>{line}</li>")).collect();
        let _ = writeln!(
            tiles,
            "<div class=\"tile {}\"><h2>{}{}</h2><p class=\"large\">{}</p><p class=\"unit\">{ORDERS}</p><ul>{items}</ul></div>",
            arm.class(),
            swatch(&arm.class()),
            escape(arm.name),
            interval_words(oets),
        );
    }
    if tiles.is_empty() { tiles } else { format!("<div class=\"tiles\">{tiles}</div>\n") }
}
