//! A timing model of a medium: how long an operation would take on a disk, an array or a cloud volume.
//!
//! [`Profile::parse`] parses the description of a medium. [`Medium::submit`] takes the current time and an operation, and
//! returns the time at which the operation is done. The model has no clock, thread, file or memory of its own. Its state is
//! a slice of atomic words that the caller keeps, on its heap or in memory that several processes share. Each step is one
//! atomic update, so a process that dies at any moment leaves no lock and no incomplete step.
//!
//! The model transfers no data. The caller does the real work first, and then waits until the operation is done.
//! docs/media.md has the profiles with their sources, and the limits of the model.
#![forbid(unsafe_code)]

mod counters;
mod distribution;
pub mod limits;
mod medium;
mod parse;
mod profile;
mod random;

pub use counters::{Counters, state_file_name};
pub use distribution::Distribution;
pub use medium::{Kind, Medium, Operation};
pub use parse::SpecError;
pub use profile::{Nvram, PROFILES, Placement, Profile, Service};
pub use random::Random;
