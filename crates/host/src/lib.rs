//! What this host says of itself: its mount table, what its kernel has, and the programs in PATH.
//!
//! Two crates that need the same fact of the host find it here. Parsers take text, so that they serve captures of other hosts too.

#![forbid(unsafe_code)]

mod kernel;
pub mod mount_table;
mod programs;

pub use kernel::{has_file_system, has_module};
pub use programs::{has_program, in_path, program};
