//! Records that an earlier run stored as JSON: read back with bounds.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// A stored record that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The file cannot be read.
    #[error("read {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file does not hold such a record.
    #[error("{path} is not {what}")]
    Form {
        /// Which.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// Where it stops being one.
        #[source]
        source: serde_json::Error,
    },
    /// The file is too large.
    #[error("{path} has {bytes} bytes, more than the {bytes_max} of {what}")]
    Size {
        /// Which.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest size of such a record.
        bytes_max: u64,
    },
    /// A newer program wrote it.
    #[error("{path} has version {found} of the stored form, this program reads up to {known}")]
    Version {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
}

/// What a file should hold.
pub(crate) struct Kind {
    /// With its article, for messages.
    pub(crate) what: &'static str,
    /// Size of the largest such file.
    pub(crate) bytes_max: u64,
    /// The newest version of the stored form that is known here.
    pub(crate) schema: u32,
}

impl Kind {
    /// Reads the record in this file; `schema` says the version of what was read.
    ///
    /// # Errors
    /// A file that cannot be read, is too large, holds something else, or is of a newer version.
    pub(crate) fn read<T: DeserializeOwned>(&self, path: &Path, schema: impl Fn(&T) -> u32) -> Result<T, StoredError> {
        let Self { what, bytes_max, schema: known } = *self;
        let file = |source| StoredError::File { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(file)?.len();
        if bytes > bytes_max {
            return Err(StoredError::Size { path: path.to_owned(), what, bytes, bytes_max });
        }
        let text = std::fs::read(path).map_err(file)?;
        let record = serde_json::from_slice(&text).map_err(|source| StoredError::Form { path: path.to_owned(), what, source })?;
        let found = schema(&record);
        if found > known {
            return Err(StoredError::Version { path: path.to_owned(), found, known });
        }
        Ok(record)
    }
}
