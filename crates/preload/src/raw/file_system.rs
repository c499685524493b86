//! On what kind of file system a file lies.

use super::call4;
use crate::outcome::Errno;
use libc::c_int;

/// `f_type` of fstatfs(2).
pub(crate) fn file_system_type(fd: c_int) -> Result<i64, Errno> {
    let mut about = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `about` is ours to be written.
    unsafe { call4(libc::SYS_fstatfs, fd as usize, about.as_mut_ptr() as usize, 0, 0) }?;
    // SAFETY: the kernel filled it, and zeroes are a valid value of it anyhow.
    Ok(unsafe { about.assume_init() }.f_type)
}
