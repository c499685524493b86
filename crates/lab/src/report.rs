//! Shows a comparison: a table for the terminal, one page for the browser, CSV and Markdown, the record itself.
//!
//! Everything here reads a record and nothing else, so that an old one can be shown again.

mod bars;
mod cpu;
mod csv;
mod curve;
mod disclosure;
mod findings;
mod ladder;
mod latency;
mod layers;
mod markdown;
mod page;
mod plot;
mod proof;
mod response;
mod rows;
mod scale;
mod section;
mod series;
mod stack;
mod svg;
mod table;
mod tunings;
mod view;
mod words;

use std::path::{Path, PathBuf};

use results::compare::{Comparison, SCHEMA};

use crate::error::LabError;
use crate::limits::RECORD_BYTES_MAX;

pub use csv::render as csv;
pub use markdown::render as markdown;
pub use page::render as html;
pub use table::render as table;

/// Name of the record in the output directory.
pub const RECORD: &str = "results.json";
/// Name of the page in the output directory.
pub const PAGE: &str = "report.html";

/// Writes `results.json` and `report.html` into `out`.
///
/// # Errors
/// When a file can't be written.
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
/// When a figure can't be written as JSON.
pub fn json(comparison: &Comparison) -> Result<String, LabError> {
    let text =
        serde_json::to_string_pretty(comparison).map_err(|source| LabError::Record { program: "the comparison", source })?;
    Ok(text + "\n")
}

/// Reads the record of a comparison: `place` is the directory that holds `results.json`, or the file itself.
///
/// Records of older versions lack fields; they are read all the same. Fields of newer versions are passed over.
///
/// # Errors
/// [`LabError::File`] when it can't be read, [`LabError::Stored`] when it is no record of a comparison.
pub fn read(place: &Path) -> Result<Comparison, LabError> {
    let file = record_file(place);
    let facts = std::fs::metadata(&file).map_err(LabError::file("find the record", &file))?;
    let wrong = |fault: String| LabError::Stored { path: file.clone(), fault };
    if facts.len() > RECORD_BYTES_MAX {
        return Err(wrong(format!("it has {} bytes, over the limit of {RECORD_BYTES_MAX}", facts.len())));
    }
    let text = std::fs::read(&file).map_err(LabError::file("read", &file))?;
    let comparison: Comparison = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if comparison.kind != "compare" || comparison.schema != SCHEMA {
        return Err(wrong(format!("it is a record \"{}\" of schema {}", comparison.kind, comparison.schema)));
    }
    Ok(comparison)
}

/// The record's file in a directory, or the file that was named.
#[must_use]
pub fn record_file(place: &Path) -> PathBuf {
    if place.is_dir() { place.join(RECORD) } else { place.to_owned() }
}

/// A comparison for the tests of this module.
#[cfg(test)]
mod sample;
#[cfg(test)]
mod specimen;
#[cfg(test)]
mod tests;
