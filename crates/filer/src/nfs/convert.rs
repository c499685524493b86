//! Conversions between values of the volume and of the protocol: attributes, times, and the table of error statuses.

use nfs_proto::nfs3::{self, Fattr, FileHandle, FileType, NfsStatus, NfsTime, SpecData, StableHow, WccAttr, WccData};
use volume::{Attr, Error, Handle, Kind, SetAttr, SetTime, Stability, Time, Wcc};

/// The status of an error of the volume with this name.
pub(crate) fn status(error: &Error, volume: &str) -> NfsStatus {
    match error {
        Error::NotPermitted => NfsStatus::Perm,
        Error::NoEntry => NfsStatus::NoEnt,
        // A poisoned volume may have lost data, so it acknowledges no change.
        Error::Poisoned => NfsStatus::Io,
        Error::Io(errno) => {
            // The protocol has one status for all of these errors. Only the log has the host's error.
            tracing::warn!(volume, error = %std::io::Error::from_raw_os_error(*errno), "the host's file system failed a call");
            NfsStatus::Io
        }
        Error::Access => NfsStatus::Acces,
        Error::Exists => NfsStatus::Exist,
        Error::CrossDevice => NfsStatus::XDev,
        Error::NotDirectory => NfsStatus::NotDir,
        Error::IsDirectory => NfsStatus::IsDir,
        Error::Invalid => NfsStatus::Inval,
        Error::TooBig => NfsStatus::FBig,
        Error::NoSpace => NfsStatus::NoSpc,
        Error::ReadOnly => NfsStatus::RoFs,
        Error::TooManyLinks => NfsStatus::MLink,
        Error::NameTooLong => NfsStatus::NameTooLong,
        Error::NotEmpty => NfsStatus::NotEmpty,
        Error::Quota => NfsStatus::DQuot,
        Error::Stale => NfsStatus::Stale,
        Error::BadHandle => NfsStatus::BadHandle,
        Error::NotSync => NfsStatus::NotSync,
        Error::Busy => NfsStatus::JukeBox,
        Error::NotSupported => NfsStatus::NotSupp,
        Error::BadType => NfsStatus::BadType,
    }
}

/// Converts a handle of the volume to one of the protocol.
pub(crate) fn handle(handle: &Handle) -> Option<FileHandle> {
    FileHandle::new(handle.as_bytes())
}

/// Converts attributes of the volume to attributes of the protocol.
pub(crate) fn fattr(attr: &Attr) -> Fattr {
    Fattr {
        kind: file_type(attr.kind),
        mode: attr.mode & 0o7777,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        used: attr.used,
        rdev: SpecData { major: attr.rdev.0, minor: attr.rdev.1 },
        fsid: attr.fsid,
        fileid: attr.fileid,
        atime: nfs_time(attr.atime),
        mtime: nfs_time(attr.mtime),
        ctime: nfs_time(attr.ctime),
    }
}

/// Converts the attributes before and after a change.
pub(crate) fn wcc_data(wcc: &Wcc) -> WccData {
    let before = |attr: Attr| WccAttr { size: attr.size, mtime: nfs_time(attr.mtime), ctime: nfs_time(attr.ctime) };
    WccData { before: wcc.before.map(before), after: Some(fattr(&wcc.after)) }
}

const fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::Regular,
        Kind::Directory => FileType::Directory,
        Kind::Block => FileType::Block,
        Kind::Character => FileType::Character,
        Kind::Symlink => FileType::SymLink,
        Kind::Socket => FileType::Socket,
        Kind::Fifo => FileType::Fifo,
    }
}

/// Converts a host time. The protocol holds 1970 to 2106. A time outside becomes the nearest end.
fn nfs_time(time: Time) -> NfsTime {
    match u32::try_from(time.sec) {
        Ok(seconds) => NfsTime { seconds, nseconds: time.nsec },
        Err(_) if time.sec < 0 => NfsTime { seconds: 0, nseconds: 0 },
        Err(_) => NfsTime { seconds: u32::MAX, nseconds: 999_999_999 },
    }
}

/// Converts a time of the protocol.
pub(crate) const fn time(time: NfsTime) -> Time {
    Time { sec: time.seconds as i64, nsec: time.nseconds }
}

/// Converts the attributes of a SETATTR.
///
/// # Errors
/// `Inval` for nanoseconds of a second or more, and for ids that mean "do not change" to the host.
pub(crate) fn set_attr(set: &nfs3::SetAttr) -> Result<SetAttr, NfsStatus> {
    if [set.uid, set.gid].contains(&Some(u32::MAX)) {
        return Err(NfsStatus::Inval);
    }
    Ok(SetAttr {
        mode: set.mode.map(|mode| mode & 0o7777),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set_time(set.atime)?,
        mtime: set_time(set.mtime)?,
    })
}

fn set_time(set: nfs3::SetTime) -> Result<SetTime, NfsStatus> {
    Ok(match set {
        nfs3::SetTime::DontChange => SetTime::DontChange,
        nfs3::SetTime::ServerTime => SetTime::ServerTime,
        nfs3::SetTime::Client(at) if at.nseconds < 1_000_000_000 => SetTime::Client(time(at)),
        nfs3::SetTime::Client(_) => return Err(NfsStatus::Inval),
    })
}

/// The stability that a WRITE requires.
pub(crate) const fn stability(stable: StableHow) -> Stability {
    match stable {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::DataSync,
        StableHow::FileSync => Stability::FileSync,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_the_wire_become_its_ends() {
        assert_eq!(nfs_time(Time { sec: -1, nsec: 5 }), NfsTime { seconds: 0, nseconds: 0 });
        assert_eq!(nfs_time(Time { sec: 1 << 40, nsec: 5 }).seconds, u32::MAX);
        assert_eq!(nfs_time(Time { sec: 7, nsec: 5 }), NfsTime { seconds: 7, nseconds: 5 });
    }

    #[test]
    fn a_time_with_a_whole_second_of_nanoseconds_is_refused() {
        let at = NfsTime { seconds: 1, nseconds: 1_000_000_000 };
        let set = nfs3::SetAttr { mtime: nfs3::SetTime::Client(at), ..nfs3::SetAttr::default() };
        assert_eq!(set_attr(&set), Err(NfsStatus::Inval));
    }

    #[test]
    fn an_id_that_the_host_would_take_for_unchanged_is_refused() {
        let set = nfs3::SetAttr { uid: Some(u32::MAX), ..nfs3::SetAttr::default() };
        assert_eq!(set_attr(&set), Err(NfsStatus::Inval));
    }
}
