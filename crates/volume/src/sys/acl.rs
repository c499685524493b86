//! The extended attributes that hold POSIX ACLs.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

use super::at::proc_path;

const ACCESS: &CStr = c"system.posix_acl_access";
const DEFAULT: &CStr = c"system.posix_acl_default";
/// Buffer sizes: for an ACL of 500 entries, then for the longest extended attribute (XATTR_SIZE_MAX).
const VALUE_BYTES: [usize; 2] = [4 << 10, 64 << 10];

/// The access ACL of an open object. `None` if it has only a mode.
pub(crate) fn acl_of(fd: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    read(|value| rustix::fs::fgetxattr(&fd, ACCESS, value))
}

/// The access ACL of an object that is open with O_PATH.
pub(crate) fn acl_of_path(fd: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    let path = proc_path(fd);
    read(|value| rustix::fs::getxattr(&path, ACCESS, value))
}

/// The default ACL of an open directory.
pub(crate) fn default_acl_of(fd: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    read(|value| rustix::fs::fgetxattr(&fd, DEFAULT, value))
}

fn read(mut get: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> io::Result<Option<Vec<u8>>> {
    for bytes in VALUE_BYTES {
        let mut value = vec![0; bytes];
        match get(&mut value) {
            Ok(count) => {
                value.truncate(count);
                return Ok(Some(value));
            }
            Err(Errno::NODATA) => return Ok(None),
            Err(Errno::RANGE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::RANGE.into())
}
