//! The schema that the load works in.

/// Its name.
pub const SCHEMA: &str = "millrace_orders";

/// The schema of the load, on one kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the databases' names")]
pub enum Schema {
    Postgres,
    MySql,
    Oracle,
}

impl Schema {
    /// The statement that drops the schema and everything in it.
    #[must_use]
    pub const fn drop_statement(self) -> &'static str {
        match self {
            Self::Postgres => "DROP SCHEMA millrace_orders CASCADE",
            Self::MySql => "DROP DATABASE millrace_orders",
            Self::Oracle => "DROP USER millrace_orders CASCADE",
        }
    }
}

impl std::fmt::Display for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(SCHEMA)
    }
}
