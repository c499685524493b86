//! What stands beside the rules: the catalogue of the reports' rows, values that a report only used in its test, and rows
//! that no fact can tell.

use serde::Deserialize;

use crate::facts::Value;

/// `rules/catalogue.toml`: every row of the reports.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Version of the format; 1.
    pub schema: u32,
    /// The rows, in the order of the reports.
    #[serde(rename = "row")]
    pub rows: Vec<CatalogueRow>,
}

/// One setting, list or rule of a report.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueRow {
    /// Its identity: report group, layer, number.
    pub id: String,
    /// The report.
    pub report: String,
    /// What the report makes of it.
    pub kind: RowKind,
    /// Where it stands there.
    pub section: String,
}

/// What a report makes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// Advised.
    Rec,
    /// Used in the test, not advised.
    Test,
    /// A state to verify.
    Check,
    /// Advised against.
    Avoid,
}

/// `rules/reference/*.toml`: values a report used in its test. No rule judges by them; plans that run the experiments again do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceFile {
    /// Version of the format; 1.
    pub schema: u32,
    /// The report.
    pub report: String,
    /// The values.
    #[serde(default, rename = "setting")]
    pub settings: Vec<ReferenceSetting>,
}

/// One value of a report's test.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceSetting {
    /// Its row of the catalogue.
    pub row: String,
    /// What it was set on.
    pub platform: String,
    /// What was set.
    pub parameter: String,
    /// To what.
    pub value: Value,
    /// In which file or by which command.
    #[serde(default, rename = "where")]
    pub place: Option<String>,
    /// Where the report says so.
    pub section: String,
    /// Why it is no advice, where something is to be said.
    #[serde(default)]
    pub note: Option<String>,
}

/// `rules/not-testable/*.toml`: advice that no fact can tell whether it was taken.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotTestableFile {
    /// Version of the format; 1.
    pub schema: u32,
    /// The rows.
    #[serde(default, rename = "row")]
    pub rows: Vec<NotTestable>,
}

/// One of these.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotTestable {
    /// Its row of the catalogue.
    pub row: String,
    /// Why not.
    pub reason: String,
}
