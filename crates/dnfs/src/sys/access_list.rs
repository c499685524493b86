//! Default access lists of directories: objects that are created in them get this list, independent of the creator's umask.

use core::ffi::CStr;
use rustix::fs::XattrFlags;

use super::fd::Fd;
use super::local_file::Errno;

const ATTRIBUTE: &CStr = c"system.posix_acl_default";
const VERSION: u32 = 2;
/// The kind of each entry: owner, owning group, others.
const KINDS: [u16; 3] = [0x01, 0x04, 0x20];
/// Each entry has this instead of a uid or gid.
const NOBODY: u32 = u32::MAX;

/// Whether the directory has a default list.
///
/// # Errors
/// The kernel's error; ENOTSUP if the file system has no such lists.
pub(crate) fn has_default(directory: &Fd) -> Result<bool, Errno> {
    match rustix::fs::fgetxattr(directory, ATTRIBUTE, &mut [0u8; 0]) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::NODATA) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives the directory the default list that is equivalent to the permission bits of `mode`.
///
/// # Errors
/// As [`has_default`].
pub(crate) fn set_default(directory: &Fd, mode: u32) -> Result<(), Errno> {
    Ok(rustix::fs::fsetxattr(directory, ATTRIBUTE, &encode(mode), XattrFlags::empty())?)
}

fn encode(mode: u32) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (kind, shift) in KINDS.into_iter().zip([6, 3, 0]) {
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&((mode >> shift & 7) as u16).to_le_bytes());
        bytes.extend_from_slice(&NOBODY.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_what_setfacl_writes() {
        // setfacl -d -m u::rwx,g::rwx,o::- on a directory.
        let golden: [u8; 28] =
            [2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 4, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255];
        assert_eq!(encode(0o770), golden);
    }
}
