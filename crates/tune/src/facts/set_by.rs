//! What takes precedence over the files of a PostgreSQL server: its command line, and settings of a
//! database or a role.

/// The origin of a value that the server's command line sets.
pub(crate) const COMMAND_LINE: &str = "its command line";

/// What sets a value that no file and no ALTER SYSTEM can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetBy<'a> {
    /// `postgres -c`, `pg_ctl -o`.
    CommandLine,
    /// `ALTER DATABASE mill`, `ALTER ROLE app`: the statement before its SET or RESET.
    Alter(&'a str),
}

/// What set a value, by its origin; `None` if the server's files set it.
pub(crate) fn set_by(origin: &str) -> Option<SetBy<'_>> {
    match origin {
        COMMAND_LINE => Some(SetBy::CommandLine),
        _ if ["ALTER DATABASE ", "ALTER ROLE "].iter().any(|begin| origin.starts_with(begin)) => Some(SetBy::Alter(origin)),
        _ => None,
    }
}

/// The origin for a value of the column `source` in `pg_settings`. A statement that
/// `orders::settings` made from such a value stays as it is.
pub(crate) fn origin_of(source: &str) -> Option<String> {
    let origin = match source {
        "command line" => COMMAND_LINE,
        "database" => "ALTER DATABASE NAME",
        "user" => "ALTER ROLE NAME",
        "database user" => "ALTER ROLE NAME IN DATABASE NAME",
        "global" => "ALTER ROLE ALL",
        own => set_by(own).map(|_| own)?,
    };
    Some(origin.to_owned())
}

impl SetBy<'_> {
    /// How the user changes the value, in words.
    pub(crate) fn words(self, key: &str, value: &str) -> String {
        match self {
            SetBy::CommandLine => format!(
                "{key} is set on the server's command line (postgres -c, pg_ctl -o, a unit's ExecStart), which ALTER SYSTEM and \
                 postgresql.conf do not change: remove it there, or set it to {value} there, and restart the server"
            ),
            SetBy::Alter(statement) => {
                format!(
                    "{statement} has set {key}, which ALTER SYSTEM and postgresql.conf do not change: {statement} RESET {key}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_outweighs_the_files_is_told_apart() {
        assert_eq!(origin_of("command line").as_deref().and_then(set_by), Some(SetBy::CommandLine));
        assert_eq!(origin_of("ALTER DATABASE mill").as_deref(), Some("ALTER DATABASE mill"));
        assert_eq!(origin_of("database").as_deref().and_then(set_by), Some(SetBy::Alter("ALTER DATABASE NAME")));
        assert_eq!((origin_of("configuration file"), origin_of("default")), (None, None));
        assert_eq!(set_by("/etc/postgresql/15/main/postgresql.conf:7"), None);
    }
}
