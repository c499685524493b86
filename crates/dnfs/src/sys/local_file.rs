//! Files of this host: system calls on paths and descriptors, repeated after signals.

use super::fd::Fd;
use super::process::limits;
use crate::user_namespace::{group_outside, user_outside};
use rustix::fd::AsFd;
use rustix::fs::{Access, AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::retry_on_intr;
use std::ffi::{CStr, CString};

/// Mode of files that exist for their locks. No process can open one for reading: a program that opens and closes such files
/// would release the locks of its own process.
pub(crate) const LOCK_FILE_MODE: u32 = 0o220;

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

type Result<T> = core::result::Result<T, Errno>;

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

/// A path for the kernel, allocated before its use.
#[derive(Clone, Debug)]
pub(crate) struct CPath(CString);

impl CPath {
    /// The path of these bytes, cut at the first NUL.
    pub(crate) fn new(path: &[u8]) -> Self {
        let bytes: Vec<u8> = path.iter().copied().take_while(|byte| *byte != 0).collect();
        Self(CString::new(bytes).unwrap_or_default()) // it contains no NUL
    }

    /// A hash that identifies the path.
    pub(crate) fn hash(&self) -> u64 {
        use core::hash::Hasher;
        let mut hash = fnv::FnvHasher::default();
        hash.write(self.0.as_bytes());
        hash.finish()
    }

    /// The path without its NUL.
    #[cfg(test)]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Opens `path`; `flags` of open(2), close-on-exec and no-follow are added.
pub(crate) fn open(path: &CPath, flags: i32, mode: u32) -> Result<Fd> {
    open_followed(path, flags | libc::O_NOFOLLOW, mode)
}

/// As [`open`], for a path that ends in a NUL, without an allocation.
pub(crate) fn open_array(path: &[u8], flags: i32, mode: u32) -> Result<Fd> {
    let path = CStr::from_bytes_until_nul(path).map_err(|_| Errno(libc::ENAMETOOLONG))?;
    open_named(path, flags | libc::O_NOFOLLOW, mode)
}

/// As [`open`], and follows symbolic links.
pub(crate) fn open_followed(path: &CPath, flags: i32, mode: u32) -> Result<Fd> {
    open_named(path.0.as_c_str(), flags, mode)
}

fn open_named(path: &CStr, flags: i32, mode: u32) -> Result<Fd> {
    let flags = OFlags::from_bits_retain((flags | libc::O_CLOEXEC) as u32);
    let opened = retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::from_bits_retain(mode)));
    Ok(Fd::from(opened?))
}

/// `read(2)`; 0 is the end.
pub(crate) fn read(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    Ok(retry_on_intr(|| rustix::io::read(fd, &mut *buffer))?)
}

/// `write(2)` of all bytes.
pub(crate) fn write(fd: &Fd, mut bytes: &[u8]) -> Result<()> {
    above_the_limit(bytes.len() as u64, || {
        while !bytes.is_empty() {
            let written = retry_on_intr(|| rustix::io::write(fd, bytes))?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    })
}

/// `pread(2)`; 0 is the end.
pub(crate) fn read_at(fd: impl AsFd, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    Ok(retry_on_intr(|| rustix::io::pread(&fd, &mut *buffer, offset))?)
}

/// `pwrite(2)` of all bytes.
pub(crate) fn write_at(fd: impl AsFd, mut offset: u64, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::pwrite(&fd, bytes, offset))?;
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}

/// Offset of the next data from an offset on (`SEEK_DATA`). `None` if there is no data before the end of the file.
pub(crate) fn next_data(fd: &Fd, offset: u64) -> Result<Option<u64>> {
    match rustix::fs::seek(fd, rustix::fs::SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Moves the offset of an open file description by `bytes`. Returns the new offset.
pub(crate) fn move_offset(fd: impl AsFd, bytes: i64) -> Result<u64> {
    Ok(rustix::fs::seek(fd, rustix::fs::SeekFrom::Current(bytes))?)
}

/// Sets the offset of an open file description.
pub(crate) fn set_offset(fd: impl AsFd, offset: u64) -> Result<()> {
    Ok(rustix::fs::seek(fd, rustix::fs::SeekFrom::Start(offset)).map(drop)?)
}

/// `flock(2)` with its `LOCK_` flags; waits through signals.
pub(crate) fn flock(fd: &Fd, flags: i32) -> Result<()> {
    let operation = match (flags & !libc::LOCK_NB, flags & libc::LOCK_NB != 0) {
        (libc::LOCK_SH, false) => FlockOperation::LockShared,
        (libc::LOCK_SH, true) => FlockOperation::NonBlockingLockShared,
        (libc::LOCK_EX, false) => FlockOperation::LockExclusive,
        (libc::LOCK_EX, true) => FlockOperation::NonBlockingLockExclusive,
        (libc::LOCK_UN, _) => FlockOperation::Unlock,
        _ => return Err(Errno(libc::EINVAL)),
    };
    Ok(retry_on_intr(|| rustix::fs::flock(fd, operation))?)
}

/// Creates a directory with this mode.
pub(crate) fn mkdir(path: &CPath, mode: u32) -> Result<()> {
    Ok(rustix::fs::mkdirat(CWD, path.0.as_c_str(), Mode::from_bits_retain(mode))?)
}

/// Removes an empty directory.
pub(crate) fn rmdir(path: &CPath) -> Result<()> {
    Ok(rustix::fs::unlinkat(CWD, path.0.as_c_str(), AtFlags::REMOVEDIR)?)
}

/// Whether this process may execute the file.
pub(crate) fn is_executable(path: &CPath) -> bool {
    rustix::fs::accessat(CWD, path.0.as_c_str(), Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Removes a file.
pub(crate) fn unlink(path: &CPath) -> Result<()> {
    Ok(rustix::fs::unlinkat(CWD, path.0.as_c_str(), AtFlags::empty())?)
}

/// As [`unlink`], for a path that ends in a NUL, without an allocation.
pub(crate) fn unlink_array(path: &[u8]) -> Result<()> {
    let path = CStr::from_bytes_until_nul(path).map_err(|_| Errno(libc::ENAMETOOLONG))?;
    Ok(rustix::fs::unlinkat(CWD, path, AtFlags::empty())?)
}

/// Renames a file over another, for paths that end in a NUL, without an allocation.
pub(crate) fn rename_array(from: &[u8], to: &[u8]) -> Result<()> {
    let path = |bytes| CStr::from_bytes_until_nul(bytes).map_err(|_| Errno(libc::ENAMETOOLONG));
    Ok(rustix::fs::renameat(CWD, path(from)?, CWD, path(to)?)?)
}

/// Gives a file another name. EEXIST if there is a file of that name.
pub(crate) fn link(from: &CPath, to: &CPath) -> Result<()> {
    Ok(rustix::fs::linkat(CWD, from.0.as_c_str(), CWD, to.0.as_c_str(), AtFlags::empty())?)
}

/// Renames a file over another.
pub(crate) fn rename(from: &CPath, to: &CPath) -> Result<()> {
    Ok(rustix::fs::renameat(CWD, from.0.as_c_str(), CWD, to.0.as_c_str())?)
}

/// Owner and type of a file. Users and groups are numbers of the mounts' user namespace.
pub(crate) struct Owner {
    /// Type and permission bits, as in `st_mode`.
    pub(crate) mode: u32,
    /// Owner.
    pub(crate) uid: u32,
    /// Its group.
    pub(crate) gid: u32,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Whether it has a name: it was not removed.
    pub(crate) is_named: bool,
}

/// Type, owner and size of the open file.
pub(crate) fn stat(fd: &Fd) -> Result<Owner> {
    let found = rustix::fs::fstat(fd)?;
    Ok(Owner {
        mode: found.st_mode,
        uid: user_outside(found.st_uid).unwrap_or(found.st_uid),
        gid: group_outside(found.st_gid).unwrap_or(found.st_gid),
        size: found.st_size as u64,
        is_named: found.st_nlink > 0,
    })
}

/// Sets permission bits, as fchmod(2).
pub(crate) fn change_mode(fd: &Fd, mode: u32) -> Result<()> {
    Ok(rustix::fs::fchmod(fd, Mode::from_bits_retain(mode))?)
}

/// readlink(2).
pub(crate) fn read_link(path: &CPath) -> Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(CWD, path.0.as_c_str(), Vec::new())?.into_bytes())
}

/// Whether an open file is in a tmpfs.
pub(crate) fn is_in_memory(fd: &Fd) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994; // linux/magic.h
    rustix::fs::fstatfs(fd).is_ok_and(|found| found.f_type == TMPFS_MAGIC)
}

/// Gives the open file to a group.
pub(crate) fn change_group(fd: &Fd, gid: u32) -> Result<()> {
    Ok(rustix::fs::fchown(fd, None, Some(rustix::process::Gid::from_raw(gid)))?)
}

/// Sets the length of a file; added bytes are a hole.
pub(crate) fn truncate(fd: &Fd, length: u64) -> Result<()> {
    above_the_limit(length, || Ok(rustix::fs::ftruncate(fd, length)?))
}

/// Bytes free for all users in the file system of an open file.
pub(crate) fn free_bytes(fd: &Fd) -> Result<u64> {
    let found = rustix::fs::fstatvfs(fd)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// All bytes of the file system of this directory, and those that this user may still take.
pub(crate) fn file_system_bytes(directory: &CPath) -> Result<(u64, u64)> {
    let fd = open(directory, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let found = rustix::fs::fstatvfs(&fd)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok((bytes(found.f_blocks), bytes(found.f_bavail)))
}

/// As [`allocate`], without changing the file's length.
pub(crate) fn reserve(fd: &Fd, offset: u64, length: u64) -> Result<()> {
    Ok(retry_on_intr(|| rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset, length))?)
}

/// Allocates the memory of a range of a file, so that a store into its mapping does not kill the process when the tmpfs is
/// full.
pub(crate) fn allocate(fd: &Fd, offset: u64, length: u64) -> Result<()> {
    above_the_limit(offset.saturating_add(length), || {
        Ok(retry_on_intr(|| rustix::fs::fallocate(fd, FallocateFlags::empty(), offset, length))?)
    })
}

/// Makes a file of this crate longer. The program's RLIMIT_FSIZE is meant for its own files. The memory of a mount is longer
/// than a small limit, and the kernel would end the program by SIGXFSZ. So the soft limit is raised meanwhile; a child forked
/// at that moment keeps the raised limit. A hard limit that is too low is EFBIG, without the signal.
fn above_the_limit(length: u64, grow: impl FnOnce() -> Result<()>) -> Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let (soft, hard) = limits(libc::RLIMIT_FSIZE); // u64::MAX is no limit
    if length <= soft {
        return grow();
    }
    if length > hard {
        return Err(rustix::io::Errno::FBIG.into());
    }
    let set = |soft| setrlimit(Resource::Fsize, Rlimit { current: Some(soft), maximum: Some(hard) });
    set(hard)?;
    let grown = grow();
    set(soft)?;
    grown
}
