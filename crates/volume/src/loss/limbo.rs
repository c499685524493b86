//! The directory below the root that keeps removed objects until their removal is durable.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::sys::{self, Listing};

/// Its name in the root of the volume. Listings and lookups leave it out.
pub(crate) const LIMBO: &[u8] = b".millrace-limbo";

/// The directory, and how many names in it were used.
#[derive(Debug)]
pub(super) struct Limbo {
    root: OwnedFd,
    pub(super) dir: OwnedFd,
    count: u64,
}

impl Limbo {
    /// Makes the directory, and removes what a killed process left in it.
    pub(super) fn start(root: impl AsFd) -> io::Result<Self> {
        match sys::mkdir_at(&root, LIMBO, 0o700) {
            Err(error) if error.raw_os_error() != Some(libc::EEXIST) => return Err(error),
            _ => {}
        }
        let dir = sys::open_at(&root, LIMBO, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        empty_directory(&dir)?;
        sys::fsync(&root)?;
        Ok(Self { root: root.as_fd().try_clone_to_owned()?, dir, count: 0 })
    }

    /// A name that was not used yet.
    pub(super) fn fresh_name(&mut self) -> Vec<u8> {
        self.count += 1;
        format!("{:x}", self.count).into_bytes()
    }

    pub(super) fn empty(&self) -> io::Result<()> {
        empty_directory(&self.dir)
    }
}

impl Drop for Limbo {
    fn drop(&mut self) {
        // The next start removes what this leaves, and no caller can get the error.
        let _ = self.empty().and_then(|()| sys::unlink_at(&self.root, LIMBO, true));
    }
}

/// Removes everything below an open directory.
fn empty_directory(dir: impl AsFd) -> io::Result<()> {
    loop {
        let mut listing = Listing::new(sys::open_at(&dir, b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?, 0)?;
        let mut removed = false;
        while let Some(entry) = listing.next_entry()? {
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            removed = true;
            match sys::unlink_at(&dir, entry.name, false) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EISDIR | libc::EPERM)) => {
                    empty_directory(sys::open_at(&dir, entry.name, libc::O_RDONLY | libc::O_DIRECTORY, 0)?)?;
                    sys::unlink_at(&dir, entry.name, true)?;
                }
                other => other?,
            }
        }
        if !removed {
            return Ok(());
        }
    }
}
