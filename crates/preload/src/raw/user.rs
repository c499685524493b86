//! Who this process is.

use super::{call_with_numbers, call4};

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

/// The supplementary groups; at most as many as fit.
pub(crate) fn getgroups(groups: &mut [u32]) -> &[u32] {
    // SAFETY: room for so many groups.
    let got = unsafe { call4(libc::SYS_getgroups, groups.len(), groups.as_mut_ptr() as usize, 0, 0) }.unwrap_or(0);
    &groups[..got.min(groups.len())]
}
