//! Arguments of the procedures, RFC 1813 3.3.

use super::types::{
    CookieVerifier, CreateVerifier, Data, FileHandle, FileType, Name, NfsTime, Path, SetAttr, SpecData, StableHow,
};
use crate::xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_struct};

/// Right in ACCESS: read data or names (RFC 1813 3.3.4).
pub const ACCESS_READ: u32 = 0x01;
/// Right in ACCESS: look a name up.
pub const ACCESS_LOOKUP: u32 = 0x02;
/// Right in ACCESS: change data or names.
pub const ACCESS_MODIFY: u32 = 0x04;
/// Right in ACCESS: add data or names.
pub const ACCESS_EXTEND: u32 = 0x08;
/// Right in ACCESS: remove a name.
pub const ACCESS_DELETE: u32 = 0x10;
/// Right in ACCESS: execute a file.
pub const ACCESS_EXECUTE: u32 = 0x20;

xdr_struct! {
    /// Only an object: GETATTR, READLINK, FSSTAT, FSINFO, PATHCONF.
    ObjectArgs {
        /// The object.
        object: FileHandle,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.2, SETATTR.
    SetAttrArgs {
        /// The object.
        object: FileHandle,
        /// The attributes to set.
        new_attributes: SetAttr,
        /// If given, the ctime that the object must have. Otherwise the call fails with NFS3ERR_NOT_SYNC.
        guard: Option<NfsTime>,
    }
}

xdr_struct! {
    /// RFC 1813 3.3, `diropargs3`: LOOKUP, REMOVE, RMDIR, and the place of a new object.
    DirOpArgs<'a> {
        /// The directory.
        dir: FileHandle,
        /// The name in it.
        name: Name<'a>,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.4, ACCESS.
    AccessArgs {
        /// The object.
        object: FileHandle,
        /// Rights to check, `ACCESS_*`.
        access: u32,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.6, READ.
    ReadArgs {
        /// The file.
        file: FileHandle,
        /// First byte.
        offset: u64,
        /// Bytes to read.
        count: u32,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.7, WRITE, with its payload.
    WriteArgs<'a> {
        /// The file.
        file: FileHandle,
        /// First byte.
        offset: u64,
        /// Bytes to write. A server must refuse a number larger than the length of `data`.
        count: u32,
        /// The durability that the reply must promise.
        stable: StableHow,
        /// The bytes.
        data: Data<'a>,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.7, WRITE up to its payload. The client sends the payload from the caller's buffers, then the padding.
    WriteArgsHead {
        /// The file.
        file: FileHandle,
        /// First byte.
        offset: u64,
        /// Bytes to write.
        count: u32,
        /// The durability that the reply must promise.
        stable: StableHow,
        /// Bytes of payload that follow: the same as `count`.
        data_bytes: u32,
    }
}

/// RFC 1813 3.3.8, `createhow3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// Create the file, or use the existing one.
    Unchecked(SetAttr),
    /// Create the file. Fails with NFS3ERR_EXIST if the name exists.
    Guarded(SetAttr),
    /// Create the file. A repeated call with the same verifier succeeds too.
    Exclusive(CreateVerifier),
}

impl Encode for CreateHow {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Unchecked(attributes) => {
                0u32.encode(out);
                attributes.encode(out);
            }
            Self::Guarded(attributes) => {
                1u32.encode(out);
                attributes.encode(out);
            }
            Self::Exclusive(verifier) => {
                2u32.encode(out);
                verifier.encode(out);
            }
        }
    }
}

impl<'a> Decode<'a> for CreateHow {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match u32::decode(input)? {
            0 => SetAttr::decode(input).map(Self::Unchecked),
            1 => SetAttr::decode(input).map(Self::Guarded),
            2 => CreateVerifier::decode(input).map(Self::Exclusive),
            other => Err(input.error(DecodeErrorKind::UnknownValue(other))),
        }
    }
}

xdr_struct! {
    /// RFC 1813 3.3.8, CREATE.
    CreateArgs<'a> {
        /// Directory and name.
        place: DirOpArgs<'a>,
        /// How to create it.
        how: CreateHow,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.9, MKDIR.
    MkDirArgs<'a> {
        /// Directory and name.
        place: DirOpArgs<'a>,
        /// Attributes of the new directory.
        attributes: SetAttr,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.10, SYMLINK.
    SymLinkArgs<'a> {
        /// Directory and name.
        place: DirOpArgs<'a>,
        /// Attributes of the new link.
        attributes: SetAttr,
        /// Its target.
        target: Path<'a>,
    }
}

/// RFC 1813 3.3.11, `mknoddata3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeData {
    /// Block or character device, by the type.
    Device(FileType, SetAttr, SpecData),
    /// Socket or named pipe, by the type.
    Pipe(FileType, SetAttr),
    /// Any other type. A server must refuse it with NFS3ERR_BADTYPE.
    Other(FileType),
}

impl Encode for NodeData {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Device(kind, attributes, numbers) => {
                kind.encode(out);
                attributes.encode(out);
                numbers.encode(out);
            }
            Self::Pipe(kind, attributes) => {
                kind.encode(out);
                attributes.encode(out);
            }
            Self::Other(kind) => kind.encode(out),
        }
    }
}

impl<'a> Decode<'a> for NodeData {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let kind = FileType::decode(input)?;
        Ok(match kind {
            FileType::Block | FileType::Character => Self::Device(kind, SetAttr::decode(input)?, SpecData::decode(input)?),
            FileType::Socket | FileType::Fifo => Self::Pipe(kind, SetAttr::decode(input)?),
            FileType::Regular | FileType::Directory | FileType::SymLink => Self::Other(kind),
        })
    }
}

xdr_struct! {
    /// RFC 1813 3.3.11, MKNOD.
    MkNodArgs<'a> {
        /// Directory and name.
        place: DirOpArgs<'a>,
        /// The type, attributes and device numbers of the new object.
        what: NodeData,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.14, RENAME.
    RenameArgs<'a> {
        /// The old directory and name.
        from: DirOpArgs<'a>,
        /// The new directory and name. An object of that name is replaced.
        to: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.15, LINK.
    LinkArgs<'a> {
        /// The object that gets another name.
        file: FileHandle,
        /// The new name.
        link: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.16, READDIR.
    ReadDirArgs {
        /// The directory.
        dir: FileHandle,
        /// 0 from the start, else the cookie of the last entry seen.
        cookie: u64,
        /// 0 at the start, else that of the last reply.
        cookie_verifier: CookieVerifier,
        /// Most bytes of the result, `READDIR3resok` in XDR form.
        count: u32,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.17, READDIRPLUS.
    ReadDirPlusArgs {
        /// The directory.
        dir: FileHandle,
        /// 0 from the start, else the cookie of the last entry seen.
        cookie: u64,
        /// 0 at the start, else that of the last reply.
        cookie_verifier: CookieVerifier,
        /// Most bytes of names, ids and cookies.
        dir_count: u32,
        /// Most bytes of the result, `READDIRPLUS3resok` in XDR form.
        max_count: u32,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.21, COMMIT.
    CommitArgs {
        /// The file.
        file: FileHandle,
        /// First byte.
        offset: u64,
        /// Number of bytes. 0 means up to the end of the file.
        count: u32,
    }
}
