//! syscall(2): the numbers programs use directly when their libc had no name for them go where the name would.

use crate::hook::hooks;
use crate::outcome::{Out, kept};
use crate::{
    allocation, attributes, close, copy, data, descriptors, durable, entries, exec, kernel_aio, names, open, shared_maps,
};
use libc::{c_int, c_long, c_uint};

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn dispatch(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> Result<c_long, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        let int = |value: c_int| kept(value).map(c_long::from);
        let fd = a as c_int;
        match number {
            libc::SYS_openat => int(open::openat::hook(fd, b as _, c as c_int, d as _)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => int(open::open::hook(a as _, b as c_int, c as _)),
            libc::SYS_close => int(close::close::hook(fd)),
            libc::SYS_close_range => int(close::close_range::hook(a as c_uint, b as c_uint, c as c_int)),
            libc::SYS_read => kept(data::read::hook(fd, b as _, c)).map(|got| got as c_long),
            libc::SYS_write => kept(data::write::hook(fd, b as _, c)).map(|got| got as c_long),
            libc::SYS_pread64 => kept(data::pread::hook(fd, b as _, c, d as i64)).map(|got| got as c_long),
            libc::SYS_pwrite64 => kept(data::pwrite::hook(fd, b as _, c, d as i64)).map(|got| got as c_long),
            libc::SYS_lseek => kept(data::lseek::hook(fd, b as i64, c as c_int)),
            libc::SYS_fcntl => int(descriptors::fcntl::hook(fd, b as c_int, c)),
            libc::SYS_fsync => int(durable::fsync::hook(fd)),
            libc::SYS_fdatasync => int(durable::fdatasync::hook(fd)),
            libc::SYS_syncfs => int(durable::syncfs::hook(fd)),
            libc::SYS_fallocate => int(allocation::fallocate::hook(fd, b as c_int, c as i64, d as i64)),
            libc::SYS_statx => int(attributes::statx::hook(fd, b as _, c as c_int, d as c_uint, e as _)),
            libc::SYS_newfstatat => int(attributes::fstatat::hook(fd, b as _, c as _, d as c_int)),
            libc::SYS_fstat => int(attributes::fstat::hook(fd, b as _)),
            libc::SYS_renameat2 => int(names::renameat2::hook(fd, b as _, c as c_int, d as _, e as c_uint)),
            libc::SYS_copy_file_range => {
                kept(copy::copy_file_range::hook(fd, b as _, c as c_int, d as _, e, f as c_uint)).map(|got| got as c_long)
            }
            libc::SYS_splice => kept(copy::splice::hook(fd, b as _, c as c_int, d as _, e, f as c_uint)).map(|got| got as c_long),
            libc::SYS_getdents64 => kept(entries::getdents64::hook(fd, b as _, c)).map(|got| got as c_long),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_getdents => Ok(entries::list(fd, crate::ffi::bytes_mut(b as _, c), entries::Layout::TypeLast)? as c_long),
            libc::SYS_io_setup
            | libc::SYS_io_destroy
            | libc::SYS_io_submit
            | libc::SYS_io_cancel
            | libc::SYS_io_getevents
            | kernel_aio::SYS_IO_PGETEVENTS => kernel_aio::by_number(number, a, b, c, d, e, f),
            libc::SYS_io_uring_setup => Err(crate::queues::refused_ring().map_or(Out::Pass, Out::Errno)),
            libc::SYS_execve => int(exec::execve::hook(a as _, b as _, c as _)),
            libc::SYS_execveat => int(exec::execveat::hook(a as c_int, b as _, c as _, d as _, e as c_int)),
            libc::SYS_exit_group => {
                kernel_aio::drain();
                shared_maps::write_all();
                close::send_gathered();
                Err(Out::Pass)
            }
            _ => crate::processes::by_number(number, a, b, c, d, e),
        }
    }
}

hooks! {
    /// syscall(2).
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
        if !crate::mounts::any() && !crate::medium::any() { return Err(Out::Pass) }
        dispatch(number, a, b, c, d, e, f)
    }
}
