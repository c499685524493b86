//! The timing model of a medium: what an operation would take on a disk, an array or a volume that is not here.
//!
//! [`Profile::parse`] reads the text by which the user names a medium; [`Medium::submit`] takes the time now and an
//! operation and gives the time at which it is done. The model has no clock, no thread, no file and no memory of its own:
//! its state is a slice of atomic words that the caller keeps, on its heap or in memory that several processes share. Each
//! step is one atomic update that always ends, so a process that dies anywhere leaves no lock and no half a step.
//!
//! It delays and never moves a byte; the caller does the real work first and waits for the rest. docs/media.md has the
//! profiles with their sources, and what the model leaves out.
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
