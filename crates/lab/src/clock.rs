//! The calendar: now, in UTC.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Now as RFC 3339 has it, in whole seconds: `2026-01-31T08:05:09Z`.
#[must_use]
pub fn utc_now() -> String {
    // Fails only beyond the year 9999.
    OffsetDateTime::now_utc().truncate_to_second().format(&Rfc3339).unwrap_or_default()
}
