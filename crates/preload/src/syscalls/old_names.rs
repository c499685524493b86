//! Calls that only older processor types have: those that name files without a directory descriptor.

use super::{Answer, Arguments, given};
use crate::{attributes, change, descriptors, entries, names, open};
use libc::{c_int, c_long};

/// # Safety
/// As [`super::dispatch`].
pub(super) unsafe fn by_number(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, ..] = arguments;
    // SAFETY: the arguments are as the system call of this number requires, by the caller's promise.
    unsafe {
        match number {
            libc::SYS_open => given(open::open::by_number(a as _, b as c_int, c as _)),
            libc::SYS_creat => given(open::creat::by_number(a as _, b as _)),
            libc::SYS_stat => given(attributes::stat::by_number(a as _, b as _)),
            libc::SYS_lstat => given(attributes::lstat::by_number(a as _, b as _)),
            libc::SYS_access => given(attributes::access::by_number(a as _, b as c_int)),
            libc::SYS_chmod => given(change::chmod::by_number(a as _, b as _)),
            libc::SYS_chown => given(change::chown::by_number(a as _, b as _, c as _)),
            libc::SYS_lchown => given(change::lchown::by_number(a as _, b as _, c as _)),
            libc::SYS_utime => given(change::utime::by_number(a as _, b as _)),
            libc::SYS_utimes => given(change::utimes::by_number(a as _, b as _)),
            libc::SYS_futimesat => given(change::futimesat::by_number(a as c_int, b as _, c as _)),
            libc::SYS_mkdir => given(names::mkdir::by_number(a as _, b as _)),
            libc::SYS_rmdir => given(names::rmdir::by_number(a as _)),
            libc::SYS_unlink => given(names::unlink::by_number(a as _)),
            libc::SYS_rename => given(names::rename::by_number(a as _, b as _)),
            libc::SYS_link => given(names::link::by_number(a as _, b as _)),
            libc::SYS_symlink => given(names::symlink::by_number(a as _, b as _)),
            libc::SYS_readlink => given(names::readlink::by_number(a as _, b as _, c)),
            libc::SYS_mknod => given(names::mknod::by_number(a as _, b as _, c as _)),
            libc::SYS_dup2 => given(descriptors::dup2::by_number(a as c_int, b as c_int)),
            libc::SYS_getdents => {
                let listed = entries::list(a as c_int, crate::ffi::bytes_mut(b as _, c), entries::Layout::TypeLast);
                Some(listed.map(|bytes| bytes as c_long))
            }
            _ => None,
        }
    }
}
