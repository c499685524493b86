//! The files beside the rules: the catalogue of the reports' rows, values that a report only used
//! in its test, and rows that no fact can decide.

use serde::Deserialize;

use crate::facts::Value;

/// `rules/catalogue.toml`: all rows of the reports.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// The version of the format, 1.
    pub schema: u32,
    /// The rows, in the order of the reports.
    #[serde(rename = "row")]
    pub rows: Vec<CatalogueRow>,
}

/// One setting, list or rule in a report.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueRow {
    /// Its ID: report group, layer, number.
    pub id: String,
    /// The report.
    pub report: String,
    /// How the report uses it.
    pub kind: RowKind,
    /// Its section in the report.
    pub section: String,
}

/// How a report uses a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// The report advises it.
    Rec,
    /// The report used it in its test and does not advise it.
    Test,
    /// The report says that this state should be verified.
    Check,
    /// The report advises against it.
    Avoid,
}

/// `rules/reference/*.toml`: values that a report used in its test. No rule uses them; plans that
/// repeat the experiments do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceFile {
    /// The version of the format, 1.
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
    /// The platform on which it was set.
    pub platform: String,
    /// The parameter.
    pub parameter: String,
    /// Its value.
    pub value: Value,
    /// The file or command with which it was set.
    #[serde(default, rename = "where")]
    pub place: Option<String>,
    /// The section of the report.
    pub section: String,
    /// Why it is not advice, if that needs an explanation.
    #[serde(default)]
    pub note: Option<String>,
}

/// `rules/not-testable/*.toml`: advice of which no fact shows whether it was followed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotTestableFile {
    /// The version of the format, 1.
    pub schema: u32,
    /// The rows.
    #[serde(default, rename = "row")]
    pub rows: Vec<NotTestable>,
}

/// A row that no fact can decide.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotTestable {
    /// Its row of the catalogue.
    pub row: String,
    /// Why no fact can decide it.
    pub reason: String,
}
