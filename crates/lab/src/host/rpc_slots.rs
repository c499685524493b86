//! The kernel's settings for slots of RPC connections, changed for the time of a mount.
//!
//! A connection takes them when it is made, so they are back before anything is measured. Source: net/sunrpc/xprtsock.c of Linux,
//! `xs_setup_tcp`: a table begins with `tcp_slot_table_entries` and grows to `tcp_max_slot_table_entries`, or the former where that is
//! more.

use std::fs;
use std::path::Path;

use crate::error::LabError;
use crate::host::changed_settings::ChangedSettings;

/// Where they are once the module sunrpc is loaded.
const SETTINGS: &str = "/proc/sys/sunrpc";
const NAMES: [&str; 2] = ["tcp_max_slot_table_entries", "tcp_slot_table_entries"];

/// Slots that a connection has when it is made now, at most.
pub(crate) fn at_most() -> Option<u32> {
    let read = |name: &str| fs::read_to_string(Path::new(SETTINGS).join(name)).ok()?.trim().parse::<u32>().ok();
    let [most, first] = NAMES.map(read);
    Some(most?.max(first?))
}

/// Gives connections that are made from now on `slots` slots; `root` is a work directory.
///
/// # Errors
/// [`LabError::File`].
pub(crate) fn set(slots: u32, root: &Path) -> Result<ChangedSettings, LabError> {
    ChangedSettings::set(&NAMES.map(|name| (Path::new(SETTINGS).join(name), slots.to_string())), root, "rpc-slots")
}
