//! How a volume identifies objects, and how it opens one.

use std::os::fd::OwnedFd;

use crate::descriptor::Access;
use crate::error::Error;
use crate::types::Kind;

/// How a volume identifies its files and finds them again. It depends on the file system and on the rights of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// Identified by the kernel's file handles, and opened by them.
    Handles,
    /// Identified by the kernel's file handles, and found by name, because the process may not open files by handle.
    HandlesByName,
    /// Identified by inode number and birth time, and found by name, because the file system has no handles. A new file that gets
    /// the inode number of a removed one in the same clock tick is taken for it.
    BirthTimes,
}

impl Identity {
    /// Its name: `handles`, `handles-by-name`, `birth-times`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Handles => "handles",
            Self::HandlesByName => "handles-by-name",
            Self::BirthTimes => "birth-times",
        }
    }
}

/// Opens an object of this kind with the most access permitted: for reading and writing, for reading, or for its attributes only.
pub(crate) fn open_as_allowed(
    kind: Kind,
    mut open: impl FnMut(libc::c_int) -> Result<OwnedFd, Error>,
) -> Result<(OwnedFd, Access), Error> {
    let read = match kind {
        Kind::File => 0,
        Kind::Directory => libc::O_DIRECTORY,
        _ => return open(libc::O_PATH).map(|fd| (fd, Access::Path)),
    };
    let first = if kind == Kind::File { Access::ReadWrite } else { Access::Read };
    for access in [Access::ReadWrite, Access::Read] {
        if access == Access::ReadWrite && first == Access::Read {
            continue;
        }
        let flags = read | if access == Access::ReadWrite { libc::O_RDWR } else { libc::O_RDONLY };
        // O_NOATIME: an exclusive create keeps its verifier in the times, so reads must not change them.
        for flags in [flags | libc::O_NOATIME, flags] {
            match open(flags) {
                Ok(fd) => return Ok((fd, access)),
                Err(Error::NotPermitted | Error::Access | Error::ReadOnly) => {}
                Err(error) => return Err(error),
            }
        }
    }
    open(libc::O_PATH | read).map(|fd| (fd, Access::Path))
}
