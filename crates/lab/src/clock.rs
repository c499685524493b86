//! The calendar, in UTC.

use std::time::SystemTime;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The current time in RFC 3339, in whole seconds: `2026-01-31T08:05:09Z`.
#[must_use]
pub fn utc_now() -> String {
    utc(SystemTime::now())
}

/// A given time in the same form.
#[must_use]
pub fn utc(moment: SystemTime) -> String {
    // Fails only beyond the year 9999.
    OffsetDateTime::from(moment).truncate_to_second().format(&Rfc3339).unwrap_or_default()
}
