//! Advice of a program about its future reads and writes. It does not change their results.

use crate::hook::hooks;
use crate::outcome::Out;
use crate::read_ahead;
use crate::table::{self, Found};
use libc::{c_int, c_uint, off_t, size_t, ssize_t};

/// sync_file_range(2). Servers do not limit a COMMIT to a range, so this starts or awaits a COMMIT
/// of the whole file.
fn sync_range(fd: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> Result<c_int, Out> {
    const KNOWN: c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let found = table::find(fd)?;
    if matches!(found, Found::Elsewhere) {
        return Err(Out::Pass);
    }
    if flags & !KNOWN != 0 || offset < 0 || offset.checked_add(bytes).is_none_or(|end| end < offset) {
        return Err(Out::Errno(libc::EINVAL));
    }
    let Found::File(file) = found else { return Ok(0) }; // the server makes names durable before it replies
    let has = |flag| flags & flag != 0;
    if has(libc::SYNC_FILE_RANGE_WRITE) && has(libc::SYNC_FILE_RANGE_WAIT_AFTER) {
        file.mount.sync_untold(file.file, file.cursor)?;
        return Ok(0);
    }
    if has(libc::SYNC_FILE_RANGE_WAIT_BEFORE) || has(libc::SYNC_FILE_RANGE_WAIT_AFTER) {
        file.mount.wait_for_started_sync(file.file, file.cursor)?;
    }
    if has(libc::SYNC_FILE_RANGE_WRITE) {
        file.mount.start_sync(file.file);
    }
    Ok(0)
}

/// posix_fadvise(3). Returns an errno.
fn advise(fd: c_int, offset: off_t, bytes: off_t, advice: c_int) -> Result<c_int, Out> {
    let found = table::find(fd)?;
    if matches!(found, Found::Elsewhere) {
        return Err(Out::Pass);
    }
    let is_known = (libc::POSIX_FADV_NORMAL..=libc::POSIX_FADV_NOREUSE).contains(&advice);
    if bytes < 0 || !is_known {
        return Ok(libc::EINVAL);
    }
    if let (Found::File(file), Ok(offset)) = (&found, u64::try_from(offset)) {
        read_ahead::advised(file, offset, bytes as u64, advice);
    }
    Ok(0)
}

fn read_ahead_of(fd: c_int, offset: off_t, bytes: size_t) -> Result<ssize_t, Out> {
    let file = match table::find(fd)? {
        Found::Elsewhere => return Err(Out::Pass),
        Found::Directory(..) => return Err(Out::Errno(libc::EINVAL)),
        Found::File(file) => file,
    };
    if file.flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Out::Errno(libc::EBADF));
    }
    if isize::try_from(bytes).is_err() {
        return Err(Out::Errno(libc::EINVAL));
    }
    if let Ok(offset) = u64::try_from(offset)
        && bytes > 0
    {
        read_ahead::advised(&file, offset, bytes as u64, libc::POSIX_FADV_WILLNEED);
    }
    Ok(0)
}

hooks! {
    /// sync_file_range(2): a hint without a guarantee. With SYNC_FILE_RANGE_WRITE alone the keeper
    /// sends a COMMIT.
    fn sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> c_int = SYS_sync_file_range { sync_range(fd, offset, bytes, flags) }
    /// posix_fadvise(2): returns an errno.
    fn posix_fadvise(fd: c_int, offset: off_t, bytes: off_t, advice_given: c_int) -> c_int = SYS_fadvise64 { advise(fd, offset, bytes, advice_given) }
    /// posix_fadvise(2).
    fn posix_fadvise64(fd: c_int, offset: off_t, bytes: off_t, advice_given: c_int) -> c_int {
        advise(fd, offset, bytes, advice_given)
    }
    /// readahead(2).
    fn readahead(fd: c_int, offset: off_t, count: size_t) -> ssize_t = SYS_readahead { read_ahead_of(fd, offset, count) }
}
