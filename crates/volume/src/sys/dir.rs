//! Directory listings: getdents64 with the host's own cookies.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::limits::LISTING_BYTES;

/// One entry as the kernel returned it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawEntry<'a> {
    pub(crate) ino: u64,
    /// The cookie from which a listing continues after this entry.
    pub(crate) next: i64,
    /// DT_* number. DT_UNKNOWN if the file system does not report it.
    pub(crate) kind: u8,
    pub(crate) name: &'a [u8],
}

/// A listing on its own descriptor, because its position belongs to the open file description.
pub(crate) struct Listing {
    fd: OwnedFd,
    buf: Vec<u8>,
    filled: usize,
    at: usize,
}

/// Bytes of linux_dirent64 before the name: inode number, offset, record length, type.
const HEAD: usize = 8 + 8 + 2 + 1;

impl Listing {
    /// Lists from `cookie`: 0 for the start, or the `next` of an entry.
    pub(crate) fn new(fd: OwnedFd, cookie: i64) -> io::Result<Self> {
        if cookie != 0 {
            // A cookie can be any 64 bits that the file system chooses.
            rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(cookie.cast_unsigned()))?;
        }
        Ok(Self { fd, buf: vec![0; LISTING_BYTES], filled: 0, at: 0 })
    }

    /// The next entry, also "." and "..". `None` at the end.
    pub(crate) fn next_entry(&mut self) -> io::Result<Option<RawEntry<'_>>> {
        if self.at >= self.filled {
            // SAFETY: the buffer is writable for its length, and `self` owns the descriptor.
            let got = unsafe { libc::syscall(libc::SYS_getdents64, self.fd.as_raw_fd(), self.buf.as_mut_ptr(), self.buf.len()) };
            self.filled = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
            self.at = 0;
            if self.filled == 0 {
                return Ok(None);
            }
        }
        let broken = || io::Error::from_raw_os_error(libc::EIO);
        let rest = self.buf.get(self.at..self.filled).ok_or_else(broken)?;
        let head = rest.get(..HEAD).ok_or_else(broken)?;
        let word = |at: usize| -> [u8; 8] {
            let mut word = [0; 8];
            word.copy_from_slice(&head[at..at + 8]);
            word
        };
        let len = usize::from(u16::from_ne_bytes([head[16], head[17]]));
        let name = rest.get(HEAD..len).ok_or_else(broken)?;
        let end = name.iter().position(|&byte| byte == 0).ok_or_else(broken)?;
        self.at += len;
        Ok(Some(RawEntry {
            ino: u64::from_ne_bytes(word(0)),
            next: i64::from_ne_bytes(word(8)),
            kind: head[18],
            name: &name[..end],
        }))
    }
}
