//! Basic data types, RFC 1813 2.4 to 2.6.

use crate::limits::{HANDLE_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, xdr_bytes, xdr_enum, xdr_opaque8, xdr_struct};

xdr_enum! {
    /// RFC 1813 3.3: the 22 procedures.
    Procedure {
        /// 3.3.0: do nothing.
        Null = 0,
        /// 3.3.1: attributes of an object.
        GetAttr = 1,
        /// 3.3.2: change attributes.
        SetAttr = 2,
        /// 3.3.3: handle of a name.
        Lookup = 3,
        /// 3.3.4: check rights.
        Access = 4,
        /// 3.3.5: target of a symbolic link.
        ReadLink = 5,
        /// 3.3.6: read from a file.
        Read = 6,
        /// 3.3.7: write to a file.
        Write = 7,
        /// 3.3.8: create a file.
        Create = 8,
        /// 3.3.9: create a directory.
        MkDir = 9,
        /// 3.3.10: create a symbolic link.
        SymLink = 10,
        /// 3.3.11: create a device, socket or pipe.
        MkNod = 11,
        /// 3.3.12: remove a file.
        Remove = 12,
        /// 3.3.13: remove a directory.
        RmDir = 13,
        /// 3.3.14: rename.
        Rename = 14,
        /// 3.3.15: make a hard link.
        Link = 15,
        /// 3.3.16: names in a directory.
        ReadDir = 16,
        /// 3.3.17: names, attributes and handles in a directory.
        ReadDirPlus = 17,
        /// 3.3.18: space and files, which change.
        FsStat = 18,
        /// 3.3.19: limits and preferences, which do not change.
        FsInfo = 19,
        /// 3.3.20: POSIX limits.
        PathConf = 20,
        /// 3.3.21: make unstable writes stable.
        Commit = 21,
    }
}

impl Procedure {
    /// Whether a call gives the same result if it is executed twice (RFC 1813 4.4). A server stores its replies to the other calls.
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        !matches!(
            self,
            Self::SetAttr
                | Self::Create
                | Self::MkDir
                | Self::SymLink
                | Self::MkNod
                | Self::Remove
                | Self::RmDir
                | Self::Rename
                | Self::Link
        )
    }
}

xdr_enum! {
    /// RFC 1813 2.6, `nfsstat3`.
    NfsStatus {
        /// Success.
        Ok = 0,
        /// Not the owner.
        Perm = 1,
        /// No such name.
        NoEnt = 2,
        /// Hard error on the medium.
        Io = 5,
        /// No such device.
        NxIo = 6,
        /// Permission denied.
        Acces = 13,
        /// The name exists.
        Exist = 17,
        /// Link across file systems.
        XDev = 18,
        /// No such device type.
        NoDev = 19,
        /// Not a directory.
        NotDir = 20,
        /// A directory.
        IsDir = 21,
        /// Argument invalid or not supported.
        Inval = 22,
        /// File too large.
        FBig = 27,
        /// No space.
        NoSpc = 28,
        /// Read-only file system.
        RoFs = 30,
        /// Too many hard links.
        MLink = 31,
        /// Name too long.
        NameTooLong = 63,
        /// Directory not empty.
        NotEmpty = 66,
        /// Quota exceeded.
        DQuot = 69,
        /// The object is gone.
        Stale = 70,
        /// Too many levels of remote.
        Remote = 71,
        /// The handle is not one of this server.
        BadHandle = 10_001,
        /// Guard of SETATTR not met.
        NotSync = 10_002,
        /// Cookie of READDIR is stale.
        BadCookie = 10_003,
        /// Operation not supported.
        NotSupp = 10_004,
        /// Buffer or request too small.
        TooSmall = 10_005,
        /// The server failed.
        ServerFault = 10_006,
        /// Type not supported.
        BadType = 10_007,
        /// Try again later.
        JukeBox = 10_008,
    }
}

xdr_enum! {
    /// RFC 1813 2.6, `ftype3`.
    FileType {
        /// Regular file.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Block device.
        Block = 3,
        /// Character device.
        Character = 4,
        /// Symbolic link.
        SymLink = 5,
        /// Socket.
        Socket = 6,
        /// Named pipe.
        Fifo = 7,
    }
}

xdr_enum! {
    /// RFC 1813 3.3.7, `stable_how`: ordered, a later value promises more.
    StableHow {
        /// The data may be lost until a COMMIT.
        Unstable = 0,
        /// The data, and the metadata needed to read it back, are stable.
        DataSync = 1,
        /// Data and all attributes are stable.
        FileSync = 2,
    }
}

xdr_opaque8! {
    /// RFC 1813 3.3.7, `writeverf3`: changes when unstable data may have been lost.
    WriteVerifier
}
xdr_opaque8! {
    /// RFC 1813 3.3.16, `cookieverf3`.
    CookieVerifier
}
xdr_opaque8! {
    /// RFC 1813 3.3.8, `createverf3`: by it a server recognises a repeated exclusive create.
    CreateVerifier
}

xdr_bytes! {
    /// A name in a directory, `filename3`. Not checked for `/` or NUL.
    Name, NAME_BYTES_MAX
}
xdr_bytes! {
    /// The target of a symbolic link, `nfspath3`.
    Path, PATH_BYTES_MAX
}
xdr_bytes! {
    /// The payload of a READ or WRITE.
    Data, TRANSFER_BYTES_MAX as usize
}

/// RFC 1813 2.5, `nfs_fh3`: opaque, at most 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    length: u8,                    // 0 ..= HANDLE_BYTES_MAX
    bytes: [u8; HANDLE_BYTES_MAX], // zero from `length` on, so that equality and hash are those of the handle
}

impl FileHandle {
    /// The handle with these bytes. `None` if there are more than 64.
    #[must_use]
    pub fn new(handle: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_BYTES_MAX];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(Self { length: handle.len() as u8, bytes })
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl core::fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Encode for FileHandle {
    fn encode(&self, out: &mut Writer<'_>) {
        out.opaque(self.as_bytes());
    }
}

impl<'a> Decode<'a> for FileHandle {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = input.opaque(HANDLE_BYTES_MAX)?;
        let limit = HANDLE_BYTES_MAX;
        Self::new(bytes).ok_or_else(|| input.error(DecodeErrorKind::TooLong { length: bytes.len(), limit }))
    }
}

xdr_struct! {
    /// RFC 1813 2.6, `nfstime3`: since 1970, UTC.
    #[derive(Default, PartialOrd, Ord)]
    NfsTime {
        /// Seconds.
        seconds: u32,
        /// Nanoseconds, below 10^9 from a correct peer.
        nseconds: u32,
    }
}

xdr_struct! {
    /// RFC 1813 2.6, `specdata3`: device numbers.
    #[derive(Default)]
    SpecData {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    }
}

xdr_struct! {
    /// RFC 1813 2.6, `fattr3`.
    Fattr {
        /// Kind of object.
        kind: FileType,
        /// Permission bits, 0o7777.
        mode: u32,
        /// Hard links.
        nlink: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Size in bytes.
        size: u64,
        /// Space used, in bytes.
        used: u64,
        /// Device numbers of a device.
        rdev: SpecData,
        /// File system.
        fsid: u64,
        /// Number of the object in the file system.
        fileid: u64,
        /// Last read.
        atime: NfsTime,
        /// Last change of data.
        mtime: NfsTime,
        /// Last change of attributes or data.
        ctime: NfsTime,
    }
}

/// RFC 1813 2.6, `post_op_attr`.
pub type PostOpAttr = Option<Fattr>;
/// RFC 1813 2.6, `post_op_fh3`.
pub type PostOpHandle = Option<FileHandle>;

xdr_struct! {
    /// RFC 1813 2.6, `wcc_attr`: the attributes with which a client checks its cache.
    WccAttr {
        /// Size in bytes.
        size: u64,
        /// Last change of data.
        mtime: NfsTime,
        /// Last change of attributes or data.
        ctime: NfsTime,
    }
}

xdr_struct! {
    /// RFC 1813 2.6, `wcc_data`.
    #[derive(Default)]
    WccData {
        /// Before the operation. `None` if the server is not sure about them.
        before: Option<WccAttr>,
        /// After the operation.
        after: PostOpAttr,
    }
}

/// How a time is set, RFC 1813 2.6 `set_atime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it.
    #[default]
    DontChange,
    /// Set it to the server's time.
    ServerTime,
    /// Set it to this time.
    Client(NfsTime),
}

impl Encode for SetTime {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::DontChange => 0u32.encode(out),
            Self::ServerTime => 1u32.encode(out),
            Self::Client(time) => {
                2u32.encode(out);
                time.encode(out);
            }
        }
    }
}

impl<'a> Decode<'a> for SetTime {
    fn decode(input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match u32::decode(input)? {
            0 => Ok(Self::DontChange),
            1 => Ok(Self::ServerTime),
            2 => NfsTime::decode(input).map(Self::Client),
            other => Err(input.error(DecodeErrorKind::UnknownValue(other))),
        }
    }
}

xdr_struct! {
    /// RFC 1813 2.6, `sattr3`. `None` leaves an attribute as it is.
    #[derive(Default)]
    SetAttr {
        /// Permission bits.
        mode: Option<u32>,
        /// Owner.
        uid: Option<u32>,
        /// Group.
        gid: Option<u32>,
        /// Size in bytes.
        size: Option<u64>,
        /// Last read.
        atime: SetTime,
        /// Last change of data.
        mtime: SetTime,
    }
}
