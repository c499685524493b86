//! Wrappers of system calls.
//!
//! rustix makes them, with four exceptions, which are the only unsafe code of this crate. rustix has no kernel file handles, file system
//! ids of a thread, and ioctls of file systems. Its listing iterator borrows a buffer, but this crate keeps the buffer in the iterator.
//!
//! Only [`open_path`], for directories that the operator named, follows symbolic links and takes a path of several
//! components.

mod acl;
mod at;
mod btrfs;
mod credentials;
mod dir;
mod file_system_id;
mod handle;
mod io;
mod uncached;
mod zero;

pub(crate) use acl::{acl_of, acl_of_path, default_acl_of};
pub(crate) use at::{
    chown, link_at, link_descriptor, mkdir_at, mknod_at, open_at, open_path, proc_chmod, read_link, rename_at, set_mode,
    set_times, symlink_at, truncate, unlink_at,
};
pub(crate) use btrfs::{commit_transaction, subvolumes_below};
pub(crate) use credentials::{as_owner, keeping_set_id, may_act_for_others};
pub(crate) use dir::{Listing, RawEntry};
pub(crate) use file_system_id::file_system_id;
pub(crate) use handle::{KernelHandle, handle_of, handle_of_name, open_handle};
pub(crate) use io::{
    BTRFS, EXT4, RawStat, RawTime, XFS, clone_content, descriptor_limit, effective_gid, effective_uid, fdatasync,
    file_system_kind, fs_stat, fsync, holds_offset, lock_exclusively, lock_shared, next_data, pread, pwrite, stat, stat_name,
    stat_untimed, sync_file_system, unlock,
};
pub(crate) use uncached::{pread_with, pwrite_with, read_nothing_ahead, reopen, reopen_direct};
pub(crate) use zero::{ZeroRange, zero_range};

use std::ffi::CString;
use std::io as std_io;

/// Converts the result -1 of a system call to its error.
pub(crate) fn checked(result: libc::c_int) -> std_io::Result<libc::c_int> {
    if result < 0 { Err(std_io::Error::last_os_error()) } else { Ok(result) }
}

/// A name as a C string. EINVAL if it contains a NUL.
pub(crate) fn c_name(name: &[u8]) -> std_io::Result<CString> {
    CString::new(name).map_err(|_| std_io::Error::from_raw_os_error(libc::EINVAL))
}
