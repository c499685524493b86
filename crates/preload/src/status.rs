//! The one table from NFS status to errno.

use crate::hook::Out;
use crate::raw::Errno;
use dnfs::nfs3::NfsStatus;

impl From<dnfs::Error> for Out {
    fn from(error: dnfs::Error) -> Self {
        Self::Errno(match error {
            dnfs::Error::Status(status) => errno_of(status),
            dnfs::Error::Segment(error) => error.errno(),
            _ => libc::EIO,
        })
    }
}

/// The errno a local file system would have given (RFC 1813 2.6 names most of them).
pub(crate) fn errno_of(status: NfsStatus) -> Errno {
    match status {
        NfsStatus::Ok => 0,
        NfsStatus::Perm => libc::EPERM,
        NfsStatus::NoEnt => libc::ENOENT,
        NfsStatus::NxIo => libc::ENXIO,
        NfsStatus::Acces => libc::EACCES,
        NfsStatus::Exist => libc::EEXIST,
        NfsStatus::XDev => libc::EXDEV,
        NfsStatus::NoDev => libc::ENODEV,
        NfsStatus::NotDir => libc::ENOTDIR,
        NfsStatus::IsDir => libc::EISDIR,
        NfsStatus::Inval => libc::EINVAL,
        NfsStatus::FBig => libc::EFBIG,
        NfsStatus::NoSpc => libc::ENOSPC,
        NfsStatus::RoFs => libc::EROFS,
        NfsStatus::MLink => libc::EMLINK,
        NfsStatus::NameTooLong => libc::ENAMETOOLONG,
        NfsStatus::NotEmpty => libc::ENOTEMPTY,
        NfsStatus::DQuot => libc::EDQUOT,
        NfsStatus::Stale => libc::ESTALE,
        NfsStatus::Remote => libc::EREMOTE,
        NfsStatus::NotSupp => libc::EOPNOTSUPP,
        NfsStatus::JukeBox => libc::EAGAIN,
        NfsStatus::Io
        | NfsStatus::BadHandle
        | NfsStatus::NotSync
        | NfsStatus::BadCookie
        | NfsStatus::TooSmall
        | NfsStatus::ServerFault
        | NfsStatus::BadType => libc::EIO,
    }
}
