//! Reads stored audits for baselines and differences.

use std::path::Path;

use results::audit::{Audit, SCHEMA};

use crate::limits::AUDIT_BYTES_MAX;
use crate::stored::{Kind, StoredError};

/// Reads an audit that `millrace audit --format json` wrote.
///
/// # Errors
/// The file cannot be read, is too large, is not an audit, or has a newer version.
pub fn read(path: &Path) -> Result<Audit, StoredError> {
    let kind = Kind { what: "a stored audit", bytes_max: AUDIT_BYTES_MAX, schema: SCHEMA };
    kind.read(path, |audit: &Audit| audit.schema)
}
