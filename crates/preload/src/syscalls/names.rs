//! Calls that name files, with the numbers that all processors have.

use super::{Answer, Arguments, given};
use crate::outcome::Out;
use crate::{attributes, change, descriptors, ffi, names, open, queues};
use libc::{c_char, c_int, c_long, c_uint};
use std::ffi::CStr;

/// # Safety
/// As [`super::dispatch`].
pub(super) unsafe fn by_number(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, d, e, _] = arguments;
    let directory = a as c_int;
    // SAFETY: the arguments are as the system call of this number requires, by the caller's promise.
    unsafe {
        match number {
            libc::SYS_openat => given(open::openat::by_number(directory, b as _, c as c_int, d as _)),
            libc::SYS_openat2 => Some(open_how(directory, b as _, c as _, d)),
            libc::SYS_name_to_handle_at => {
                given(open::name_to_handle_at::by_number(directory, b as _, c as _, d as _, e as c_uint))
            }
            libc::SYS_statx => given(attributes::statx::by_number(directory, b as _, c as c_int, d as c_uint, e as _)),
            libc::SYS_newfstatat => given(attributes::fstatat::by_number(directory, b as _, c as _, d as c_int)),
            libc::SYS_statfs => given(attributes::statfs::by_number(a as _, b as _)),
            libc::SYS_faccessat => given(attributes::faccessat::by_number(directory, b as _, c as c_int, 0)),
            libc::SYS_faccessat2 => given(attributes::faccessat::by_number(directory, b as _, c as c_int, d as c_int)),
            libc::SYS_fchmodat => given(change::fchmodat::by_number(directory, b as _, c as _, 0)),
            libc::SYS_fchmodat2 => given(change::fchmodat::by_number(directory, b as _, c as _, d as c_int)),
            libc::SYS_fchownat => given(change::fchownat::by_number(directory, b as _, c as _, d as _, e as c_int)),
            libc::SYS_utimensat => given(change::utimensat::by_number(directory, b as _, c as _, d as c_int)),
            libc::SYS_truncate => given(change::truncate::by_number(a as _, b as i64)),
            libc::SYS_mkdirat => given(names::mkdirat::by_number(directory, b as _, c as _)),
            libc::SYS_mknodat => given(names::mknodat::by_number(directory, b as _, c as _, d as _)),
            libc::SYS_unlinkat => given(names::unlinkat::by_number(directory, b as _, c as c_int)),
            libc::SYS_renameat => given(names::renameat::by_number(directory, b as _, c as c_int, d as _)),
            libc::SYS_renameat2 => given(names::renameat2::by_number(directory, b as _, c as c_int, d as _, e as c_uint)),
            libc::SYS_linkat => given(names::linkat::by_number(directory, b as _, c as c_int, d as _, e as c_int)),
            libc::SYS_symlinkat => given(names::symlinkat::by_number(a as _, b as c_int, c as _)),
            libc::SYS_readlinkat => given(names::readlinkat::by_number(directory, b as _, c as _, d)),
            libc::SYS_chdir => given(names::chdir::by_number(a as _)),
            libc::SYS_flock => given(descriptors::flock::by_number(directory, b as c_int)),
            libc::SYS_fchdir => given(names::fchdir::by_number(directory)),
            libc::SYS_chroot => given(names::chroot::by_number(a as _)),
            libc::SYS_getcwd => Some(working_directory(a as _, b)),
            libc::SYS_inotify_add_watch => given(queues::inotify_add_watch::by_number(a as c_int, b as _, c as _)),
            libc::SYS_fanotify_mark => given(queues::fanotify_mark::by_number(a as c_int, b as _, c as _, d as c_int, e as _)),
            libc::SYS_umask => given(crate::umask::umask::by_number(a as _)),
            _ => of_attributes(number, arguments),
        }
    }
}

/// Extended attributes.
///
/// # Safety
/// As [`super::dispatch`].
unsafe fn of_attributes(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, d, e, _] = arguments;
    // SAFETY: the arguments are as the system call of this number requires, by the caller's promise.
    unsafe {
        match number {
            libc::SYS_getxattr => given(attributes::getxattr::by_number(a as _, b as _, c as _, d)),
            libc::SYS_lgetxattr => given(attributes::lgetxattr::by_number(a as _, b as _, c as _, d)),
            libc::SYS_listxattr => given(attributes::listxattr::by_number(a as _, b as _, c)),
            libc::SYS_llistxattr => given(attributes::llistxattr::by_number(a as _, b as _, c)),
            libc::SYS_setxattr => given(attributes::setxattr::by_number(a as _, b as _, c as _, d, e as c_int)),
            libc::SYS_lsetxattr => given(attributes::lsetxattr::by_number(a as _, b as _, c as _, d, e as c_int)),
            libc::SYS_removexattr => given(attributes::removexattr::by_number(a as _, b as _)),
            libc::SYS_lremovexattr => given(attributes::lremovexattr::by_number(a as _, b as _)),
            _ => None,
        }
    }
}

/// getcwd(2), which returns the number of bytes. libc's function returns the buffer.
///
/// # Safety
/// `into` is NULL or `room` writable bytes.
unsafe fn working_directory(into: *mut c_char, room: usize) -> Result<c_long, Out> {
    if into.is_null() || room == 0 {
        return Err(Out::Errno(if room == 0 { libc::ERANGE } else { libc::EFAULT }));
    }
    // SAFETY: `into` is `room` writable bytes by the caller's promise. A successful getcwd has
    // written a NUL-terminated path there.
    unsafe {
        names::getcwd::by_number(into, room)?;
        Ok(CStr::from_ptr(into).to_bytes_with_nul().len() as c_long)
    }
}

/// openat2(2). On a mount, its flags and mode are those of openat. A restricted lookup (`resolve`)
/// fails with ENOSYS, as in a kernel before 5.6, so that programs use openat instead.
///
/// # Safety
/// `path` is NULL or a C string; `how` is NULL or readable for `bytes` bytes.
unsafe fn open_how(directory: c_int, path: *const c_char, how: *const libc::open_how, bytes: usize) -> Result<c_long, Out> {
    let local = |directory: c_int, path: *const c_char| {
        // SAFETY: `path` and `how` are so by the caller's promise.
        unsafe { super::syscall::real(libc::SYS_openat2, directory as usize, path as usize, how as usize, bytes, 0, 0) as c_int }
    };
    // SAFETY: `path` and `how` are so by the caller's promise.
    unsafe {
        let Some(asked) = (bytes == size_of::<libc::open_how>()).then(|| ffi::take(how)).flatten() else { return Err(Out::Pass) };
        if asked.resolve != 0 {
            let follow = asked.flags & libc::O_NOFOLLOW as u64 == 0;
            let opened = crate::paths::at(directory, path, follow, |_, _, _| Err(Out::Errno(libc::ENOSYS)), local);
            return opened.map(c_long::from);
        }
        let Ok(flags) = c_int::try_from(asked.flags) else { return Err(Out::Pass) }; // unknown flags: the kernel answers EINVAL
        let creates = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
        if asked.mode != 0 && !creates || asked.mode > 0o7777 {
            return Err(Out::Errno(libc::EINVAL));
        }
        open::open_at(directory, path, flags, asked.mode as _, local).map(c_long::from)
    }
}
