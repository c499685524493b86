//! Bounds of the numbers in a plan.

use crate::error::LabError;

/// Refuses a number outside its bounds; `what` is its name in the plural.
pub(super) fn within(what: &str, value: u64, least: u64, most: u64) -> Result<(), LabError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(LabError::plan(format!("use {value} {what}"), &format!("{what} lie between {least} and {most}")))
}
