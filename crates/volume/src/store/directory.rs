//! A plain directory as a store.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use super::{SnapshotId, Store};
use crate::error::Error;
use crate::identity::Identity;
use crate::limits::KERNEL_HANDLE_BYTES_MAX;
use crate::metadata_log::MetadataLog;
use crate::sys::{self, KernelHandle, RawStat};

/// The handle type of an identity by inode number and birth time. No kernel handle has it.
const BIRTH: u8 = u8::MAX;

/// How objects are distinguished and opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identify {
    /// By kernel handle, opened by it. The process has CAP_DAC_READ_SEARCH.
    Kernel {
        /// The mount id of the directory, as name_to_handle_at(2) returns it.
        mount: i32,
    },
    /// By kernel handle, opened by name and checked.
    Walk,
    /// By inode number and birth time, opened by name and checked. The file system has no kernel handles.
    Birth,
}

/// A directory and what is below it. Mount points are not entered.
pub(crate) struct Directory {
    snapshot: SnapshotId,
    root: OwnedFd,
    root_stat: RawStat,
    root_identity: KernelHandle,
    identify: Identify,
    /// On btrfs the number of the subvolume.
    subvolume: Option<u64>,
    metadata_log: MetadataLog,
}

impl Directory {
    /// Opens a directory, which is this tree of its volume. `None` if its file system has neither kernel handles nor birth times.
    pub(crate) fn open(path: &Path, snapshot: SnapshotId) -> io::Result<Option<Self>> {
        let root = sys::open_path(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        let Some(identify) = Identify::detect(&root)? else { return Ok(None) };
        let root_stat = sys::stat(&root)?;
        let root_identity = identify.of(root.as_fd(), &root_stat)?;
        let file_system = sys::file_system_kind(&root);
        let subvolume = root_identity.subvolume().filter(|_| file_system == Some(sys::BTRFS));
        let metadata_log = MetadataLog::of(&root_stat, file_system);
        Ok(Some(Self { snapshot, root, root_stat, root_identity, identify, subvolume, metadata_log }))
    }
}

impl Store for Directory {
    fn snapshot(&self) -> SnapshotId {
        self.snapshot
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    fn root_stat(&self) -> &RawStat {
        &self.root_stat
    }

    fn root_identity(&self) -> &KernelHandle {
        &self.root_identity
    }

    fn identity(&self) -> Identity {
        match self.identify {
            Identify::Kernel { .. } => Identity::Handles,
            Identify::Walk => Identity::HandlesByName,
            Identify::Birth => Identity::BirthTimes,
        }
    }

    fn identify(&self, object: BorrowedFd<'_>, stat: &RawStat) -> io::Result<KernelHandle> {
        self.identify.of(object, stat)
    }

    fn identify_name(&self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<KernelHandle>, Error> {
        let Identify::Kernel { mount } = self.identify else { return Ok(None) };
        match sys::handle_of_name(dir, name)? {
            Some((identity, found)) if found == mount => Ok(Some(identity)),
            _ => Err(Error::CrossDevice),
        }
    }

    /// An overlay shows the devices of its layers; it has no kernel handles.
    fn holds(&self, stat: &RawStat) -> bool {
        stat.mount == self.root_stat.mount && (stat.dev == self.root_stat.dev || self.identify == Identify::Birth)
    }

    fn open(&self, identity: &KernelHandle, flags: libc::c_int) -> Option<Result<OwnedFd, Error>> {
        if !matches!(self.identify, Identify::Kernel { .. }) {
            return None;
        }
        Some(sys::open_handle(&self.root, identity, flags).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT) => Error::Stale,
            _ => Error::from(error),
        }))
    }

    fn in_handle(&self, identity: &KernelHandle) -> KernelHandle {
        if self.subvolume.is_some() { identity.without_subvolume() } else { *identity }
    }

    fn of_handle(&self, in_handle: &KernelHandle) -> KernelHandle {
        self.subvolume.map_or(*in_handle, |number| in_handle.with_subvolume(number))
    }

    fn flush_metadata(&self) -> io::Result<()> {
        self.metadata_log.commit(&self.root)
    }
}

impl Identify {
    /// Tries what the host supports. `None` if its file system has neither handles nor birth times.
    fn detect(root: impl AsFd) -> io::Result<Option<Self>> {
        let Some((handle, mount)) = sys::handle_of_name(&root, b".")? else {
            return Ok((sys::stat(&root)?.btime != (0, 0)).then_some(Self::Birth));
        };
        Ok(Some(match sys::open_handle(&root, &handle, libc::O_PATH) {
            Ok(_) => Self::Kernel { mount },
            Err(_) => Self::Walk,
        }))
    }

    /// Identity of an open object.
    fn of(self, fd: impl AsFd, stat: &RawStat) -> io::Result<KernelHandle> {
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
