//! Traffic of each path: reads, writes and bytes per second, and the flushes of the log.

use std::collections::BTreeMap;

use results::compare::{PathResult, Traffic, TrafficSource};

use super::section::{Section, Table, arm_cell};
use super::view::View;
use super::words::{bytes, escape, figure, grouped};

const LEAD: &str = "What crossed each path while it was measured: as the filer served it, else as the NFS client or the database counted \
    it. Reads that a page cache above the path answered are not in it. The database counts and times the flushes of its log on every \
    path alike.";

/// Headings of the figures, in the order of [`cells`].
pub(super) const HEADS: [&str; 8] =
    ["reads/s", "read MiB/s", "writes/s", "written MiB/s", "read", "written", "log flushes/s", "ms per flush"];

/// The figures of a configuration.
pub(super) fn cells(traffic: &Traffic) -> [String; 8] {
    [
        grouped(traffic.reads_per_s),
        figure(traffic.read_mib_per_s),
        grouped(traffic.writes_per_s),
        figure(traffic.written_mib_per_s),
        bytes(traffic.read_bytes as f64),
        bytes(traffic.written_bytes as f64),
        grouped(traffic.log_flushes_per_s),
        traffic.log_flush_ms.map_or_else(|| "–".to_owned(), figure),
    ]
}

/// The component that counted, in words.
pub(super) fn counted_by(source: &TrafficSource) -> &str {
    match source {
        TrafficSource::Filer => "the filer",
        TrafficSource::Client => "the NFS client",
        TrafficSource::Database => "the database",
        TrafficSource::Unknown(name) => name,
    }
}

/// The figures of a configuration in a sentence.
pub(super) fn words(traffic: &Traffic) -> String {
    let [reads, read_mib, writes, written_mib, read, written, flushes, flush_ms] = cells(traffic);
    let each = if traffic.log_flush_ms.is_some() { format!(" of {flush_ms} ms") } else { String::new() };
    format!(
        "{read} read ({reads} reads/s, {read_mib} MiB/s), {written} written ({writes} writes/s, {written_mib} MiB/s), counted by {}; \
         {flushes} log flushes/s{each}",
        counted_by(&traffic.source)
    )
}

/// Share of each folio size in the page cache of the path's files after the runs; `None` if not counted.
pub(super) fn folio_words(path: &PathResult) -> Option<String> {
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    for (kib, bytes) in path.runs.iter().flat_map(|run| &run.folio_bytes) {
        *sizes.entry(*kib).or_default() += bytes;
    }
    let whole: u64 = sizes.values().sum();
    let share = |bytes: u64| bytes as f64 * 100.0 / whole.max(1) as f64;
    let parts: Vec<String> = sizes.iter().map(|(kib, bytes)| format!("{kib} KiB {:.1} %", share(*bytes))).collect();
    (whole > 0).then(|| parts.join(", "))
}

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let mut heads = vec!["path"];
    heads.extend(HEADS);
    heads.push("<counted by");
    let mut table = Table::new("What crossed each path", &heads);
    for arm in &view.arms {
        let Some(traffic) = &arm.result.traffic else { continue };
        let mut row = vec![arm_cell(arm)];
        row.extend(cells(traffic));
        row.push(escape(counted_by(&traffic.source)));
        table.row(&row);
    }
    let mut body = table.html();
    let folios = view.arms.iter().filter_map(|arm| Some((arm, folio_words(arm.result)?)));
    let items: String = folios.map(|(arm, words)| format!("<li>{}: {}</li>\n", arm_cell(arm), escape(&words))).collect();
    if !items.is_empty() {
        body += &format!(
            "<p>Sizes of the folios, the units in which the kernel's page cache held the files after the runs. Small writes \
                      to large folios cost more:</p>\n<ul class=\"faint\">{items}</ul>\n"
        );
    }
    Section::new("traffic", "What crossed each path", LEAD, body)
}
