//! The keeper of a mount: a process that commits writes and removes files for programs that have
//! ended. A process that attaches a mount without a keeper starts one (docs/design/011-keeper.md).

use crate::messages::trace;
use dnfs::mount::{KeeperProgram, Mount};
use std::ffi::CStr;

/// The environment variable that names the binary, set by `millrace exec`.
pub(crate) const VARIABLE: &CStr = c"MILLRACE_KEEPER";

/// Starts the mount's keeper if it has none. If that fails, the program continues without a keeper.
pub(crate) fn ensure(program: Option<&KeeperProgram>, mount: &Mount) {
    match program {
        None => trace!("no keeper: {} is not set", VARIABLE.to_string_lossy()),
        Some(program) if !mount.has_keeper() && !program.start() => {
            trace!("cannot start a keeper for {}", String::from_utf8_lossy(mount.local_path()));
        }
        Some(_) => mount.expect_keeper(),
    }
}
