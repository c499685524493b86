//! Servers of databases and their settings.

mod answer;
mod from_files;
pub(super) mod mysql;
pub(super) mod oracle;
pub(super) mod oranfstab;
pub(super) mod postgres;
pub(super) mod reading;
mod rows;

pub use answer::{Answer, database_rows, is_local};
pub use rows::Row;
pub(super) use rows::as_text;
