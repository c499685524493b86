//! The one table from what went wrong to errno.

use crate::outcome::Errno;
use crate::outcome::Out;
use dnfs::FsError;
use dnfs::mount::SegmentError;

impl From<dnfs::Error> for Out {
    fn from(error: dnfs::Error) -> Self {
        Self::Errno(match error {
            dnfs::Error::Fs(error) => errno_of(error),
            dnfs::Error::Segment(error) => errno_of_segment(error),
            _ => libc::EIO,
        })
    }
}

/// The errno a local file system would have given (RFC 1813 2.6 names most of them).
const fn errno_of(error: FsError) -> Errno {
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
        FsError::Stale => libc::ESTALE,
        FsError::Remote => libc::EREMOTE,
        FsError::NotSupported => libc::EOPNOTSUPP,
        FsError::Delayed => libc::EAGAIN,
        FsError::SymlinkLoop => libc::ELOOP,
        FsError::Io
        | FsError::BadHandle
        | FsError::NotSync
        | FsError::BadCookie
        | FsError::TooSmall
        | FsError::ServerFault
        | FsError::BadType
        | FsError::WritesLost => libc::EIO,
    }
}

/// What the state shared by the processes of this host refuses.
const fn errno_of_segment(error: SegmentError) -> Errno {
    match error {
        SegmentError::Retained => libc::ENOLCK,
        SegmentError::Full => libc::ENFILE,
        SegmentError::Local { errno, .. } => errno,
        SegmentError::VolumeReplaced => libc::ESTALE,
        SegmentError::Version { .. } | SegmentError::Foreign(_) | SegmentError::Directory(_) => libc::ENOTSUP,
        SegmentError::VerifiersFull => libc::EIO,
    }
}
