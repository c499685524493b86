//! Small files of the user's, read whole.

use std::ffi::CString;
use std::io;

use super::raw::call;
use super::shm::{Errno, check};

/// Reads a file of at most `bytes_max` bytes; symbolic links are followed.
///
/// # Errors
/// The kernel's; `EFBIG` when there is more.
pub(crate) fn read(path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
    let path = CString::new(path)?;
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, 0, 0, 0];
    // SAFETY: a CString ends with NUL and outlives the call.
    let fd = through_signals(|| check(unsafe { call(libc::SYS_openat, arguments) })).map_err(to_io)?;
    let mut bytes = vec![0; bytes_max + 1];
    let mut end = 0;
    let outcome = loop {
        let room = bytes.get_mut(end..).unwrap_or_default();
        if room.is_empty() {
            break Err(Errno(libc::EFBIG));
        }
        let arguments = [fd, room.as_mut_ptr() as usize, room.len(), 0, 0, 0];
        // SAFETY: the buffer outlives the call, its size is told.
        match through_signals(|| check(unsafe { call(libc::SYS_read, arguments) })) {
            Ok(0) => break Ok(()),
            Ok(count) => end += count,
            Err(errno) => break Err(errno),
        }
    };
    // SAFETY: closes the descriptor opened above.
    unsafe { call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) };
    outcome.map_err(to_io)?;
    bytes.truncate(end);
    Ok(bytes)
}

fn through_signals(mut attempt: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match attempt() {
            Err(Errno(libc::EINTR)) => {}
            other => return other,
        }
    }
}

fn to_io(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_refused_by_its_size() {
        let whole = read("/proc/self/cmdline", 1 << 16).unwrap();
        assert_eq!(whole, std::fs::read("/proc/self/cmdline").unwrap());
        assert_eq!(read("/proc/self/cmdline", whole.len() - 1).unwrap_err().raw_os_error(), Some(libc::EFBIG));
        assert_eq!(read("/no/such/file", 10).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(read("/proc", 10).unwrap_err().raw_os_error(), Some(libc::EISDIR));
    }
}
