//! The users and groups of this process.

use super::call_with_numbers;

/// The effective user.
pub(crate) fn geteuid() -> u32 {
    call_with_numbers(libc::SYS_geteuid, 0, 0, 0).unwrap_or(0) as u32
}

/// The real user.
pub(crate) fn getuid() -> u32 {
    call_with_numbers(libc::SYS_getuid, 0, 0, 0).unwrap_or(0) as u32
}

/// The effective group.
pub(crate) fn getegid() -> u32 {
    call_with_numbers(libc::SYS_getegid, 0, 0, 0).unwrap_or(0) as u32
}

/// The real group.
pub(crate) fn getgid() -> u32 {
    call_with_numbers(libc::SYS_getgid, 0, 0, 0).unwrap_or(0) as u32
}
