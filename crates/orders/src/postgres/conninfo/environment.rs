//! The environment variables that libpq reads, and the directories they name.

use std::path::PathBuf;

/// Reads a variable of the environment.
type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The environment of this process, or of a test.
pub(in crate::postgres) struct Environment<'a>(pub(in crate::postgres) Variable<'a>);

impl Environment<'_> {
    pub(in crate::postgres) fn get(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    /// The home directory.
    pub(in crate::postgres) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
    }

    /// A file of the user's directory for PostgreSQL's certificates.
    pub(in crate::postgres) fn certificate_file(&self, name: &str) -> Option<PathBuf> {
        Some(self.home()?.join(".postgresql").join(name))
    }
}
