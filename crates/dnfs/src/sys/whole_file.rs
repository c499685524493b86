//! Reads small files completely.

use std::io;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::fd::Fd;

/// Reads a file of at most `bytes_max` bytes, and its mode (`st_mode`); symbolic links are followed.
///
/// # Errors
/// The kernel's error; `EFBIG` if the file is longer.
pub(crate) fn read(path: &str, bytes_max: usize) -> io::Result<(Vec<u8>, u32)> {
    let fd = Fd::from(retry_on_intr(|| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))?);
    let mode = rustix::fs::fstat(&fd)?.st_mode;
    let mut bytes = vec![0; bytes_max + 1];
    let mut end = 0;
    loop {
        let free = bytes.get_mut(end..).unwrap_or_default();
        if free.is_empty() {
            return Err(Errno::FBIG.into());
        }
        match retry_on_intr(|| rustix::io::read(&fd, &mut *free))? {
            0 => break,
            count => end += count,
        }
    }
    bytes.truncate(end);
    Ok((bytes, mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_with_its_mode_or_refused_by_its_size() {
        let (whole, mode) = read("/proc/self/cmdline", 1 << 16).unwrap();
        assert_eq!(whole, std::fs::read("/proc/self/cmdline").unwrap());
        assert_eq!(mode, libc::S_IFREG | 0o444);
        assert_eq!(read("/proc/self/cmdline", whole.len() - 1).unwrap_err().raw_os_error(), Some(libc::EFBIG));
        assert_eq!(read("/no/such/file", 10).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(read("/proc", 10).unwrap_err().raw_os_error(), Some(libc::EISDIR));
    }
}
