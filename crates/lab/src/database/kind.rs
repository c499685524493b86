//! The database of a comparison, by its name.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use results::compare::DatabaseSystem;

use crate::database::ALL;
use crate::database::system::SystemRef;
use crate::error::LabError;

/// A database that a comparison can run.
#[derive(Clone, Copy)]
pub struct DatabaseKind(SystemRef);

impl DatabaseKind {
    /// All of them, the default first.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied().map(Self)
    }

    /// Its name on the command line, in plans and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Its name in a sentence.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.0.title()
    }

    /// Whether `--pg-bin` may name the directory of its programs.
    #[must_use]
    pub fn takes_directory(self) -> bool {
        self.0.takes_directory()
    }

    /// Its facts, advice and words.
    pub(crate) fn system(self) -> SystemRef {
        self.0
    }

    /// The error for a feature that it lacks; `has` finds the databases that have it.
    pub(crate) fn lacks(self, what: &str, has: fn(SystemRef) -> bool) -> LabError {
        let able: Vec<Self> = Self::all().filter(|kind| has(kind.0)).collect();
        let titles: Vec<&str> = able.iter().map(|kind| kind.title()).collect();
        let options: Vec<String> = able.iter().map(|kind| format!("--database {kind}")).collect();
        let hint = format!("only with {}: {}", titles.join(" or "), options.join(" or "));
        LabError::plan(format!("{what} with {}", self.title()), &hint)
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self::all().find(|kind| kind.name() == name).unwrap()
    }
}

impl Default for DatabaseKind {
    fn default() -> Self {
        Self(ALL[0])
    }
}

impl PartialEq for DatabaseKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for DatabaseKind {}

impl fmt::Debug for DatabaseKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for DatabaseKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for DatabaseKind {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Self::all().find(|kind| kind.name() == text).ok_or_else(|| {
            let known = Self::all().map(Self::name).collect::<Vec<_>>().join(" and ");
            LabError::plan(format!("compare with the database \"{text}\""), &format!("databases are {known}"))
        })
    }
}

/// Title of the database of a record; its name if this version does not know it. Records without one are of the default database.
pub(crate) fn title_of(recorded: &DatabaseSystem) -> &str {
    let name = Some(recorded.as_str()).filter(|name| !name.is_empty()).unwrap_or(DatabaseKind::default().name());
    DatabaseKind::all().find(|kind| kind.name() == name).map_or(name, |kind| kind.title())
}

/// Missing packages by Debian's names; empty if the database's programs are installed, or a directory is given.
#[must_use]
pub fn missing_packages(kind: DatabaseKind, chosen: Option<&Path>) -> Vec<&'static str> {
    if chosen.is_some() || kind.0.find(None).is_ok() { Vec::new() } else { vec![kind.0.package()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_record_has_its_title_and_an_unknown_one_its_name() {
        let titles = ["", "postgresql", "mariadb", "oracle"].map(|name| title_of(&DatabaseSystem::from(name)).to_owned());
        assert_eq!(titles, ["PostgreSQL", "PostgreSQL", "MariaDB", "oracle"]);
    }

    #[test]
    fn databases_are_read_and_written_alike_and_others_refused_with_the_known_ones() {
        for kind in DatabaseKind::all() {
            assert_eq!(kind.name().parse::<DatabaseKind>().unwrap(), kind);
        }
        let error = "mysql".parse::<DatabaseKind>().unwrap_err();
        assert_eq!(error.to_string(), "compare with the database \"mysql\"");
        assert_eq!(error.hint(), Some("databases are postgresql and mariadb and dummydb"));
    }
}
