//! Reads records that an earlier run stored as JSON, with limits.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// A stored record that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The file cannot be read.
    #[error("read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file does not hold such a record.
    #[error("{path} is not {what}")]
    Form {
        /// The file.
        path: PathBuf,
        /// What it should contain.
        what: &'static str,
        /// Where the contents are wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The file is too large.
    #[error("{path} has {bytes} bytes, more than the {bytes_max} of {what}")]
    Size {
        /// The file.
        path: PathBuf,
        /// What it should contain.
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The largest size of such a record in bytes.
        bytes_max: u64,
    },
    /// A newer program wrote it.
    #[error("{path} has version {found} of the stored form, this program reads up to {known}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
}

/// The kind of record that a file should contain.
pub(crate) struct Kind {
    /// Its name with an article, for messages.
    pub(crate) what: &'static str,
    /// The largest size of such a file in bytes.
    pub(crate) bytes_max: u64,
    /// The newest version of the stored form that this program reads.
    pub(crate) schema: u32,
}

impl Kind {
    /// Reads the record in this file. `schema` returns the version of the record.
    ///
    /// # Errors
    /// The file cannot be read, is too large, contains something else, or has a newer version.
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
