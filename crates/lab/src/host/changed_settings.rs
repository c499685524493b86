//! Temporarily changed settings of the kernel. They are restored also after SIGKILL: by the next comparison, from a journal.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::host::procfs;
use crate::sys;

/// Suffix of a journal's name in a work directory.
const JOURNAL: &str = "kernel-settings.json";

/// Settings that are currently changed. Dropping it restores them.
#[derive(Debug)]
pub(crate) struct ChangedSettings {
    journal: PathBuf,
    before: Before,
}

/// The previous values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    /// Boot in which they were set: settings do not survive the kernel.
    boot_id: String,
    /// Files of /proc and /sys, and their previous contents.
    values: Vec<(PathBuf, String)>,
}

impl ChangedSettings {
    /// Writes each value to its file; `root` is a work directory, `name` distinguishes sets that are changed at the same time.
    ///
    /// # Errors
    /// [`LabError::File`]; then all settings have their previous values.
    pub(crate) fn set(wanted: &[(PathBuf, String)], root: &Path, name: &str) -> Result<Self, LabError> {
        let before = |(path, _): &(PathBuf, String)| {
            let text = fs::read_to_string(path).map_err(LabError::file("read", path))?;
            Ok((path.clone(), text.trim().to_owned()))
        };
        let values = wanted.iter().map(before).collect::<Result<Vec<_>, LabError>>()?;
        let (journal, before) = (root.join(format!("{name}-{JOURNAL}")), Before { boot_id: procfs::boot_id(), values });
        let text =
            serde_json::to_vec(&before).map_err(|source| LabError::Record { program: "the journal of settings", source })?;
        fs::write(&journal, text).map_err(LabError::file("write", &journal))?;
        let changed = Self { journal, before };
        wanted.iter().try_for_each(|(path, value)| write(path, value))?;
        Ok(changed)
    }
}

impl Drop for ChangedSettings {
    fn drop(&mut self) {
        match put_back(&self.before) {
            Ok(()) => drop(fs::remove_file(&self.journal)),
            Err(error) => eprintln!("millrace: cannot {error}"),
        }
    }
}

/// Restores settings that a killed comparison left changed; `root` is one of its work directories.
///
/// # Errors
/// A setting cannot be written.
pub(crate) fn end_left_behind(root: &Path) -> Result<(), LabError> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(JOURNAL)) {
        // A journal of another user is not trusted.
        if entry.metadata().is_ok_and(|facts| facts.is_file() && facts.uid() == sys::effective_uid()) {
            restore(&entry.path())?;
        }
    }
    Ok(())
}

fn restore(journal: &Path) -> Result<(), LabError> {
    let before = fs::read(journal).ok().and_then(|text| serde_json::from_slice::<Before>(&text).ok());
    // After another boot, the settings have their own values.
    if let Some(before) = before.filter(|before| before.boot_id == procfs::boot_id()) {
        put_back(&before)?;
        let _ = fs::remove_file(journal);
    }
    Ok(())
}

/// Restores the latest change first. A file that no longer exists, such as the read-ahead of an unmounted file system, is skipped.
fn put_back(before: &Before) -> Result<(), LabError> {
    before.values.iter().rev().try_for_each(|(path, value)| match write(path, value) {
        Err(LabError::File { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    })
}

fn write(path: &Path, value: &str) -> Result<(), LabError> {
    // The file is not created if it does not exist.
    let file = fs::OpenOptions::new().write(true).truncate(true).open(path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, format!("{value}\n").as_bytes()));
    written.map_err(LabError::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_put_back_at_the_end_and_after_a_kill_and_not_after_another_boot() {
        let (kernel, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (one, two) = (kernel.path().join("one"), kernel.path().join("two"));
        let read = || [&one, &two].map(|path| fs::read_to_string(path).unwrap_or_default().trim().to_owned());
        fs::write(&one, "65536\n").unwrap();
        fs::write(&two, "4096\t131072\t6291456\n").unwrap();
        let wanted = [(one.clone(), "16".to_owned()), (two.clone(), "4096 4096 4096".to_owned())];
        let journals = || fs::read_dir(root.path()).unwrap().count();

        let changed = ChangedSettings::set(&wanted, root.path(), "a").unwrap();
        assert_eq!((read(), journals()), (["16", "4096 4096 4096"].map(str::to_owned), 1));
        drop(changed);
        assert_eq!((read(), journals()), (["65536", "4096\t131072\t6291456"].map(str::to_owned), 0));

        std::mem::forget(ChangedSettings::set(&wanted, root.path(), "a").unwrap()); // as SIGKILL does
        end_left_behind(root.path()).unwrap();
        assert_eq!((read(), journals()), (["65536", "4096\t131072\t6291456"].map(str::to_owned), 0), "they are put back once");

        let other = Before { boot_id: "another".into(), values: vec![(one.clone(), "7".into())] };
        fs::write(root.path().join(format!("a-{JOURNAL}")), serde_json::to_vec(&other).unwrap()).unwrap();
        end_left_behind(root.path()).unwrap();
        assert_eq!(read()[0], "65536");

        let changed = ChangedSettings::set(&wanted[..1], root.path(), "b").unwrap();
        fs::remove_file(&one).unwrap();
        drop(changed);
        assert!(!one.exists() && !root.path().join(format!("b-{JOURNAL}")).exists(), "what is gone is left gone");
    }

    #[test]
    fn of_several_settings_none_stays_changed_where_one_cannot_be() {
        let (kernel, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (one, none) = (kernel.path().join("one"), kernel.path().join("none"));
        fs::write(&one, "2\n").unwrap();
        let error = ChangedSettings::set(&[(one.clone(), "16".into()), (none, "1".into())], root.path(), "a").unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
        assert_eq!(fs::read_to_string(&one).unwrap(), "2\n");
    }
}
