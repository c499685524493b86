//! The identity of an object, which is its kernel handle or its inode number and birth time, and how to open an object.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::descriptor::Access;
use crate::error::Error;
use crate::limits::KERNEL_HANDLE_BYTES_MAX;
use crate::sys::{self, KernelHandle, RawStat};
use crate::types::Kind;

/// The handle type of an identity by inode number and birth time. No kernel handle has it.
const BIRTH: u8 = u8::MAX;

/// How objects are distinguished and opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identify {
    /// By kernel handle, opened by it. The process has CAP_DAC_READ_SEARCH.
    Kernel {
        /// The mount id of the served directory, as name_to_handle_at(2) returns it.
        mount: i32,
    },
    /// By kernel handle, opened by name and checked.
    Walk,
    /// By inode number and birth time, opened by name and checked. The file system has no kernel handles.
    Birth,
}

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

impl Identify {
    /// Tries what the host supports. `None` if its file system has neither handles nor birth times.
    pub(crate) fn detect(root: impl AsFd) -> io::Result<Option<Self>> {
        let Some((handle, mount)) = sys::handle_of_name(&root, b".")? else {
            return Ok((sys::stat(&root)?.btime != (0, 0)).then_some(Self::Birth));
        };
        Ok(Some(match sys::open_handle(&root, &handle, libc::O_PATH) {
            Ok(_) => Self::Kernel { mount },
            Err(_) => Self::Walk,
        }))
    }

    pub(crate) const fn as_identity(self) -> Identity {
        match self {
            Self::Kernel { .. } => Identity::Handles,
            Self::Walk => Identity::HandlesByName,
            Self::Birth => Identity::BirthTimes,
        }
    }

    /// Identity of an open object.
    pub(crate) fn of(self, fd: impl AsFd, stat: &RawStat) -> io::Result<KernelHandle> {
        if self != Self::Birth {
            return sys::handle_of(fd)?.ok_or_else(|| io::Error::from_raw_os_error(libc::EXDEV));
        }
        let mut bytes = [0; KERNEL_HANDLE_BYTES_MAX];
        bytes[..8].copy_from_slice(&stat.ino.to_le_bytes());
        bytes[8..16].copy_from_slice(&stat.btime.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&stat.btime.1.to_le_bytes());
        Ok(KernelHandle { kind: BIRTH, len: 20, bytes })
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
