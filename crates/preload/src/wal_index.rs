//! SQLite's WAL index is in the runtime directory (dnfs's `wal_index`). A program that opens it
//! there claims it for all programs that use this library.

use crate::ffi;
use crate::messages::warn;
use crate::mounts::is_below_root;
use crate::outcome::set_errno;
use crate::raw;
use dnfs::mount::{WalIndexSide, claim_wal_index, is_wal_index_path};
use libc::{c_char, c_int};
use std::os::fd::BorrowedFd;

/// The result of an open on this host of `named`, which led to `at`: the same descriptor, or −1
/// with EBUSY if a FUSE mount has the index.
///
/// # Safety
/// `named` and `at` are NULL or C strings.
pub(crate) unsafe fn claimed(fd: c_int, named: *const c_char, at: *const c_char) -> c_int {
    if fd < 0 || named == at {
        return fd;
    }
    // SAFETY: `named` and `at` are NULL or C strings by the caller's promise.
    let (Ok(named), Ok(path)) = (unsafe { ffi::path(named) }, unsafe { ffi::path(at) }) else { return fd };
    if !(is_below_root(path) && is_wal_index_path(path)) {
        return fd;
    }
    // SAFETY: the descriptor is open, because it was just opened and the program does not have it yet.
    match claim_wal_index(unsafe { BorrowedFd::borrow_raw(fd) }, WalIndexSide::Library) {
        Ok(()) => fd,
        Err(in_use) => {
            warn(format_args!("cannot open {}: {in_use}", String::from_utf8_lossy(named)));
            let _ = raw::close(fd);
            set_errno(libc::EBUSY);
            -1
        }
    }
}
