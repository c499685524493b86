//! The laboratory: plans, storage paths, the database's life, measuring, comparing, reports.
//!
//! It starts processes (the database, `millrace serve`, `millrace orders run`) and reads
//! their records, so that its own memory and threads are not part of the measurement. It never
//! changes a running database or a file that it did not create.
//!
//! Interface: [`plan::Plan`] describes the work, [`compare::compare`] carries it out, [`report`] displays it,
//! [`doctor`] reports what this host can measure, and
//! [`guest`] boots a kernel with storage clients that this host's kernel lacks. Storage paths are in `paths`, one file each.
#![deny(unsafe_code)]

pub mod clock;
pub mod compare;
pub mod diff;
pub mod doctor;
pub mod guest;
pub mod history;
pub mod limits;
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
mod paths;
mod placement;
mod run;
mod summary;
#[expect(unsafe_code, reason = "signals, process control and file system calls that std lacks")]
mod sys;

pub use database::installed_programs;
pub use database::kind::{DatabaseKind, missing_packages};
pub use error::LabError;
pub use paths::filer_loss::FilerLoss;
pub use paths::titles as path_titles;
pub use run::progress::{Event, EventKind};
pub use sys::user_name;
