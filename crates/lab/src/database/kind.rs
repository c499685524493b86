//! The database of a comparison.

use std::fmt;
use std::str::FromStr;

use crate::error::LabError;
use crate::plan::Knobs;

/// A database that a comparison can run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DatabaseKind {
    /// PostgreSQL, the default.
    #[default]
    Postgresql,
    /// MariaDB, on InnoDB.
    MariaDb,
}

impl DatabaseKind {
    /// All of them, the default first.
    pub const ALL: [Self; 2] = [Self::Postgresql, Self::MariaDb];

    /// Its name on the command line, in plans and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgresql => "postgresql",
            Self::MariaDb => "mariadb",
        }
    }

    /// Its name in a sentence.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Postgresql => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        }
    }

    /// Its recommended settings for any storage: those of the tuning `tuned`.
    pub(crate) fn tuned_settings(self) -> Knobs {
        match self {
            Self::Postgresql => super::postgres::tuned_settings(),
            Self::MariaDb => super::mariadb::tuned_settings(),
        }
    }

    /// The error for a feature that only PostgreSQL has.
    pub(crate) fn lacks(self, what: &str) -> LabError {
        LabError::plan(format!("{what} with {}", self.title()), "only with PostgreSQL: --database postgresql")
    }

    /// The user that its package creates, as which a server runs that root starts.
    pub(crate) fn user_name(self) -> &'static str {
        match self {
            Self::Postgresql => "postgres",
            Self::MariaDb => "mysql",
        }
    }

    /// Debian's name of the package with its server programs. MariaDB's package creates no service and no user.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Postgresql => "postgresql",
            Self::MariaDb => "mariadb-server-core",
        }
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
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(" and ");
            LabError::plan(format!("compare with the database \"{text}\""), &format!("databases are {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_read_and_written_alike_and_others_refused_with_the_known_ones() {
        for kind in DatabaseKind::ALL {
            assert_eq!(kind.name().parse::<DatabaseKind>().unwrap(), kind);
        }
        let error = "mysql".parse::<DatabaseKind>().unwrap_err();
        assert_eq!(error.to_string(), "compare with the database \"mysql\"");
        assert_eq!(error.hint(), Some("databases are postgresql and mariadb"));
    }
}
