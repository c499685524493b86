//! Adds up the sizes of all files of a volume.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use crate::error::Error;
use crate::limits::DEPTH_MAX;
use crate::sys::{self, Listing};
use crate::volume::VolumeInner;

impl VolumeInner {
    /// The sizes of all files below the root, each file once. Walks depth first, with two descriptors for each level.
    pub(super) fn sizes_in_tree(&self) -> Result<u64, Error> {
        let open = |at: &OwnedFd, name: &[u8]| sys::open_at(at, name, libc::O_RDONLY | libc::O_DIRECTORY, 0);
        let mut seen: HashSet<u64> = HashSet::new();
        let mut sum: u64 = 0;
        let top = sys::open_at(self.store.root(), b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        let mut path = vec![(open(&top, b".")?, Listing::new(top, 0)?)];
        loop {
            let depth = path.len();
            let Some((at, listing)) = path.last_mut() else { return Ok(sum) };
            let Some(entry) = listing.next_entry()? else {
                path.pop();
                continue;
            };
            if (depth == 1 && self.is_limbo(entry.name)) || entry.name == b"." || entry.name == b".." {
                continue;
            }
            // A name that vanishes meanwhile, or that leads into another file system, does not count.
            let Some(stat) = sys::stat_name(&*at, entry.name).ok().filter(|stat| self.store.holds(stat)) else { continue };
            match stat.mode & libc::S_IFMT {
                libc::S_IFREG if stat.nlink == 1 || seen.insert(stat.ino) => sum = sum.saturating_add(stat.size),
                libc::S_IFDIR => match open(at, entry.name) {
                    Ok(_) if depth > DEPTH_MAX => return Err(Error::NameTooLong),
                    Ok(below) => path.push((open(&below, b".")?, Listing::new(below, 0)?)),
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                    Err(error) => return Err(error.into()),
                },
                _ => {}
            }
        }
    }
}
