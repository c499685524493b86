//! The kernel's settings for slots of RPC connections, changed during a mount.
//!
//! A connection reads them when it is created, so they are restored before anything is measured. Source: net/sunrpc/xprtsock.c of
//! Linux, `xs_setup_tcp`: a table starts with `tcp_slot_table_entries` and grows to `tcp_max_slot_table_entries`, or to the former if
//! that is larger.

use std::fs;
use std::path::Path;

use crate::error::LabError;
use crate::host::changed_settings::ChangedSettings;

/// Their directory after the module sunrpc is loaded.
const SETTINGS: &str = "/proc/sys/sunrpc";
const NAMES: [&str; 2] = ["tcp_max_slot_table_entries", "tcp_slot_table_entries"];

/// Maximum number of slots of a connection that is created now.
pub(crate) fn at_most() -> Option<u32> {
    let read = |name: &str| fs::read_to_string(Path::new(SETTINGS).join(name)).ok()?.trim().parse::<u32>().ok();
    let [most, first] = NAMES.map(read);
    Some(most?.max(first?))
}

/// Sets the number of slots of connections that are created from now on; `root` is a work directory.
///
/// # Errors
/// [`LabError::File`].
pub(crate) fn set(slots: u32, root: &Path) -> Result<ChangedSettings, LabError> {
    ChangedSettings::set(&NAMES.map(|name| (Path::new(SETTINGS).join(name), slots.to_string())), root, "rpc-slots")
}
