//! Small files of the user's, read whole.

use std::io;

use super::local_file::{self, CPath, Errno};

/// Reads a file of at most `bytes_max` bytes, and its mode (`st_mode`); symbolic links are followed.
///
/// # Errors
/// The kernel's; `EFBIG` when there is more.
pub(crate) fn read(path: &str, bytes_max: usize) -> io::Result<(Vec<u8>, u32)> {
    read_whole(path, bytes_max).map_err(|errno| io::Error::from_raw_os_error(errno.0))
}

fn read_whole(path: &str, bytes_max: usize) -> Result<(Vec<u8>, u32), Errno> {
    if path.contains('\0') {
        return Err(Errno(libc::EINVAL));
    }
    let fd = local_file::open_followed(&CPath::new(path.as_bytes()), libc::O_RDONLY, 0)?;
    let mode = local_file::stat(&fd)?.mode;
    let mut bytes = vec![0; bytes_max + 1];
    let mut end = 0;
    loop {
        let free = bytes.get_mut(end..).unwrap_or_default();
        if free.is_empty() {
            return Err(Errno(libc::EFBIG));
        }
        match local_file::read(&fd, free)? {
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
