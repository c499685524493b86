//! Writes the library's messages to descriptor 2 if it leads to a mount.

use crate::data;
use crate::messages::MOUNT_WRITER;
use crate::mounts;
use crate::raw;
use crate::table::{self, Found};

/// Enables messages to a descriptor 2 that leads to a mount. Called once, by the constructor.
pub(crate) fn attach_messages() {
    let _ = MOUNT_WRITER.set(write);
}

fn write(line: &[u8], may_call: bool) -> bool {
    if !may_call {
        // `table::find` may need a mount that is not attached yet, so this checks only the attributes.
        let is_placeholder =
            |found: libc::stat| mounts::is_runtime_device(found.st_dev) && found.st_mode & libc::S_IFMT == libc::S_IFDIR;
        return raw::fstat(2).is_ok_and(is_placeholder);
    }
    let file = match table::find(2) {
        Ok(Found::Elsewhere) => return false,
        Ok(Found::File(file)) => Some(file),
        Ok(Found::Directory(..)) => None,
        Err(_) => table::known(2),
    };
    if let Some(file) = file {
        let _ = data::write_here(&file, line);
    }
    true
}
