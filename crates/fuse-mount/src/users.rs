//! A mount for each user: connections and credentials are separate, and the state of all files is shared.

use crate::limits::USERS_MAX;
use dnfs::mount::{Mount, MountSpec};
use dnfs::{Credentials, FileHandle, NfsUrl};
use host::Unpoisoned;
use rustix::io::Errno;
use std::sync::{Arc, Mutex};

/// Users by their credentials, the most recently used last.
#[derive(Debug)]
pub(crate) struct Users {
    /// The mount for calls without a user.
    first: Mutex<Arc<Mount>>,
    url: NfsUrl,
    known: Mutex<Vec<(Credentials, Arc<Mount>)>>,
}

impl Users {
    pub(crate) fn new(first: Mount, url: NfsUrl) -> Self {
        Self { first: Mutex::new(Arc::new(first)), url, known: Mutex::default() }
    }

    /// The handle of the root.
    pub(crate) fn root(&self) -> FileHandle {
        self.first.lock().unpoisoned().client().parts().root
    }

    /// The file system of the root.
    pub(crate) fn fsid(&self) -> u64 {
        self.first.lock().unpoisoned().fsid()
    }

    /// Attaches again if the server exports another volume, and calls `replaced` with the new mount before a request uses it.
    ///
    /// # Errors
    /// The errors of attaching.
    pub(crate) fn attach_if_replaced(&self, replaced: impl FnOnce(&Mount)) -> Result<(), Errno> {
        let mut first = self.first.lock().unpoisoned();
        if !first.is_retired() {
            return Ok(());
        }
        first.report_replaced();
        let spec = MountSpec { local_path: first.local_path().to_vec(), url: self.url.clone() };
        let mount = Mount::attach(&spec, &Credentials::of_process()).map_err(|error| Errno::from_raw_os_error(error.errno()))?;
        replaced(&mount);
        *first = Arc::new(mount);
        Ok(())
    }

    /// Whether the URL names one user for all callers.
    pub(crate) const fn are_one(&self) -> bool {
        self.url.options.uid.is_some()
    }

    /// The mount for these credentials.
    ///
    /// # Errors
    /// ENFILE if too many users have open files; the errors of creating it.
    pub(crate) fn of(&self, who: &Credentials) -> Result<Arc<Mount>, Errno> {
        let who = who.for_url(&self.url);
        let mut known = self.known.lock().unpoisoned();
        if let Some(at) = known.iter().position(|(other, mount)| *other == who && !mount.is_retired()) {
            let found = Arc::clone(&known.get(at).ok_or(Errno::IO)?.1);
            let end = known.len();
            if let Some(used) = known.get_mut(at..end) {
                used.rotate_left(1);
            }
            return Ok(found);
        }
        known.retain(|(_, mount)| !mount.is_retired()); // open files keep their own reference
        if known.len() >= USERS_MAX {
            // No other reference exists: no file is open with it and no request uses it.
            let unused = known.iter().position(|(_, mount)| Arc::strong_count(mount) == 1).ok_or(Errno::NFILE)?;
            known.remove(unused);
        }
        let mount =
            self.first.lock().unpoisoned().with_credentials(&who).map_err(|error| Errno::from_raw_os_error(error.errno()))?;
        let mount = Arc::new(mount);
        known.push((who, Arc::clone(&mount)));
        Ok(mount)
    }
}
