//! Plain values of the interface.

/// Kind of an object (RFC 1813 2.6 ftype3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Regular file.
    File = 1,
    /// Directory.
    Directory = 2,
    /// Block device.
    Block = 3,
    /// Character device.
    Character = 4,
    /// Symbolic link.
    Symlink = 5,
    /// Socket.
    Socket = 6,
    /// Named pipe.
    Fifo = 7,
}

impl Kind {
    /// Kind by the type bits of a host mode. `None` for unknown bits.
    pub(crate) fn of_mode(mode: u32) -> Option<Self> {
        Some(match mode & libc::S_IFMT {
            libc::S_IFREG => Self::File,
            libc::S_IFDIR => Self::Directory,
            libc::S_IFBLK => Self::Block,
            libc::S_IFCHR => Self::Character,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFSOCK => Self::Socket,
            libc::S_IFIFO => Self::Fifo,
            _ => return None,
        })
    }

    /// Kind by its number in a handle.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::File,
            2 => Self::Directory,
            3 => Self::Block,
            4 => Self::Character,
            5 => Self::Symlink,
            6 => Self::Socket,
            7 => Self::Fifo,
            _ => return None,
        })
    }
}

/// A point in time, seconds and nanoseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Whole seconds, negative before 1970.
    pub sec: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nsec: u32,
}

/// Attributes of an object (RFC 1813 2.6 fattr3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Kind of the object.
    pub kind: Kind,
    /// Permission, set-id and sticky bits: the low 12 bits.
    pub mode: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size of the content in bytes.
    pub size: u64,
    /// Bytes used in the store.
    pub used: u64,
    /// Device numbers (major, minor) of a device node, else zero.
    pub rdev: (u32, u32),
    /// Identity of the volume: the same after restart and reboot.
    pub fsid: u64,
    /// Inode number.
    pub fileid: u64,
    /// Last access. A volume opens files with O_NOATIME if it may, so that its reads do not change it.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of content or attributes.
    pub ctime: Time,
}

/// How a time is set (RFC 1813 2.6 set_atime, set_mtime).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    /// Leave it.
    #[default]
    DontChange,
    /// The host's clock, now.
    ServerTime,
    /// This time.
    Client(Time),
}

/// Attributes to set (RFC 1813 2.6 sattr3). `None` and `DontChange` leave an attribute as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission, set-id and sticky bits: the low 12 bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes. Truncates the file, or extends it with zeros. Regular files only.
    pub size: Option<u64>,
    /// Access time.
    pub atime: SetTime,
    /// Modification time.
    pub mtime: SetTime,
}

impl SetAttr {
    /// Whether it sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The owner of a new object, unless its `SetAttr` names another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group. In a set-group-id directory, the new object gets the directory's group instead.
    pub gid: u32,
}

/// How a file is created (RFC 1813 3.3.8 createhow3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// An existing regular file is used, and only its `size` is set.
    Unchecked(SetAttr),
    /// An existing name is an error.
    Guarded(SetAttr),
    /// An existing name is an error unless it was created with these eight bytes.
    Exclusive([u8; 8]),
}

/// The kinds that [`mknod`](crate::Volume::mknod) makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Block device.
    Block,
    /// Character device.
    Character,
}

/// What a write promises when it returns (RFC 1813 3.3.7 stable_how).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Nothing until a commit.
    Unstable,
    /// The data, and the size needed to read it back, are durable.
    DataSync,
    /// Data and all attributes are durable.
    FileSync,
}

/// One entry of a directory listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Inode number. For a mount point: that of the directory that the mount covers.
    pub fileid: u64,
    /// Name.
    pub name: &'a [u8],
    /// A listing from this cookie continues after this entry.
    pub cookie: u64,
}

/// Free space of the store (RFC 1813 3.3.18) and its limits (3.3.20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsStat {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Bytes free to users without privilege.
    pub available_bytes: u64,
    /// Inodes in all.
    pub total_files: u64,
    /// Inodes free.
    pub free_files: u64,
    /// Inodes free to users without privilege.
    pub available_files: u64,
    /// Longest name, bytes.
    pub name_bytes_max: u32,
    /// Most hard links of one file. The host does not report it, so it is the limit of ext4.
    pub links_max: u32,
    /// Whether the store is mounted read-only.
    pub read_only: bool,
}

/// What a simulated power cut took back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutReport {
    /// Writes and changes of sizes to files that lost some of them.
    pub undone_writes: u64,
    /// Changes of names and attributes that were taken back.
    pub undone_names: u64,
}
