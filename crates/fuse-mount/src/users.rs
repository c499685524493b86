//! The mount as each user has it: connections and credentials of its own, the state of all files in common.

use crate::limits::USERS_MAX;
use dnfs::Credentials;
use dnfs::NfsUrl;
use dnfs::mount::Mount;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Users by their credentials, the last used last.
#[derive(Debug)]
pub(crate) struct Users {
    first: Arc<Mount>,
    url: NfsUrl,
    known: Mutex<Vec<(Credentials, Arc<Mount>)>>,
}

impl Users {
    pub(crate) fn new(first: Mount, url: NfsUrl) -> Self {
        Self { first: Arc::new(first), url, known: Mutex::default() }
    }

    /// The mount for what no user asks for.
    pub(crate) fn first(&self) -> &Mount {
        &self.first
    }

    /// Whether the URL names one user for all callers.
    pub(crate) const fn are_one(&self) -> bool {
        self.url.options.uid.is_some()
    }

    /// The mount for these credentials.
    ///
    /// # Errors
    /// ENFILE when there are too many users with open files; what making it ends with.
    pub(crate) fn of(&self, who: &Credentials) -> Result<Arc<Mount>, Errno> {
        let who = who.for_url(&self.url);
        let mut known = self.known();
        if let Some(at) = known.iter().position(|(other, _)| *other == who) {
            let found = Arc::clone(&known.get(at).ok_or(Errno::IO)?.1);
            let end = known.len();
            if let Some(used) = known.get_mut(at..end) {
                used.rotate_left(1);
            }
            return Ok(found);
        }
        if known.len() >= USERS_MAX {
            // Nobody else has this one: no file is open by it and no request under way.
            let unused = known.iter().position(|(_, mount)| Arc::strong_count(mount) == 1).ok_or(Errno::NFILE)?;
            known.remove(unused);
        }
        let mount = self.first.with_credentials(&who).map_err(|error| Errno::from_raw_os_error(error.errno()))?;
        let mount = Arc::new(mount);
        known.push((who, Arc::clone(&mount)));
        Ok(mount)
    }

    fn known(&self) -> MutexGuard<'_, Vec<(Credentials, Arc<Mount>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
