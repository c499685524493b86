//! Settings of databases.

pub(super) mod mysql;
pub(super) mod oracle;
pub(super) mod oranfstab;
pub(super) mod postgres;
mod rows;

pub(super) use rows::as_text;
pub use rows::{Database, Row};

use crate::facts::Facts;

/// Notes settings that a database gave.
pub fn database_rows(database: Database, rows: &[Row], origin: &str, facts: &mut Facts) {
    match database {
        Database::Postgres => postgres::rows(rows, origin, facts),
        Database::Mysql => mysql::rows(rows, origin, facts),
        Database::Oracle => oracle::rows(rows, origin, facts),
    }
}
