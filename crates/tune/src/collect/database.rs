//! Database servers and their settings.

mod answer;
mod as_shown;
mod from_files;
pub(super) mod mysql;
pub(super) mod oracle;
pub(super) mod oranfstab;
pub(super) mod parameter_files;
pub(super) mod postgres;
pub(super) mod reading;
mod rows;

pub use answer::{Answer, data_directory, is_local};
pub(super) use answer::{data_directory_here, database_rows};
pub(super) use from_files::data_not_here;
pub use rows::Row;
pub(super) use rows::as_text;
