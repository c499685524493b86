//! Converts between the types of [`mod@crate::file`] and those of NFSv3 (RFC 1813). Only the files of the client use
//! this, and nothing above them.

use crate::address::EndpointIndex;
use crate::error::Error;
use crate::file::{
    AccessRights, Attributes, CreateMode, Created, DeviceNumbers, FileHandle, FileKind, FileTime, FsError, SetAttributes,
    SetTime, SpaceUse, SpecialFile, Stability, WriteVerifier,
};
use nfs_proto::nfs3;

/// Whether calls can have this handle.
pub(crate) fn has_valid_size(file: &FileHandle) -> bool {
    file.as_bytes().len() <= nfs_proto::limits::HANDLE_BYTES_MAX
}

/// The handle for a call. A handle of another version of the protocol may be too long for this one.
pub(crate) fn handle(handle: &FileHandle) -> Result<nfs3::FileHandle, Error> {
    nfs3::FileHandle::new(handle.as_bytes()).ok_or(Error::Fs(FsError::BadHandle))
}

/// The handle of a reply.
pub(crate) fn handle_of(handle: &nfs3::FileHandle) -> FileHandle {
    const { assert!(nfs_proto::limits::HANDLE_BYTES_MAX <= crate::file::FILE_HANDLE_BYTES_MAX) };
    // Fits, as asserted.
    FileHandle::new(handle.as_bytes()).unwrap_or_else(|| unreachable!("a handle of at most 64 bytes"))
}

/// The attributes of a reply.
pub(crate) fn attributes_of(found: &nfs3::Fattr) -> Attributes {
    Attributes {
        kind: kind_of(found.kind),
        mode: found.mode,
        nlink: found.nlink,
        uid: found.uid,
        gid: found.gid,
        size: found.size,
        used: found.used,
        rdev: DeviceNumbers { major: found.rdev.major, minor: found.rdev.minor },
        fsid: found.fsid,
        fileid: found.fileid,
        atime: time_of(found.atime),
        mtime: time_of(found.mtime),
        ctime: time_of(found.ctime),
    }
}

/// An object as the results of CREATE, MKDIR, SYMLINK and MKNOD describe it.
pub(crate) fn created_of(ok: &nfs3::CreateOk) -> Created {
    (ok.object.as_ref().map(handle_of), ok.attributes.as_ref().map(attributes_of))
}

/// What FSSTAT found.
pub(crate) fn space_of(found: &nfs3::FsStatOk) -> SpaceUse {
    SpaceUse {
        total_bytes: found.total_bytes,
        free_bytes: found.free_bytes,
        available_bytes: found.available_bytes,
        total_files: found.total_files,
        free_files: found.free_files,
        available_files: found.available_files,
    }
}

fn time_of(time: nfs3::NfsTime) -> FileTime {
    FileTime { seconds: time.seconds.into(), nanoseconds: time.nseconds.min(999_999_999) }
}

fn kind_of(kind: nfs3::FileType) -> FileKind {
    match kind {
        nfs3::FileType::Regular => FileKind::Regular,
        nfs3::FileType::Directory => FileKind::Directory,
        nfs3::FileType::Block => FileKind::Block,
        nfs3::FileType::Character => FileKind::Character,
        nfs3::FileType::SymLink => FileKind::Symlink,
        nfs3::FileType::Socket => FileKind::Socket,
        nfs3::FileType::Fifo => FileKind::Fifo,
    }
}

/// A change of attributes.
pub(crate) fn set_attr(set: &SetAttributes) -> nfs3::SetAttr {
    nfs3::SetAttr {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set_time(set.atime),
        mtime: set_time(set.mtime),
    }
}

fn set_time(set: SetTime) -> nfs3::SetTime {
    match set {
        SetTime::Keep => nfs3::SetTime::DontChange,
        SetTime::Now => nfs3::SetTime::ServerTime,
        SetTime::To(time) => nfs3::SetTime::Client(time_to(time)),
    }
}

/// The time for a call. NFSv3 has 32 unsigned bits for the seconds: a time that does not fit
/// becomes the nearest one that does (RFC 1813 2.5, nfstime3).
pub(crate) fn time_to(time: FileTime) -> nfs3::NfsTime {
    nfs3::NfsTime { seconds: time.seconds.clamp(0, u32::MAX.into()) as u32, nseconds: time.nanoseconds }
}

/// How a file is created.
pub(crate) fn create_how(mode: CreateMode) -> nfs3::CreateHow {
    match mode {
        CreateMode::Unchecked(set) => nfs3::CreateHow::Unchecked(set_attr(&set)),
        CreateMode::Guarded(set) => nfs3::CreateHow::Guarded(set_attr(&set)),
        CreateMode::Exclusive(verifier) => nfs3::CreateHow::Exclusive(nfs3::CreateVerifier(verifier.0)),
    }
}

/// A special file.
pub(crate) fn node_data(what: SpecialFile, set: &SetAttributes) -> nfs3::NodeData {
    let numbers = |numbers: DeviceNumbers| nfs3::SpecData { major: numbers.major, minor: numbers.minor };
    match what {
        SpecialFile::Fifo => nfs3::NodeData::Pipe(nfs3::FileType::Fifo, set_attr(set)),
        SpecialFile::Socket => nfs3::NodeData::Pipe(nfs3::FileType::Socket, set_attr(set)),
        SpecialFile::Character(device) => nfs3::NodeData::Device(nfs3::FileType::Character, set_attr(set), numbers(device)),
        SpecialFile::Block(device) => nfs3::NodeData::Device(nfs3::FileType::Block, set_attr(set), numbers(device)),
    }
}

/// The stability that a write requests.
pub(crate) const fn stable_how(stability: Stability) -> nfs3::StableHow {
    match stability {
        Stability::Unstable => nfs3::StableHow::Unstable,
        Stability::DataSync => nfs3::StableHow::DataSync,
        Stability::FileSync => nfs3::StableHow::FileSync,
    }
}

/// The stability that a reply guarantees.
pub(crate) const fn stability_of(how: nfs3::StableHow) -> Stability {
    match how {
        nfs3::StableHow::Unstable => Stability::Unstable,
        nfs3::StableHow::DataSync => Stability::DataSync,
        nfs3::StableHow::FileSync => Stability::FileSync,
    }
}

/// The verifier of a reply of this endpoint.
pub(crate) const fn verifier_of(verifier: nfs3::WriteVerifier, endpoint: EndpointIndex) -> WriteVerifier {
    WriteVerifier { endpoint, bytes: verifier.0 }
}

/// `ACCESS_*` of these rights (RFC 1813 3.3.4): the same bits.
pub(crate) const fn access_bits(rights: AccessRights) -> u32 {
    rights.bits()
}

/// The rights of `ACCESS_*`.
pub(crate) const fn rights_of(bits: u32) -> AccessRights {
    AccessRights::from_bits(bits)
}

const _: () = assert!(
    AccessRights::READ.bits() == nfs3::ACCESS_READ
        && AccessRights::LOOKUP.bits() == nfs3::ACCESS_LOOKUP
        && AccessRights::MODIFY.bits() == nfs3::ACCESS_MODIFY
        && AccessRights::EXTEND.bits() == nfs3::ACCESS_EXTEND
        && AccessRights::DELETE.bits() == nfs3::ACCESS_DELETE
        && AccessRights::EXECUTE.bits() == nfs3::ACCESS_EXECUTE
);

/// Converts the status of a refusal (RFC 1813 2.6).
pub(crate) fn refusal(status: nfs3::NfsStatus) -> Error {
    Error::Fs(error_of(status))
}

fn error_of(status: nfs3::NfsStatus) -> FsError {
    use nfs3::NfsStatus;
    match status {
        // `Ok` is not a refusal: only a server that contradicts itself leads here.
        NfsStatus::Ok | NfsStatus::ServerFault => FsError::ServerFault,
        NfsStatus::Perm => FsError::NotOwner,
        NfsStatus::NoEnt => FsError::NotFound,
        NfsStatus::Io => FsError::Io,
        NfsStatus::NxIo => FsError::NoDevice,
        NfsStatus::Acces => FsError::AccessDenied,
        NfsStatus::Exist => FsError::Exists,
        NfsStatus::XDev => FsError::CrossDevice,
        NfsStatus::NoDev => FsError::NoDeviceType,
        NfsStatus::NotDir => FsError::NotDirectory,
        NfsStatus::IsDir => FsError::IsDirectory,
        NfsStatus::Inval => FsError::InvalidArgument,
        NfsStatus::FBig => FsError::FileTooLarge,
        NfsStatus::NoSpc => FsError::NoSpace,
        NfsStatus::RoFs => FsError::ReadOnly,
        NfsStatus::MLink => FsError::TooManyLinks,
        NfsStatus::NameTooLong => FsError::NameTooLong,
        NfsStatus::NotEmpty => FsError::NotEmpty,
        NfsStatus::DQuot => FsError::QuotaExceeded,
        NfsStatus::Stale => FsError::Stale,
        NfsStatus::Remote => FsError::Remote,
        NfsStatus::BadHandle => FsError::BadHandle,
        NfsStatus::NotSync => FsError::NotSync,
        NfsStatus::BadCookie => FsError::BadCookie,
        NfsStatus::NotSupp => FsError::NotSupported,
        NfsStatus::TooSmall => FsError::TooSmall,
        NfsStatus::BadType => FsError::BadType,
        NfsStatus::JukeBox => FsError::Delayed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_another_version_is_refused_before_it_is_sent() {
        let long = FileHandle::new(&[1; 65]).unwrap();
        assert!(matches!(handle(&long), Err(Error::Fs(FsError::BadHandle))));
        let longest = nfs3::FileHandle::new(&[1; 64]).unwrap();
        assert_eq!(handle(&handle_of(&longest)).unwrap(), longest);
    }

    #[test]
    fn a_time_the_protocol_cannot_carry_is_cut_to_the_nearest() {
        let seconds = |seconds| time_to(FileTime { seconds, nanoseconds: 5 }).seconds;
        assert_eq!((seconds(-1), seconds(7), seconds(1 << 40)), (0, 7, u32::MAX));
        let dishonest = nfs3::NfsTime { seconds: 1, nseconds: u32::MAX };
        assert_eq!(time_of(dishonest), FileTime { seconds: 1, nanoseconds: 999_999_999 });
    }
}
