//! The laboratory: plans, storage paths, the database's life, measuring, comparing, reports.
//!
//! It starts processes (the database, `millrace serve`, `millrace orders run`) and reads
//! their records, so that its own memory and threads stay out of what is measured. It never
//! touches a running database or a foreign file: it writes only into directories it made.
//!
//! Doors: [`plan::Plan`] says what to do, [`compare::compare`] does it, [`report`] shows it,
//! [`doctor`] tells what this host can measure.
#![deny(unsafe_code)]

pub mod clock;
pub mod compare;
pub mod diff;
pub mod doctor;
pub mod effect;
pub mod experiment;
pub mod live;
pub mod plan;
pub mod predict;
pub mod probe;
pub mod record;
pub mod report;
pub mod shapes;

mod awake;
mod caching;
mod cgroup;
mod client_activity;
mod driver;
mod error;
mod filer;
mod filling;
mod ground;
mod interrupt;
mod judge;
mod limits;
pub mod metrics;
mod owner;
mod paths;
mod postgres;
mod process;
mod procfs;
mod progress;
mod proof;
mod pulse;
mod restore;
mod run;
mod search;
mod stage;
mod storage;
mod summary;
mod surroundings;
#[expect(unsafe_code, reason = "signals, process control and file system calls that std lacks")]
mod sys;
mod workdir;

pub use error::LabError;
pub use paths::StoragePath;
pub use progress::{Line, News};
