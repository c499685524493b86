//! Errors of files.

/// Why an operation on a file failed: a refusal of the server, or what the client found out without asking it.
///
/// The text ends with the name of the status, in the form that serves all versions of NFS (`linux/nfs.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FsError {
    /// Only the owner may do that.
    #[error("not the owner (NFSERR_PERM)")]
    NotOwner,
    /// No such name.
    #[error("no such file or directory (NFSERR_NOENT)")]
    NotFound,
    /// Hard error on the medium.
    #[error("input/output error on the server (NFSERR_IO)")]
    Io,
    /// No such device.
    #[error("no such device (NFSERR_NXIO)")]
    NoDevice,
    /// Permission denied.
    #[error("permission denied (NFSERR_ACCES)")]
    AccessDenied,
    /// The name exists.
    #[error("file exists (NFSERR_EXIST)")]
    Exists,
    /// Link across file systems.
    #[error("link across file systems (NFSERR_XDEV)")]
    CrossDevice,
    /// No such device type.
    #[error("no such device type (NFSERR_NODEV)")]
    NoDeviceType,
    /// The object is not a directory.
    #[error("not a directory (NFSERR_NOTDIR)")]
    NotDirectory,
    /// A directory.
    #[error("is a directory (NFSERR_ISDIR)")]
    IsDirectory,
    /// Argument invalid or not supported.
    #[error("invalid argument (NFSERR_INVAL)")]
    InvalidArgument,
    /// Beyond the largest file.
    #[error("file too large (NFSERR_FBIG)")]
    FileTooLarge,
    /// No space.
    #[error("no space left on the server (NFSERR_NOSPC)")]
    NoSpace,
    /// Read-only file system.
    #[error("read-only export (NFSERR_ROFS)")]
    ReadOnly,
    /// Too many hard links.
    #[error("too many hard links (NFSERR_MLINK)")]
    TooManyLinks,
    /// Name too long.
    #[error("name too long (NFSERR_NAMETOOLONG)")]
    NameTooLong,
    /// Directory not empty.
    #[error("directory not empty (NFSERR_NOTEMPTY)")]
    NotEmpty,
    /// Quota exceeded.
    #[error("quota exceeded (NFSERR_DQUOT)")]
    QuotaExceeded,
    /// The object is gone.
    #[error("the file or its export is gone from the server (NFSERR_STALE)")]
    Stale,
    /// Too many levels of remote.
    #[error("too many levels of remote (NFSERR_REMOTE)")]
    Remote,
    /// The handle is not one of this server.
    #[error("not a file handle of this server (NFSERR_BADHANDLE)")]
    BadHandle,
    /// The guard of a change of attributes was not met.
    #[error("changed meanwhile (NFSERR_NOT_SYNC)")]
    NotSync,
    /// A listing cannot continue at its position.
    #[error("directory changed while it was read (NFSERR_BAD_COOKIE)")]
    BadCookie,
    /// Operation not supported.
    #[error("not supported by the server (NFSERR_NOTSUPP)")]
    NotSupported,
    /// Buffer or request too small.
    #[error("reply did not fit (NFSERR_TOOSMALL)")]
    TooSmall,
    /// The server failed.
    #[error("failure of the server (NFSERR_SERVERFAULT)")]
    ServerFault,
    /// Type not supported.
    #[error("type not supported (NFSERR_BADTYPE)")]
    BadType,
    /// The server is busy: try again later.
    #[error("not available yet (NFSERR_JUKEBOX)")]
    Delayed,
    /// More symbolic links in a path than [`crate::limits::SYMLINKS_MAX`].
    #[error("too many symbolic links")]
    SymlinkLoop,
    /// The server lost writes that were not yet stable. Reported once to each open description.
    #[error("the server lost writes that were not yet stable")]
    WritesLost,
}
