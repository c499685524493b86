//! The database whose settings are measured: the first one that has rules for its settings.

use crate::database::kind::DatabaseKind;
use crate::database::system::RuleTarget;
use crate::error::LabError;

/// A database and its settings.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) database: DatabaseKind,
    pub(super) settings: RuleTarget,
}

/// The database whose settings are measured.
///
/// # Errors
/// [`LabError::Plan`] if no database has rules for its settings.
pub(super) fn of_rules() -> Result<Target, LabError> {
    let found = DatabaseKind::all().find_map(|database| Some(Target { database, settings: database.system().rule_target()? }));
    found.ok_or_else(|| LabError::plan("measure rules", "no database of this version has rules for its settings"))
}
