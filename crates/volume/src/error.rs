//! The errors of calls, and how the host's error numbers map to them.

use std::io;
use std::path::PathBuf;

/// A refusal by the volume or the host file system. It has a variant for each NFSv3 status that a caller may
/// have to send (RFC 1813 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The caller is not the owner, or an unprivileged volume cannot do it.
    #[error("operation not permitted")]
    NotPermitted,
    /// No such name.
    #[error("no such name in the directory")]
    NoEntry,
    /// The host failed with this error number.
    #[error("host input/output error {0}")]
    Io(i32),
    /// The host denied access.
    #[error("access denied by the host")]
    Access,
    /// The name exists already.
    #[error("name exists already")]
    Exists,
    /// The name leads to another file system, or the two ends of a rename or link are on two.
    #[error("crosses to another file system")]
    CrossDevice,
    /// The operation needs a directory.
    #[error("not a directory")]
    NotDirectory,
    /// The operation needs an object that is not a directory.
    #[error("is a directory")]
    IsDirectory,
    /// An argument is not valid for the operation.
    #[error("argument not valid for the operation")]
    Invalid,
    /// The file would become larger than the host supports.
    #[error("file too large for the host")]
    TooBig,
    /// The store is full, or the quota of the volume is used up.
    #[error("no space left in the store")]
    NoSpace,
    /// The store is read-only.
    #[error("store is read-only")]
    ReadOnly,
    /// The file has as many links as the host allows.
    #[error("too many hard links")]
    TooManyLinks,
    /// A name or link target is too long.
    #[error("name too long")]
    NameTooLong,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// A quota of the host is used up (EDQUOT).
    #[error("quota exceeded")]
    Quota,
    /// The object is gone: its handle will never work again.
    #[error("object is gone")]
    Stale,
    /// The handle was not made by this volume, or was changed.
    #[error("handle not made by this volume")]
    BadHandle,
    /// The object changed since the guard time (RFC 1813 3.3.2).
    #[error("object changed since the guard time")]
    NotSync,
    /// The volume searches for the object, or is busy: the caller should try again later (NFS3ERR_JUKEBOX).
    #[error("object is being searched for")]
    Busy,
    /// The host file system cannot do it.
    #[error("not supported by the host file system")]
    NotSupported,
    /// A flush failed earlier: the volume promises no durability until it is opened again.
    #[error("volume is poisoned by a failed flush")]
    Poisoned,
    /// The object has the wrong type for the operation.
    #[error("object type not valid for the operation")]
    BadType,
}

impl Error {
    /// Maps a host error number.
    pub(crate) fn from_errno(errno: i32) -> Self {
        match errno {
            libc::EPERM => Self::NotPermitted,
            libc::ENOENT => Self::NoEntry,
            // EBUSY is a mount point or a busy swap file: waiting does not help, so never JUKEBOX.
            libc::EACCES | libc::ETXTBSY | libc::EBUSY => Self::Access,
            libc::EEXIST => Self::Exists,
            libc::EXDEV => Self::CrossDevice,
            libc::ENOTDIR => Self::NotDirectory,
            libc::EISDIR => Self::IsDirectory,
            libc::EINVAL => Self::Invalid,
            libc::EFBIG | libc::EOVERFLOW => Self::TooBig,
            libc::ENOSPC => Self::NoSpace,
            libc::EROFS => Self::ReadOnly,
            libc::EMLINK => Self::TooManyLinks,
            libc::ENAMETOOLONG => Self::NameTooLong,
            libc::ENOTEMPTY => Self::NotEmpty,
            libc::EDQUOT => Self::Quota,
            libc::ESTALE => Self::Stale,
            libc::EOPNOTSUPP | libc::ENOSYS => Self::NotSupported,
            // A symbolic link where O_NOFOLLOW forbids one: it took the place of another object.
            libc::ELOOP => Self::Stale,
            other => Self::Io(other),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::from_errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Why a volume could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The served directory cannot be opened.
    #[error("open the served directory {path}")]
    Directory {
        /// The directory as given.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The file system does not distinguish two files that had the same inode number, so a handle could lead to another file.
    #[error("serve {path}: its file system has neither file handles nor birth times, so that a file could be taken for another")]
    NoIdentity {
        /// The directory.
        path: PathBuf,
    },
    /// The state directory lies below the served one, where clients could read the MAC key.
    #[error("the state directory {state} lies inside the served directory {dir}")]
    StateInside {
        /// The state directory.
        state: PathBuf,
        /// The served directory.
        dir: PathBuf,
    },
    /// A file of the state directory cannot be read, made or flushed.
    #[error("keep volume state in {path}")]
    State {
        /// The file or directory.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The state file is damaged or of a version this program does not know.
    #[error("read volume state {path}: {reason}")]
    StateFormat {
        /// The state file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// With durability by battery, no change is lost in a power cut, so the loss layer cannot be used.
    #[error("combine durability by battery with simulated power cuts (the loss layer): leave one of the two out")]
    BatteryLoses,
    /// Another process serves the directory.
    #[error("{dir} is locked by another process, probably a filer that serves it")]
    Served {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process serves a directory below it.
    #[error("{dir} is locked by another process, probably a filer that serves a directory below it")]
    ServedBelow {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process serves a directory above it.
    #[error("{above}, which contains {dir}, is locked by another process, probably a filer that serves it")]
    ServedAbove {
        /// The directory.
        dir: PathBuf,
        /// The one above.
        above: PathBuf,
    },
    /// Another process has the volume open.
    #[error("open volume state {path}: another process serves this volume")]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
}

impl OpenError {
    /// What the user can do about it. `None` if that is not known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let refused = |source: &io::Error| source.kind() == io::ErrorKind::PermissionDenied;
        Some(match self {
            Self::Directory { source, .. } if refused(source) => "run as a user who may read it, or as root".to_owned(),
            Self::Directory { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                "name a directory: files are served with the directory that contains them".to_owned()
            }
            Self::NoIdentity { .. } => "serve a directory of ext4, XFS, btrfs or tmpfs".to_owned(),
            Self::StateInside { .. } => "name a directory elsewhere: --state DIR, or state = in the configuration".to_owned(),
            Self::State { path, source } if refused(source) => {
                format!("make {} writable for this user, or name another: --state DIR, or state = in the configuration", path.display())
            }
            Self::State { path, source } if matches!(source.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory) => {
                format!("{} or a part of its path is a file: name a directory: --state DIR, or state = in the configuration", path.display())
            }
            Self::State { path, source } if source.kind() == io::ErrorKind::StorageFull => {
                format!("free space on the file system of {}, or name another directory: --state DIR, or state = in the configuration", path.display())
            }
            Self::State { .. } => "name a directory that this user may write: --state DIR, or state = in the configuration".to_owned(),
            Self::StateFormat { path, .. } => format!(
                "restore {} from a backup, or use the version of millrace that wrote it; with a new state directory clients must mount again",
                path.display()
            ),
            Self::BatteryLoses => "leave out --loss-layer, or --durability battery".to_owned(),
            Self::Served { .. } | Self::ServedBelow { .. } | Self::ServedAbove { .. } => {
                "one filer serves a directory tree: stop the other one, or let clients mount a subdirectory of its export (lslocks shows its process)"
                    .to_owned()
            }
            Self::InUse { .. } => "stop that filer first, or serve another directory with another state directory".to_owned(),
            Self::Directory { .. } => return None,
        })
    }
}
