//! Audits that were stored: read back with bounds, for baselines and differences.

use std::path::{Path, PathBuf};

use results::audit::{Audit, SCHEMA};

use crate::limits::AUDIT_BYTES_MAX;

/// A stored audit that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoredAuditError {
    /// The file cannot be read.
    #[error("read {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no audit.
    #[error("{path} is not a stored audit")]
    Form {
        /// Which.
        path: PathBuf,
        /// Where it stops being one.
        #[source]
        source: serde_json::Error,
    },
    /// The file is too large.
    #[error("{path} has {bytes} bytes, more than the {AUDIT_BYTES_MAX} of the largest audit")]
    Size {
        /// Which.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The audit was written by a newer program.
    #[error("{path} has version {found} of the stored form, this program reads up to {SCHEMA}")]
    Version {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// Reads an audit that `millrace audit --format json` wrote.
///
/// # Errors
/// A file that cannot be read, is too large, is no audit, or is of a newer version.
pub fn read(path: &Path) -> Result<Audit, StoredAuditError> {
    let file = |source| StoredAuditError::File { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(file)?.len();
    if bytes > AUDIT_BYTES_MAX {
        return Err(StoredAuditError::Size { path: path.to_owned(), bytes });
    }
    let text = std::fs::read(path).map_err(file)?;
    let audit: Audit =
        serde_json::from_slice(&text).map_err(|source| StoredAuditError::Form { path: path.to_owned(), source })?;
    if audit.schema > SCHEMA {
        return Err(StoredAuditError::Version { path: path.to_owned(), found: audit.schema });
    }
    Ok(audit)
}
