//! Stability: fsync and its variants.

use crate::hook::hooks;
use crate::medium::{self, Ask};
use crate::mounts;
use crate::outcome::Out;
use crate::table::{self, Found};
use libc::c_int;

/// fsync(2) and fdatasync(2): one COMMIT if data of the file may still be lost, no matter which
/// process wrote it.
fn sync_fd(fd: c_int) -> Result<c_int, Out> {
    match table::find(fd)? {
        Found::File(file) => {
            file.mount.sync(file.file, file.cursor)?;
            Ok(0)
        }
        Found::Directory(..) => Ok(0), // the server makes names durable before it replies (RFC 1813 4.8)
        Found::Elsewhere => Err(medium::instead(Out::Pass, fd, Ask::Flush, None)),
    }
}

hooks! {
    /// fsync(2).
    @cancellation_point fn fsync(fd: c_int) -> c_int = SYS_fsync { sync_fd(fd) }
    /// fdatasync(2).
    @cancellation_point fn fdatasync(fd: c_int) -> c_int = SYS_fdatasync { sync_fd(fd) }
    /// syncfs(2).
    fn syncfs(fd: c_int) -> c_int = SYS_syncfs {
        match table::find(fd)? {
            Found::File(file) => file.mount.sync_all()?,
            Found::Directory(opened) => opened.mounted.attach()?.sync_all()?,
            Found::Elsewhere => return Err(Out::Pass),
        }
        Ok(0)
    }
    /// sync(2).
    fn sync() -> () = SYS_sync {
        for mounted in mounts::all() {
            // This includes mounts that this process has not used: sync(1) has no file open, and
            // users call it for the data of other processes.
            if let Ok(mount) = mounted.attach() {
                let _ = mount.sync_all(); // sync(2) reports no error; the next fsync of each file does
            }
        }
        Err(Out::Pass)
    }
}
