//! NFS version 3, RFC 1813: types, and arguments and results of all 22 procedures, both directions.

mod arguments;
mod directory;
mod results;
mod types;

pub use arguments::*;
pub use directory::*;
pub use results::*;
pub use types::*;

/// Program number (RFC 1813 3).
pub const PROGRAM: u32 = 100_003;
/// Version of the program.
pub const VERSION: u32 = 3;
/// The port an NFS server is looked for on when nobody says otherwise.
pub const PORT: u16 = 2049;
