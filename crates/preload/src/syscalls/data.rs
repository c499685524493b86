//! Calls on descriptors and on memory.

use super::{Answer, Arguments, given};
use crate::outcome::Out;
use crate::{
    advice, allocation, attributes, change, close, copy, data, descriptors, durable, entries, kernel_aio, memory, shared_maps,
};
use libc::{c_int, c_long, c_uint};

/// # Safety
/// As `dispatch`.
pub(super) unsafe fn by_number(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        match number {
            libc::SYS_read => given(data::read::hook(fd, b as _, c)),
            libc::SYS_write => given(data::write::hook(fd, b as _, c)),
            libc::SYS_pread64 => given(data::pread::hook(fd, b as _, c, d as i64)),
            libc::SYS_pwrite64 => given(data::pwrite::hook(fd, b as _, c, d as i64)),
            libc::SYS_readv => given(data::readv::hook(fd, b as _, c as c_int)),
            libc::SYS_writev => given(data::writev::hook(fd, b as _, c as c_int)),
            // An offset is one argument of 64 bits, and the argument after it is not looked at.
            libc::SYS_preadv => given(data::preadv::hook(fd, b as _, c as c_int, d as i64)),
            libc::SYS_pwritev => given(data::pwritev::hook(fd, b as _, c as c_int, d as i64)),
            libc::SYS_preadv2 => given(data::preadv2::hook(fd, b as _, c as c_int, d as i64, f as c_int)),
            libc::SYS_pwritev2 => given(data::pwritev2::hook(fd, b as _, c as c_int, d as i64, f as c_int)),
            libc::SYS_lseek => given(data::lseek::hook(fd, b as i64, c as c_int)),
            libc::SYS_copy_file_range => given(copy::copy_file_range::hook(fd, b as _, c as c_int, d as _, e, f as c_uint)),
            libc::SYS_splice => given(copy::splice::hook(fd, b as _, c as c_int, d as _, e, f as c_uint)),
            libc::SYS_sendfile => given(copy::sendfile::hook(fd, b as c_int, c as _, d)),
            libc::SYS_getdents64 => given(entries::getdents64::hook(fd, b as _, c)),
            libc::SYS_fsync => given(durable::fsync::hook(fd)),
            libc::SYS_fdatasync => given(durable::fdatasync::hook(fd)),
            libc::SYS_syncfs => given(durable::syncfs::hook(fd)),
            libc::SYS_sync => {
                durable::sync::hook();
                Some(Ok(0))
            }
            libc::SYS_sync_file_range => given(advice::sync_file_range::hook(fd, b as i64, c as i64, d as c_uint)),
            libc::SYS_readahead => given(advice::readahead::hook(fd, b as i64, c)),
            // libc's function returns the errno.
            libc::SYS_fadvise64 => Some(told(advice::posix_fadvise::hook(fd, b as i64, c as i64, d as c_int))),
            libc::SYS_fallocate => given(allocation::fallocate::hook(fd, b as c_int, c as i64, d as i64)),
            libc::SYS_ftruncate => given(change::ftruncate::hook(fd, b as i64)),
            libc::SYS_fchmod => given(change::fchmod::hook(fd, b as _)),
            libc::SYS_fchown => given(change::fchown::hook(fd, b as _, c as _)),
            libc::SYS_fstat => given(attributes::fstat::hook(fd, b as _)),
            libc::SYS_fstatfs => given(attributes::fstatfs::hook(fd, b as _)),
            libc::SYS_fgetxattr => given(attributes::fgetxattr::hook(fd, b as _, c as _, d)),
            libc::SYS_flistxattr => given(attributes::flistxattr::hook(fd, b as _, c)),
            libc::SYS_fsetxattr => given(attributes::fsetxattr::hook(fd, b as _, c as _, d, e as c_int)),
            libc::SYS_fremovexattr => given(attributes::fremovexattr::hook(fd, b as _)),
            _ => of_tables(number, arguments),
        }
    }
}

/// Descriptors themselves, memory, and kernel AIO.
///
/// # Safety
/// As `dispatch`.
unsafe fn of_tables(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        match number {
            libc::SYS_close => given(close::close::hook(fd)),
            libc::SYS_close_range => given(close::close_range::hook(a as c_uint, b as c_uint, c as c_int)),
            libc::SYS_dup => given(descriptors::dup::hook(fd)),
            libc::SYS_dup3 => given(descriptors::dup3::hook(fd, b as c_int, c as c_int)),
            libc::SYS_fcntl => given(descriptors::fcntl::hook(fd, b as c_int, c)),
            libc::SYS_ioctl => given(descriptors::ioctl::hook(fd, b as _, c)),
            libc::SYS_mmap => address(memory::mmap::hook(a as _, b, c as c_int, d as c_int, e as c_int, f as i64)),
            libc::SYS_mremap => address(shared_maps::mremap::hook(a as _, b, c, d as c_int, e as _)),
            libc::SYS_munmap => given(shared_maps::munmap::hook(a as _, b)),
            libc::SYS_msync => given(shared_maps::msync::hook(a as _, b, c as c_int)),
            libc::SYS_mprotect => given(shared_maps::mprotect::hook(a as _, b, c as c_int)),
            libc::SYS_io_setup
            | libc::SYS_io_destroy
            | libc::SYS_io_submit
            | libc::SYS_io_cancel
            | libc::SYS_io_getevents
            | kernel_aio::SYS_IO_PGETEVENTS => Some(kernel_aio::by_number(number, a, b, c, d, e, f)),
            libc::SYS_io_uring_setup => Some(Err(crate::queues::refused_ring().map_or(Out::Pass, Out::Errno))),
            _ => None,
        }
    }
}

/// An address, or what libc's function failed with.
fn address(mapping: memory::Mapping) -> Answer {
    Some(crate::outcome::kept(mapping).map(|mapping| mapping.address() as c_long))
}

/// The answer of a function that returns an errno.
fn told(errno: c_int) -> Result<c_long, Out> {
    if errno == 0 { Ok(0) } else { Err(Out::Errno(errno)) }
}
