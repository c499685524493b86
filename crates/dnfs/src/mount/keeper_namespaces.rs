//! Locks that keepers of PID namespaces leave in a runtime directory which containers share. Runs in `millrace keeper` alone.

use super::keeper_process::{HERE, STANDBY, attempt};
use crate::segment::runtime_dir::RuntimeDir;
use crate::sys::local_file::unlink;

/// Removes the locks of PID namespaces without a keeper, since each container would add more to a shared directory. A process
/// that opens one at this moment holds a lock that others do not see, and two standbys wait instead of one.
pub(super) fn forget_ended_namespaces(directory: &RuntimeDir) {
    for entry in std::fs::read_dir(directory.path()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".lock")) else { continue };
        let is_of_another = [HERE, STANDBY].iter().any(|own| name.strip_prefix(own).is_some_and(|rest| rest.starts_with('-')));
        if is_of_another && matches!(attempt(directory, name, libc::LOCK_EX), Ok(Some(_))) {
            let _ = unlink(&directory.lock_path(name));
        }
    }
}
