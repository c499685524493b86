//! Shows a comparison: a table for the terminal, one page for the browser, the record itself.

mod html;
mod page_style;
mod svg;
mod table;

use std::path::Path;

use results::compare::Comparison;

use crate::error::LabError;

pub use html::render as html;
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

/// A comparison for the tests of this module.
#[cfg(test)]
mod sample;
