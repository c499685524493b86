//! The kernel's settings for slots of RPC connections, changed for the time of a mount and put back, also after SIGKILL.
//!
//! A connection takes them when it is made, so they are back before anything is measured. Source: net/sunrpc/xprtsock.c of Linux,
//! `xs_setup_tcp`: a table begins with `tcp_slot_table_entries` and grows to `tcp_max_slot_table_entries`, or the former where that is
//! more.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::host::procfs;
use crate::sys;

/// Where they are once the module sunrpc is loaded.
const SETTINGS: &str = "/proc/sys/sunrpc";
const NAMES: [&str; 2] = ["tcp_max_slot_table_entries", "tcp_slot_table_entries"];
/// Name of the journal in a work directory.
const JOURNAL: &str = "rpc-slots.json";

/// Settings that are changed now. Dropping it puts them back.
pub(crate) struct ChangedSlots {
    settings: PathBuf,
    journal: PathBuf,
    before: Before,
}

/// What they were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    /// They live as long as the kernel does.
    boot_id: String,
    /// In the order of [`NAMES`].
    values: [u32; 2],
}

/// Slots that a connection has when it is made now, at most.
pub(crate) fn at_most() -> Option<u32> {
    read(Path::new(SETTINGS)).ok().map(|values| values[0].max(values[1]))
}

impl ChangedSlots {
    /// Gives connections that are made from now on `slots` slots; `root` is a work directory.
    pub(crate) fn set(slots: u32, root: &Path) -> Result<Self, LabError> {
        Self::set_at(Path::new(SETTINGS), slots, root)
    }

    fn set_at(settings: &Path, slots: u32, root: &Path) -> Result<Self, LabError> {
        let before = Before { boot_id: procfs::boot_id(), values: read(settings)? };
        let journal = root.join(JOURNAL);
        let text =
            serde_json::to_vec(&before).map_err(|source| LabError::Record { program: "the journal of settings", source })?;
        fs::write(&journal, text).map_err(LabError::file("write", &journal))?;
        let changed = Self { settings: settings.to_owned(), journal, before };
        write(settings, [slots; 2])?;
        Ok(changed)
    }
}

impl Drop for ChangedSlots {
    fn drop(&mut self) {
        match write(&self.settings, self.before.values) {
            Ok(()) => drop(fs::remove_file(&self.journal)),
            Err(error) => eprintln!("millrace: cannot {error}"),
        }
    }
}

/// Puts back what a killed comparison left changed; `root` is a work directory of its.
///
/// # Errors
/// When a setting cannot be written.
pub(crate) fn end_left_behind(root: &Path) -> Result<(), LabError> {
    // What another user wrote there is not to be believed.
    let is_own = fs::symlink_metadata(root.join(JOURNAL)).is_ok_and(|facts| facts.uid() == sys::effective_uid());
    if is_own { restore(Path::new(SETTINGS), root) } else { Ok(()) }
}

fn restore(settings: &Path, root: &Path) -> Result<(), LabError> {
    let journal = root.join(JOURNAL);
    let before = fs::read(&journal).ok().and_then(|text| serde_json::from_slice::<Before>(&text).ok());
    // Another boot began with its own values.
    if let Some(before) = before.filter(|before| before.boot_id == procfs::boot_id()) {
        write(settings, before.values)?;
        let _ = fs::remove_file(journal);
    }
    Ok(())
}

fn read(settings: &Path) -> Result<[u32; 2], LabError> {
    let mut values = [0; 2];
    for (name, value) in NAMES.into_iter().zip(&mut values) {
        let path = settings.join(name);
        let text = fs::read_to_string(&path).map_err(LabError::file("read", &path))?;
        *value = text
            .trim()
            .parse()
            .map_err(|_| LabError::plan(format!("read {}: {text}", path.display()), "a number is expected"))?;
    }
    Ok(values)
}

fn write(settings: &Path, values: [u32; 2]) -> Result<(), LabError> {
    NAMES.into_iter().zip(values).try_for_each(|(name, value)| {
        let path = settings.join(name);
        fs::write(&path, format!("{value}\n")).map_err(LabError::file("write", &path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_put_back_at_the_end_and_after_a_kill_and_not_after_another_boot() {
        let (settings, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (settings, root) = (settings.path(), root.path());
        write(settings, [65_536, 2]).unwrap();
        let changed = ChangedSlots::set_at(settings, 16, root).unwrap();
        assert_eq!(read(settings).unwrap(), [16, 16]);
        drop(changed);
        assert_eq!(read(settings).unwrap(), [65_536, 2]);
        assert!(!root.join(JOURNAL).exists());

        std::mem::forget(ChangedSlots::set_at(settings, 128, root).unwrap()); // as SIGKILL does
        restore(settings, root).unwrap();
        assert_eq!(read(settings).unwrap(), [65_536, 2]);
        assert!(!root.join(JOURNAL).exists(), "it is put back once");

        let other = Before { boot_id: "another".into(), values: [7, 7] };
        fs::write(root.join(JOURNAL), serde_json::to_vec(&other).unwrap()).unwrap();
        restore(settings, root).unwrap();
        assert_eq!(read(settings).unwrap(), [65_536, 2]);
    }
}
