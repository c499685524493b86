//! Results of the procedures, RFC 1813 3.3.

use super::FileHandle;
use super::directory::{Entries, Entry, EntryPlus};
use super::types::{
    CookieVerifier, Data, Fattr, NfsStatus, NfsTime, Path, PostOpAttr, PostOpHandle, StableHow, WccData, WriteVerifier,
};
use crate::xdr::{Decode, DecodeError, Encode, Reader, Writer, xdr_struct};

/// FSINFO property: hard links (RFC 1813 3.3.19).
pub const FSF_LINK: u32 = 0x0001;
/// FSINFO property: symbolic links.
pub const FSF_SYMLINK: u32 = 0x0002;
/// FSINFO property: PATHCONF is the same for all objects.
pub const FSF_HOMOGENEOUS: u32 = 0x0008;
/// FSINFO property: SETATTR can set times to the resolution of `time_delta`.
pub const FSF_CANSETTIME: u32 = 0x0010;

/// A failure, with the data that RFC 1813 sends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<F> {
    /// The status, never `Ok`.
    pub status: NfsStatus,
    /// Attributes that come with it.
    pub body: F,
}

/// The result of a procedure: `resok` or `resfail`, by the status before it.
pub type Outcome<O, F> = Result<O, Failure<F>>;

impl<O: Encode, F: Encode> Encode for Outcome<O, F> {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Ok(ok) => {
                NfsStatus::Ok.encode(out);
                ok.encode(out);
            }
            Err(failure) => {
                failure.status.encode(out);
                failure.body.encode(out);
            }
        }
    }
}

impl<'a, O: Decode<'a>, F: Decode<'a>> Decode<'a> for Outcome<O, F> {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        input.at("nfsstat3");
        Ok(match NfsStatus::decode(input)? {
            NfsStatus::Ok => Ok(O::decode(input)?),
            status => Err(Failure { status, body: F::decode(input)? }),
        })
    }
}

xdr_struct! {
    /// RFC 1813 3.3.1, GETATTR.
    GetAttrOk {
        /// The attributes.
        attributes: Fattr,
    }
}
/// Result of GETATTR.
pub type GetAttrResult = Outcome<GetAttrOk, ()>;
/// Result of SETATTR, REMOVE and RMDIR: attributes of the object or directory, also after a failure.
pub type WccResult = Outcome<WccData, WccData>;

xdr_struct! {
    /// RFC 1813 3.3.3, LOOKUP.
    LookupOk {
        /// The object.
        object: FileHandle,
        /// Its attributes.
        attributes: PostOpAttr,
        /// Attributes of the directory.
        dir_attributes: PostOpAttr,
    }
}
/// Result of LOOKUP. After a failure it has the attributes of the directory.
pub type LookupResult = Outcome<LookupOk, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.4, ACCESS.
    AccessOk {
        /// Attributes of the object.
        attributes: PostOpAttr,
        /// Those of the requested rights that are granted.
        access: u32,
    }
}
/// Result of ACCESS.
pub type AccessResult = Outcome<AccessOk, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.5, READLINK.
    ReadLinkOk<'a> {
        /// Attributes of the link.
        attributes: PostOpAttr,
        /// Its target.
        target: Path<'a>,
    }
}
/// Result of READLINK.
pub type ReadLinkResult<'a> = Outcome<ReadLinkOk<'a>, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.6, READ, with its payload.
    ReadOk<'a> {
        /// Attributes of the file.
        attributes: PostOpAttr,
        /// Bytes read: the length of `data`.
        count: u32,
        /// The read reached the end of the file.
        eof: bool,
        /// The bytes.
        data: Data<'a>,
    }
}
/// Result of READ.
pub type ReadResult<'a> = Outcome<ReadOk<'a>, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.6, READ up to its payload. The payload is sent from or received into another buffer, then the padding.
    ReadOkHead {
        /// Attributes of the file.
        attributes: PostOpAttr,
        /// Bytes read.
        count: u32,
        /// The read reached the end of the file.
        eof: bool,
        /// Bytes of payload that follow: the same as `count`.
        data_bytes: u32,
    }
}
/// Result of READ up to its payload.
pub type ReadHeadResult = Outcome<ReadOkHead, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.7, WRITE.
    WriteOk {
        /// Attributes of the file before and after.
        wcc: WccData,
        /// Bytes written, perhaps fewer than requested.
        count: u32,
        /// The durability promised: at least what was requested.
        committed: StableHow,
        /// Changes when unstable data may have been lost.
        verifier: WriteVerifier,
    }
}
/// Result of WRITE.
pub type WriteResult = Outcome<WriteOk, WccData>;

xdr_struct! {
    /// RFC 1813 3.3.8 to 3.3.11: CREATE, MKDIR, SYMLINK, MKNOD.
    CreateOk {
        /// The new object.
        object: PostOpHandle,
        /// Its attributes.
        attributes: PostOpAttr,
        /// Those of the directory, before and after.
        dir_wcc: WccData,
    }
}
/// Result of CREATE, MKDIR, SYMLINK and MKNOD.
pub type CreateResult = Outcome<CreateOk, WccData>;

xdr_struct! {
    /// RFC 1813 3.3.14, RENAME: both directories, also after a failure.
    #[derive(Default)]
    RenameWcc {
        /// The old directory.
        from_dir: WccData,
        /// The new directory.
        to_dir: WccData,
    }
}
/// Result of RENAME.
pub type RenameResult = Outcome<RenameWcc, RenameWcc>;

xdr_struct! {
    /// RFC 1813 3.3.15, LINK: object and directory, also after a failure.
    #[derive(Default)]
    LinkWcc {
        /// Attributes of the object.
        attributes: PostOpAttr,
        /// Those of the directory, before and after.
        link_dir: WccData,
    }
}
/// Result of LINK.
pub type LinkResult = Outcome<LinkWcc, LinkWcc>;

xdr_struct! {
    /// RFC 1813 3.3.16, READDIR.
    ReadDirOk<'a> {
        /// Attributes of the directory.
        dir_attributes: PostOpAttr,
        /// The client sends it with the next call.
        cookie_verifier: CookieVerifier,
        /// The entries and the mark of the end.
        entries: Entries<'a, Entry<'a>>,
    }
}
/// Result of READDIR.
pub type ReadDirResult<'a> = Outcome<ReadDirOk<'a>, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.17, READDIRPLUS.
    ReadDirPlusOk<'a> {
        /// Attributes of the directory.
        dir_attributes: PostOpAttr,
        /// The client sends it with the next call.
        cookie_verifier: CookieVerifier,
        /// The entries and the mark of the end.
        entries: Entries<'a, EntryPlus<'a>>,
    }
}
/// Result of READDIRPLUS.
pub type ReadDirPlusResult<'a> = Outcome<ReadDirPlusOk<'a>, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.18, FSSTAT. Sizes in bytes.
    FsStatOk {
        /// Attributes of the root.
        attributes: PostOpAttr,
        /// Size of the file system.
        total_bytes: u64,
        /// Free bytes.
        free_bytes: u64,
        /// Free bytes that this caller may use.
        available_bytes: u64,
        /// Most files it can have.
        total_files: u64,
        /// Free file slots.
        free_files: u64,
        /// Free file slots that this caller may use.
        available_files: u64,
        /// Seconds for which this is not expected to change.
        invariant_seconds: u32,
    }
}
/// Result of FSSTAT.
pub type FsStatResult = Outcome<FsStatOk, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.19, FSINFO. Sizes in bytes.
    FsInfoOk {
        /// Attributes of the root.
        attributes: PostOpAttr,
        /// Largest READ.
        read_max: u32,
        /// Preferred size of a READ.
        read_preferred: u32,
        /// READ sizes should be multiples of this.
        read_multiple: u32,
        /// Largest WRITE.
        write_max: u32,
        /// Preferred size of a WRITE.
        write_preferred: u32,
        /// WRITE sizes should be multiples of this.
        write_multiple: u32,
        /// Preferred size of a READDIR.
        dir_preferred: u32,
        /// Largest file.
        file_size_max: u64,
        /// Resolution of times.
        time_delta: NfsTime,
        /// `FSF_*`.
        properties: u32,
    }
}
/// Result of FSINFO.
pub type FsInfoResult = Outcome<FsInfoOk, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.20, PATHCONF.
    PathConfOk {
        /// Attributes of the object.
        attributes: PostOpAttr,
        /// Most hard links to an object.
        link_max: u32,
        /// Longest name, in bytes.
        name_max: u32,
        /// The server refuses longer names, and does not truncate them.
        no_trunc: bool,
        /// Only root may change the owner of a file.
        chown_restricted: bool,
        /// Names that differ only in case are the same.
        case_insensitive: bool,
        /// The server keeps the case of names.
        case_preserving: bool,
    }
}
/// Result of PATHCONF.
pub type PathConfResult = Outcome<PathConfOk, PostOpAttr>;

xdr_struct! {
    /// RFC 1813 3.3.21, COMMIT.
    CommitOk {
        /// Attributes of the file before and after.
        wcc: WccData,
        /// The client compares it with the verifier of the writes.
        verifier: WriteVerifier,
    }
}
/// Result of COMMIT.
pub type CommitResult = Outcome<CommitOk, WccData>;
