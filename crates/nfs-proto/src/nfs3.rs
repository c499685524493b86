//! NFS version 3, RFC 1813: types, and the arguments and results of all 22 procedures, encoded and decoded.

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
/// The default port of an NFS server.
pub const PORT: u16 = 2049;
