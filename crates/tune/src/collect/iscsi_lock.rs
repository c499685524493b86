//! The lock that `iscsiadm` leaves: the folder /run/lock/iscsi, which belongs to the first user that ran it.

use std::fs;
use std::path::PathBuf;

const FOLDERS: [&str; 2] = ["run/lock/iscsi", "var/lock/iscsi"];

/// The folder, if it did not exist before a collection. Dropping this removes it.
#[derive(Debug)]
pub(super) struct IscsiLock(Option<PathBuf>);

impl IscsiLock {
    /// Before the first `iscsiadm` of a collection.
    pub(super) fn before(root: &std::path::Path) -> Self {
        let folders = FOLDERS.map(|folder| root.join(folder));
        Self(if folders.iter().any(|folder| folder.exists()) { None } else { Some(folders[0].clone()) })
    }
}

impl Drop for IscsiLock {
    fn drop(&mut self) {
        let Some(folder) = &self.0 else { return };
        for file in ["lock", "lock.write"] {
            let _ = fs::remove_file(folder.join(file));
        }
        let _ = fs::remove_dir(folder); // fails if it has anything else
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_there_before_stays_and_one_that_iscsiadm_made_does_not() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(FOLDERS[0]);
        let make = || {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("lock"), "").unwrap();
        };
        let first = IscsiLock::before(root.path());
        make();
        drop(first);
        assert!(!folder.exists());
        make();
        drop(IscsiLock::before(root.path()));
        assert!(folder.join("lock").exists());
    }
}
