//! Reads, writes, flushes, statx and limits.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use super::{c_name, checked, checked_len};

/// What to do with one time of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RawTime {
    Omit,
    Now,
    At { sec: i64, nsec: u32 },
}

impl RawTime {
    pub(super) fn to_timespec(self) -> libc::timespec {
        let (tv_sec, tv_nsec) = match self {
            Self::Omit => (0, libc::UTIME_OMIT),
            Self::Now => (0, libc::UTIME_NOW),
            Self::At { sec, nsec } => (sec, i64::from(nsec)),
        };
        libc::timespec { tv_sec, tv_nsec }
    }
}

/// The parts of statx this room uses.
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
    /// Birth time where the host keeps one, else zero.
    pub(crate) btime: (i64, u32),
}

/// Attributes of an open object, O_PATH too.
pub(crate) fn stat(fd: impl AsFd) -> io::Result<RawStat> {
    statx(fd.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH, ALL)
}

/// The same without the times, which come out as zero: the host takes no note of a look at them (see `times`).
pub(crate) fn stat_untimed(fd: impl AsFd) -> io::Result<RawStat> {
    let times = libc::STATX_ATIME | libc::STATX_MTIME | libc::STATX_CTIME;
    let mask = (libc::STATX_BASIC_STATS & !times) | libc::STATX_MNT_ID;
    let stat = statx(fd.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH, mask)?;
    // A host gives more than it is asked for when that is free; then it would be wrong to use.
    Ok(RawStat { atime: (0, 0), mtime: (0, 0), ctime: (0, 0), btime: (0, 0), ..stat })
}

/// Attributes of a name, a link itself and not what it points to.
pub(crate) fn stat_name(dir: impl AsFd, name: &[u8]) -> io::Result<RawStat> {
    statx(dir.as_fd().as_raw_fd(), &c_name(name)?, libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT, ALL)
}

/// All fields of statx this room uses.
const ALL: libc::c_uint = libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID;

fn statx(fd: libc::c_int, path: &std::ffi::CStr, flags: libc::c_int, mask: libc::c_uint) -> io::Result<RawStat> {
    let mut out = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: `path` is NUL-terminated, `out` is writable and large enough for the answer.
    checked(unsafe { libc::statx(fd, path.as_ptr(), flags, mask, out.as_mut_ptr()) })?;
    // SAFETY: all-zero bytes are a valid statx, and the kernel filled it.
    let s = unsafe { out.assume_init() };
    let time = |t: libc::statx_timestamp| (t.tv_sec, t.tv_nsec);
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

/// One pread; interrupted calls are made again.
pub(crate) fn pread(fd: impl AsFd, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    again(|| {
        // SAFETY: the buffer is writable for its length; the descriptor is borrowed open.
        unsafe { libc::pread64(fd.as_fd().as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), offset) }
    })
}

/// One pwrite; interrupted calls are made again.
pub(crate) fn pwrite(fd: impl AsFd, data: &[u8], offset: u64) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    again(|| {
        // SAFETY: the buffer is readable for its length; the descriptor is borrowed open.
        unsafe { libc::pwrite64(fd.as_fd().as_raw_fd(), data.as_ptr().cast(), data.len(), offset) }
    })
}

pub(super) fn again(mut call: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        match checked_len(call()) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            other => return other,
        }
    }
}

/// Data and the size needed to read it back.
pub(crate) fn fdatasync(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: a plain call on a borrowed open descriptor.
    checked(unsafe { libc::fdatasync(fd.as_fd().as_raw_fd()) })?;
    Ok(())
}

/// Data and all attributes; of a directory, its entries.
pub(crate) fn fsync(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: a plain call on a borrowed open descriptor.
    checked(unsafe { libc::fsync(fd.as_fd().as_raw_fd()) })?;
    Ok(())
}

/// Everything of the file system `fd` is on.
pub(crate) fn sync_file_system(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: a plain call on a borrowed open descriptor.
    checked(unsafe { libc::syncfs(fd.as_fd().as_raw_fd()) })?;
    Ok(())
}

/// Gives an empty file the content of another by sharing its blocks; false where the host cannot.
pub(crate) fn clone_content(from: impl AsFd, to: impl AsFd) -> bool {
    // SAFETY: FICLONE takes a descriptor number; both are borrowed open.
    unsafe { libc::ioctl(to.as_fd().as_raw_fd(), libc::FICLONE, from.as_fd().as_raw_fd()) == 0 }
}

/// The next stretch of a file, from `offset`, that is no hole; none behind the last. Moves the descriptor's own offset.
pub(crate) fn next_data(fd: impl AsFd, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |from: u64, whence| {
        let from = i64::try_from(from).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        // SAFETY: a plain call on a borrowed open descriptor.
        let at = unsafe { libc::lseek64(fd.as_fd().as_raw_fd(), from, whence) };
        u64::try_from(at).map_err(|_| io::Error::last_os_error())
    };
    match seek(offset, libc::SEEK_DATA) {
        Ok(begin) => Ok(Some((begin, seek(begin, libc::SEEK_HOLE)?))),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Room in the file system `fd` is on.
pub(crate) fn fs_stat(fd: impl AsFd) -> io::Result<libc::statvfs64> {
    let mut out = MaybeUninit::<libc::statvfs64>::zeroed();
    // SAFETY: `out` is writable and large enough for the answer.
    checked(unsafe { libc::fstatvfs64(fd.as_fd().as_raw_fd(), out.as_mut_ptr()) })?;
    // SAFETY: all-zero bytes are valid, and the kernel filled it.
    Ok(unsafe { out.assume_init() })
}

/// Takes the exclusive lock on a file without waiting; false when another process has it.
pub(crate) fn lock_exclusively(fd: impl AsFd) -> io::Result<bool> {
    // SAFETY: a plain call on a borrowed open descriptor.
    match checked(unsafe { libc::flock(fd.as_fd().as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EWOULDBLOCK) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Soft RLIMIT_NOFILE.
pub(crate) fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit64 { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: `limit` is writable; on failure it keeps the traditional value.
    unsafe { libc::getrlimit64(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// The user this process acts as.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}
