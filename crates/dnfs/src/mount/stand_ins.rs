//! Names, in the runtime directory, of what stands for the FIFOs and sockets of a mount. The preload library makes them; here they are
//! removed with the segment.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How the name of a FIFO begins that stands for one of the server.
pub const STAND_IN_FIFO: &str = "fifo-";
/// The same of a socket.
pub const STAND_IN_SOCKET: &str = "sock-";
/// What follows the name of a socket in that of the link whose text is the path that a program bound.
pub const SOCKET_NAME_SUFFIX: &str = ".path";

/// Removes those of a mount that nobody uses any more.
pub(super) fn remove(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if [STAND_IN_FIFO, STAND_IN_SOCKET].iter().any(|begin| name.as_bytes().starts_with(begin.as_bytes())) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
