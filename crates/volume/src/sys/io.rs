//! Reads, writes, flushes, statx and limits.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FlockOperation, SeekFrom, StatVfs, StatxFlags, Timespec, UTIME_NOW, UTIME_OMIT};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

use super::credentials::clear_set_id_on_write;

/// How to set one time of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RawTime {
    Omit,
    Now,
    At { sec: i64, nsec: u32 },
}

impl RawTime {
    pub(super) fn to_timespec(self) -> Timespec {
        let (tv_sec, tv_nsec) = match self {
            Self::Omit => (0, UTIME_OMIT),
            Self::Now => (0, UTIME_NOW),
            Self::At { sec, nsec } => (sec, nsec.into()),
        };
        Timespec { tv_sec, tv_nsec }
    }
}

/// The fields of statx that this crate uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawStat {
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) dev: (u32, u32),
    pub(crate) rdev: (u32, u32),
    pub(crate) mount: u64,
    pub(crate) atime: (i64, u32),
    pub(crate) mtime: (i64, u32),
    pub(crate) ctime: (i64, u32),
    /// Birth time, or zero if the file system has none.
    pub(crate) btime: (i64, u32),
}

/// Whether a file may end at this offset. The host checks a seek against the largest file size of the file system. This changes the
/// descriptor's position.
pub(crate) fn holds_offset(file: impl AsFd, end: u64) -> bool {
    rustix::fs::seek(file, SeekFrom::Start(end)) != Err(Errno::INVAL)
}

/// Attributes of an open object, O_PATH too.
pub(crate) fn stat(fd: impl AsFd) -> io::Result<RawStat> {
    statx(fd, b"", AtFlags::EMPTY_PATH, ALL)
}

/// As [`stat`], with zeros for the times. The host does not count them as read (see `times`).
pub(crate) fn stat_untimed(fd: impl AsFd) -> io::Result<RawStat> {
    let times = StatxFlags::ATIME | StatxFlags::MTIME | StatxFlags::CTIME;
    let stat = statx(fd, b"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS.difference(times) | StatxFlags::MNT_ID)?;
    // The host may return fields that were not requested. Their values must not be used.
    Ok(RawStat { atime: (0, 0), mtime: (0, 0), ctime: (0, 0), btime: (0, 0), ..stat })
}

/// Attributes of the object of a name. Does not follow a link.
pub(crate) fn stat_name(dir: impl AsFd, name: &[u8]) -> io::Result<RawStat> {
    statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, ALL)
}

/// The mask of all these fields.
const ALL: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

fn statx(fd: impl AsFd, path: &[u8], flags: AtFlags, mask: StatxFlags) -> io::Result<RawStat> {
    let s = rustix::fs::statx(fd, path, flags, mask)?;
    let time = |t: rustix::fs::StatxTimestamp| (t.tv_sec, t.tv_nsec);
    Ok(RawStat {
        mode: u32::from(s.stx_mode),
        nlink: s.stx_nlink,
        uid: s.stx_uid,
        gid: s.stx_gid,
        ino: s.stx_ino,
        size: s.stx_size,
        blocks: s.stx_blocks,
        dev: (s.stx_dev_major, s.stx_dev_minor),
        rdev: (s.stx_rdev_major, s.stx_rdev_minor),
        mount: s.stx_mnt_id,
        atime: time(s.stx_atime),
        mtime: time(s.stx_mtime),
        ctime: time(s.stx_ctime),
        btime: time(s.stx_btime),
    })
}

/// Checks that an offset fits the kernel's signed 64 bits. `beyond`: the error number otherwise.
pub(super) fn checked_offset(offset: u64, beyond: libc::c_int) -> io::Result<u64> {
    if i64::try_from(offset).is_ok() { Ok(offset) } else { Err(io::Error::from_raw_os_error(beyond)) }
}

/// One pread. Repeats an interrupted call.
pub(crate) fn pread(fd: impl AsFd, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let offset = checked_offset(offset, libc::EINVAL)?;
    Ok(retry_on_intr(|| rustix::io::pread(&fd, &mut *buf, offset))?)
}

/// One pwrite. Repeats an interrupted call.
pub(crate) fn pwrite(fd: impl AsFd, data: &[u8], offset: u64) -> io::Result<usize> {
    let offset = checked_offset(offset, libc::EFBIG)?;
    clear_set_id_on_write();
    Ok(retry_on_intr(|| rustix::io::pwrite(&fd, data, offset))?)
}

/// Flushes the data, and the size needed to read it back.
pub(crate) fn fdatasync(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(fd)?)
}

/// Flushes data and all attributes; of a directory, its entries.
pub(crate) fn fsync(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::fsync(fd)?)
}

/// Flushes the whole file system that `fd` is on.
pub(crate) fn sync_file_system(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::syncfs(fd)?)
}

/// Gives an empty file the content of another by sharing its blocks. Returns false if the host cannot do so.
pub(crate) fn clone_content(from: impl AsFd, to: impl AsFd) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

/// The next range of a file from `offset` on that is not a hole. `None` after the last one. Changes the descriptor's position.
pub(crate) fn next_data(fd: impl AsFd, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let offset = checked_offset(offset, libc::EINVAL)?;
    match rustix::fs::seek(&fd, SeekFrom::Data(offset)) {
        Ok(begin) => Ok(Some((begin, rustix::fs::seek(&fd, SeekFrom::Hole(begin))?))),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Free space of the file system that `fd` is on.
pub(crate) fn fs_stat(fd: impl AsFd) -> io::Result<StatVfs> {
    Ok(rustix::fs::fstatvfs(fd)?)
}

/// Types of file systems, as statfs(2) returns them.
pub(crate) const BTRFS: i64 = 0x9123_683e;
pub(crate) const EXT4: i64 = 0xef53;
pub(crate) const XFS: i64 = 0x5846_5342;

/// The type of the file system that `fd` is on.
pub(crate) fn file_system_kind(fd: impl AsFd) -> Option<i64> {
    rustix::fs::fstatfs(fd).ok().map(|found| found.f_type)
}

/// Takes an exclusive lock on a file without waiting. Returns false if another open file description holds a lock.
pub(crate) fn lock_exclusively(fd: impl AsFd) -> io::Result<bool> {
    lock(fd, FlockOperation::NonBlockingLockExclusive)
}

/// Takes a shared lock on a file without waiting. Returns false if another open file description holds an exclusive one.
pub(crate) fn lock_shared(fd: impl AsFd) -> io::Result<bool> {
    lock(fd, FlockOperation::NonBlockingLockShared)
}

/// Releases a lock for all descriptors of its open file description, also those that a child forked meanwhile still has.
pub(crate) fn unlock(fd: impl AsFd) {
    let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
}

fn lock(fd: impl AsFd, how: FlockOperation) -> io::Result<bool> {
    match rustix::fs::flock(fd, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Soft RLIMIT_NOFILE.
pub(crate) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Effective user of the process.
pub(crate) fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Effective group of the process.
pub(crate) fn effective_gid() -> u32 {
    rustix::process::getegid().as_raw()
}
