//! The only table from errors to errno.

use crate::error::Error;
use crate::file::FsError;
use crate::segment::SegmentError;

impl Error {
    /// The errno for a program: the one that a local file system would return, EIO if it has no such error.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Fs(error) => errno_of(*error),
            Self::BadAddress => libc::EFAULT,
            Self::Segment(error) => errno_of_segment(error),
            Self::ExportGone { .. } => libc::ESTALE,
            _ => libc::EIO,
        }
    }
}

/// The errno that a local file system would return (RFC 1813 2.6 names most of them).
const fn errno_of(error: FsError) -> i32 {
    match error {
        FsError::NotOwner => libc::EPERM,
        FsError::NotFound => libc::ENOENT,
        FsError::NoDevice => libc::ENXIO,
        FsError::AccessDenied => libc::EACCES,
        FsError::Exists => libc::EEXIST,
        FsError::CrossDevice => libc::EXDEV,
        FsError::NoDeviceType => libc::ENODEV,
        FsError::NotDirectory => libc::ENOTDIR,
        FsError::IsDirectory => libc::EISDIR,
        FsError::InvalidArgument => libc::EINVAL,
        FsError::FileTooLarge => libc::EFBIG,
        FsError::NoSpace => libc::ENOSPC,
        FsError::ReadOnly => libc::EROFS,
        FsError::TooManyLinks => libc::EMLINK,
        FsError::NameTooLong => libc::ENAMETOOLONG,
        FsError::NotEmpty => libc::ENOTEMPTY,
        FsError::QuotaExceeded => libc::EDQUOT,
        FsError::Stale | FsError::BadHandle => libc::ESTALE,
        FsError::Remote => libc::EREMOTE,
        FsError::NotSupported => libc::EOPNOTSUPP,
        FsError::Delayed => libc::EAGAIN,
        FsError::SymlinkLoop => libc::ELOOP,
        FsError::Io
        | FsError::NotSync
        | FsError::BadCookie
        | FsError::TooSmall
        | FsError::ServerFault
        | FsError::BadType
        | FsError::WritesLost => libc::EIO,
    }
}

/// The errno of an error of the state that the processes of this host share.
const fn errno_of_segment(error: &SegmentError) -> i32 {
    match error {
        SegmentError::Retained => libc::ENOLCK,
        SegmentError::Full => libc::ENFILE,
        SegmentError::Local { errno, .. } | SegmentError::NoSlots { errno } | SegmentError::NoRuntimeDirectory { errno, .. } => {
            *errno
        }
        SegmentError::Version { .. }
        | SegmentError::OtherVersion { .. }
        | SegmentError::Foreign(_)
        | SegmentError::Directory(_) => libc::ENOTSUP,
        SegmentError::VerifiersFull => libc::EIO,
    }
}
