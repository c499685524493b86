//! The laboratory: plans, storage paths, the database's life, measuring, comparing, reports.
//!
//! It starts processes (the database, `millrace serve`, `millrace orders run`) and reads
//! their records, so that its own memory and threads stay out of what is measured. It never
//! touches a running database or a file it did not make.
//!
//! Interface: [`plan::Plan`] says what to do, [`compare::compare`] does it, [`report`] shows it,
//! [`doctor`] says what this host can measure,
//! [`guest`] boots a kernel that has the storage clients this host's kernel lacks. Storage paths are in `paths`, one file each.
#![deny(unsafe_code)]

pub mod clock;
pub mod compare;
pub mod diff;
pub mod doctor;
pub mod guest;
pub mod history;
pub mod measure;
pub mod plan;
pub mod predict;
pub mod record;
pub mod report;
pub mod rule_effects;
pub mod shapes;

mod database;
mod error;
mod host;
mod judge;
mod limits;
mod paths;
mod placement;
mod run;
mod summary;
#[expect(unsafe_code, reason = "signals, process control and file system calls that std lacks")]
mod sys;

pub use database::engine::missing_packages;
pub use database::kind::DatabaseKind;
pub use database::postgres::binaries::installed_programs;
pub use error::LabError;
pub use paths::filer_loss::FilerLoss;
pub use run::progress::{Event, EventKind};
pub use sys::user_name;
