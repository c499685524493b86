//! Facts of this host, and small mechanisms that several crates use.
//!
//! - the mount table, what the kernel has, and the programs in PATH. Parsers take text, so that they serve captures of other hosts too.
//! - the known name that is nearest to a mistyped one, text for terminals, markup and URLs, locks that stay in use after a panic,
//!   waiting with a limit.
//!
//! A mechanism is here if at least two crates need it and it belongs to no protocol, format or model.

#![forbid(unsafe_code)]

pub mod escape;
mod kernel;
mod locks;
pub mod mount_table;
mod nearest;
mod polling;
mod programs;

/// How the names of the directories begin that a comparison makes and removes; its temporary database server has them on its command line.
pub const COMPARISON_DIRECTORY: &str = "millrace-compare-";

pub use kernel::{has_file_system, has_module};
pub use locks::Unpoisoned;
pub use nearest::nearest;
pub use polling::poll;
pub use programs::{has_program, in_path, is_executable, program};
