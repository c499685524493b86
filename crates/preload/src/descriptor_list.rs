//! Lists the open descriptors of this process, from /proc/self/fd. Allocates nothing, because it is
//! used between fork and exec.

use crate::outcome::Errno;
use crate::raw;
use libc::c_int;

/// Bytes of entries read at once.
const ENTRIES_BYTES: usize = 2048;
/// Bytes of `struct linux_dirent64` before the name, and the offset in them of the entry's length.
const HEAD_BYTES: usize = 19;
const LENGTH_AT: usize = 16;

/// Calls `visit` with each descriptor.
///
/// # Errors
/// The errors of opening or reading /proc/self/fd.
pub(crate) fn each_descriptor(mut visit: impl FnMut(c_int)) -> Result<(), Errno> {
    let list = raw::open(c"/proc/self/fd", libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, 0)?;
    let listed = loop {
        let mut buffer = [0; ENTRIES_BYTES];
        match raw::list(list, &mut buffer) {
            Err(errno) => break Err(errno),
            Ok(0) => break Ok(()),
            Ok(bytes) => names(&buffer[..bytes], |name| {
                let number = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
                if let Some(fd) = number.filter(|fd| *fd != list) {
                    visit(fd);
                }
            }),
        }
    };
    let _ = raw::close(list);
    listed
}

fn names(mut entries: &[u8], mut each: impl FnMut(&[u8])) {
    while let Some(length) = entries.get(LENGTH_AT..LENGTH_AT + 2) {
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let Some(name) = entries.get(HEAD_BYTES..length) else { return };
        each(name.split(|byte| *byte == 0).next().unwrap_or_default());
        entries = entries.get(length..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_listed_while_it_is_open() {
        let list = || {
            let mut found = Vec::new();
            each_descriptor(|fd| found.push(fd)).unwrap();
            found
        };
        let fd = raw::open(c"/", libc::O_PATH | libc::O_CLOEXEC, 0).unwrap();
        let far = raw::duplicate_from(fd, 700).unwrap();
        assert!(list().contains(&fd) && list().contains(&far));
        raw::close(far).unwrap();
        assert!(!list().contains(&far));
        raw::close(fd).unwrap();
    }
}
