//! Displays a comparison: a table for the terminal, one page for the browser, CSV, Markdown and an SVG picture, the record itself.
//!
//! All of these use only the record, so an old one can be displayed again.

mod bars;
mod columns;
mod cpu;
mod csv;
mod curve;
mod disclosure;
mod findings;
mod headline;
pub(crate) mod history;
mod ladder;
mod latency;
mod layers;
mod markdown;
mod page;
mod plot;
mod proof;
mod regimes;
mod reported_ratio;
mod response;
mod rows;
mod scale;
mod section;
mod series;
mod stack;
mod svg;
mod table;
mod traffic;
mod tunings;
mod view;
pub(crate) mod words;

use std::path::{Path, PathBuf};

use results::compare::Comparison;

use crate::error::LabError;

pub use bars::picture as svg;
pub use csv::render as csv;
pub use history::render as history_html;
pub use markdown::render as markdown;
pub use page::render as html;
pub use table::{WIDTH_MAX, render as table, render_for_terminal as table_for_terminal};

/// Name of the record in the output directory.
pub const RECORD: &str = "results.json";
/// Name of the page in the output directory.
pub const PAGE: &str = "report.html";

/// Writes `results.json` and `report.html` into `out`.
///
/// # Errors
/// A file cannot be written.
pub fn write(comparison: &Comparison, out: &Path) -> Result<(), LabError> {
    for (name, text) in [(RECORD, json(comparison)?), (PAGE, html(comparison)?)] {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(LabError::file("write", path))?;
    }
    Ok(())
}

/// The record as indented JSON with a final line end.
///
/// # Errors
/// A figure cannot be written as JSON.
pub fn json(comparison: &Comparison) -> Result<String, LabError> {
    let text =
        serde_json::to_string_pretty(comparison).map_err(|source| LabError::Record { program: "the comparison", source })?;
    Ok(text + "\n")
}

/// The record's file in a directory, or the given file.
#[must_use]
pub fn record_file(place: &Path) -> PathBuf {
    if place.is_dir() { place.join(RECORD) } else { place.to_owned() }
}

#[cfg(test)]
mod example;
/// A comparison for the tests of this module.
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod no_result;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod tests;
