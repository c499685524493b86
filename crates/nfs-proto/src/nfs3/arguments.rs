//! Arguments of the procedures, RFC 1813 3.3.

use super::types::{
    CookieVerifier, CreateVerifier, Data, FileHandle, FileType, Name, NfsTime, Path, SetAttr, SpecData, StableHow,
};
use crate::xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_struct};

/// Right asked by ACCESS: read data or names (RFC 1813 3.3.4).
pub const ACCESS_READ: u32 = 0x01;
/// Right asked by ACCESS: look a name up.
pub const ACCESS_LOOKUP: u32 = 0x02;
/// Right asked by ACCESS: change data or names.
pub const ACCESS_MODIFY: u32 = 0x04;
/// Right asked by ACCESS: write new data or names.
pub const ACCESS_EXTEND: u32 = 0x08;
/// Right asked by ACCESS: remove a name.
pub const ACCESS_DELETE: u32 = 0x10;
/// Right asked by ACCESS: execute a file.
pub const ACCESS_EXECUTE: u32 = 0x20;

xdr_struct! {
    /// An object and nothing more: GETATTR, READLINK, FSSTAT, FSINFO, PATHCONF.
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
        /// What changes.
        new_attributes: SetAttr,
        /// When given, the ctime the object must have, else NFS3ERR_NOT_SYNC.
        guard: Option<NfsTime>,
    }
}

xdr_struct! {
    /// RFC 1813 3.3, `diropargs3`: LOOKUP, REMOVE, RMDIR and the place of what is created.
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
        /// Rights asked, `ACCESS_*`.
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
        /// Bytes wanted.
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
        /// Bytes to write; a server must refuse more than `data` holds.
        count: u32,
        /// What the reply has to promise.
        stable: StableHow,
        /// The bytes.
        data: Data<'a>,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.7, WRITE up to its payload, which a client gathers from the caller's buffers; padding follows it.
    WriteArgsHead {
        /// The file.
        file: FileHandle,
        /// First byte.
        offset: u64,
        /// Bytes to write.
        count: u32,
        /// What the reply has to promise.
        stable: StableHow,
        /// Bytes of payload that follow: the same as `count`.
        data_bytes: u32,
    }
}

/// RFC 1813 3.3.8, `createhow3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// Create, or take the file that is there.
    Unchecked(SetAttr),
    /// Create, NFS3ERR_EXIST if the name exists.
    Guarded(SetAttr),
    /// Create; repeating it with the same verifier is the same create.
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
        /// How.
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
        /// Its text.
        target: Path<'a>,
    }
}

/// RFC 1813 3.3.11, `mknoddata3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeData {
    /// Block or character device (the type says which).
    Device(FileType, SetAttr, SpecData),
    /// Socket or named pipe (the type says which).
    Pipe(FileType, SetAttr),
    /// Any other type: to be refused with NFS3ERR_BADTYPE.
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
        /// What.
        what: NodeData,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.14, RENAME.
    RenameArgs<'a> {
        /// What is renamed.
        from: DirOpArgs<'a>,
        /// What it becomes; an object there is replaced.
        to: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// RFC 1813 3.3.15, LINK.
    LinkArgs<'a> {
        /// The object that gets a further name.
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
        /// Bytes; 0 means to the end.
        count: u32,
    }
}
