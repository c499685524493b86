//! Attributes of an object: all that stat(2) shows.

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Block device.
    Block,
    /// Character device.
    Character,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
    /// Named pipe.
    Fifo,
}

impl FileKind {
    /// Its bits in `st_mode`.
    #[must_use]
    pub const fn type_bits(self) -> u32 {
        match self {
            Self::Regular => libc::S_IFREG,
            Self::Directory => libc::S_IFDIR,
            Self::Block => libc::S_IFBLK,
            Self::Character => libc::S_IFCHR,
            Self::Symlink => libc::S_IFLNK,
            Self::Socket => libc::S_IFSOCK,
            Self::Fifo => libc::S_IFIFO,
        }
    }
}

/// A time of an object: since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, below 10^9, forward from `seconds`.
    pub nanoseconds: u32,
}

/// Numbers of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceNumbers {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Attributes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Kind.
    pub kind: FileKind,
    /// Permission bits, 0o7777.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Disk space used, in bytes.
    pub used: u64,
    /// Numbers of a device.
    pub rdev: DeviceNumbers,
    /// File system of the server, as one number.
    pub fsid: u64,
    /// Number of the object in that file system.
    pub fileid: u64,
    /// Last read.
    pub atime: FileTime,
    /// Last change of data.
    pub mtime: FileTime,
    /// Last change of attributes or data.
    pub ctime: FileTime,
}

/// A change of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// No change.
    #[default]
    Keep,
    /// The server's clock.
    Now,
    /// This time, limited to the range of the protocol.
    To(FileTime),
}

/// A change of attributes. `None` means no change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Last read.
    pub atime: SetTime,
    /// Last change of data.
    pub mtime: SetTime,
}
