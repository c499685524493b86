//! Calls on descriptors and on memory.

use super::{Answer, Arguments, given};
use crate::outcome::Out;
use crate::{
    advice, allocation, attributes, change, close, copy, data, descriptors, durable, entries, kernel_aio, mapping, memory,
    shared_maps,
};
use libc::{c_int, c_long, c_uint};

/// # Safety
/// As [`super::dispatch`].
pub(super) unsafe fn by_number(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    // SAFETY: the arguments are as the system call of this number requires, by the caller's promise.
    unsafe {
        match number {
            libc::SYS_read => given(data::read::by_number(fd, b as _, c)),
            libc::SYS_write => given(data::write::by_number(fd, b as _, c)),
            libc::SYS_pread64 => given(data::pread::by_number(fd, b as _, c, d as i64)),
            libc::SYS_pwrite64 => given(data::pwrite::by_number(fd, b as _, c, d as i64)),
            libc::SYS_readv => given(data::readv::by_number(fd, b as _, c as c_int)),
            libc::SYS_writev => given(data::writev::by_number(fd, b as _, c as c_int)),
            // An offset is one argument of 64 bits, and the argument after it is ignored.
            libc::SYS_preadv => given(data::preadv::by_number(fd, b as _, c as c_int, d as i64)),
            libc::SYS_pwritev => given(data::pwritev::by_number(fd, b as _, c as c_int, d as i64)),
            libc::SYS_preadv2 => given(data::preadv2::by_number(fd, b as _, c as c_int, d as i64, f as c_int)),
            libc::SYS_pwritev2 => given(data::pwritev2::by_number(fd, b as _, c as c_int, d as i64, f as c_int)),
            libc::SYS_lseek => given(data::lseek::by_number(fd, b as i64, c as c_int)),
            libc::SYS_copy_file_range => given(copy::copy_file_range::by_number(fd, b as _, c as c_int, d as _, e, f as c_uint)),
            libc::SYS_splice => given(copy::splice::by_number(fd, b as _, c as c_int, d as _, e, f as c_uint)),
            libc::SYS_sendfile => given(copy::sendfile::by_number(fd, b as c_int, c as _, d)),
            libc::SYS_getdents64 => given(entries::getdents64::by_number(fd, b as _, c)),
            libc::SYS_fsync => given(durable::fsync::by_number(fd)),
            libc::SYS_fdatasync => given(durable::fdatasync::by_number(fd)),
            libc::SYS_syncfs => given(durable::syncfs::by_number(fd)),
            libc::SYS_sync => Some(durable::sync::by_number().map(|()| 0)),
            libc::SYS_sync_file_range => given(advice::sync_file_range::by_number(fd, b as i64, c as i64, d as c_uint)),
            libc::SYS_readahead => given(advice::readahead::by_number(fd, b as i64, c)),
            // libc's function returns the errno, and the system call the negative errno.
            libc::SYS_fadvise64 => Some(of_errno(advice::posix_fadvise::by_number(fd, b as i64, c as i64, d as c_int))),
            libc::SYS_fallocate => given(allocation::fallocate::by_number(fd, b as c_int, c as i64, d as i64)),
            libc::SYS_ftruncate => given(change::ftruncate::by_number(fd, b as i64)),
            libc::SYS_fchmod => given(change::fchmod::by_number(fd, b as _)),
            libc::SYS_fchown => given(change::fchown::by_number(fd, b as _, c as _)),
            libc::SYS_fstat => given(attributes::fstat::by_number(fd, b as _)),
            libc::SYS_fstatfs => given(attributes::fstatfs::by_number(fd, b as _)),
            libc::SYS_fgetxattr => given(attributes::fgetxattr::by_number(fd, b as _, c as _, d)),
            libc::SYS_flistxattr => given(attributes::flistxattr::by_number(fd, b as _, c)),
            libc::SYS_fsetxattr => given(attributes::fsetxattr::by_number(fd, b as _, c as _, d, e as c_int)),
            libc::SYS_fremovexattr => given(attributes::fremovexattr::by_number(fd, b as _)),
            _ => of_tables(number, arguments),
        }
    }
}

/// Calls on descriptors themselves and on memory, and kernel AIO.
///
/// # Safety
/// As [`super::dispatch`].
unsafe fn of_tables(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    // SAFETY: the arguments are as the system call of this number requires, by the caller's promise.
    unsafe {
        match number {
            libc::SYS_close => given(close::close::by_number(fd)),
            libc::SYS_close_range => given(close::close_range::by_number(a as c_uint, b as c_uint, c as c_int)),
            libc::SYS_dup => given(descriptors::dup::by_number(fd)),
            libc::SYS_dup3 => given(descriptors::dup3::by_number(fd, b as c_int, c as c_int)),
            libc::SYS_fcntl => given(descriptors::fcntl::by_number(fd, b as c_int, c)),
            libc::SYS_ioctl => given(descriptors::ioctl::by_number(fd, b as _, c)),
            libc::SYS_mmap => address(memory::mmap::by_number(a as _, b, c as c_int, d as c_int, e as c_int, f as i64)),
            libc::SYS_mremap => address(memory::mremap::by_number(a as _, b, c, d as c_int, e as _)),
            libc::SYS_munmap => given(shared_maps::munmap::by_number(a as _, b)),
            libc::SYS_msync => given(shared_maps::msync::by_number(a as _, b, c as c_int)),
            libc::SYS_mprotect => given(shared_maps::mprotect::by_number(a as _, b, c as c_int)),
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

/// Converts the result of mmap(2) and mremap(2).
fn address(mapping: Result<mapping::Mapping, Out>) -> Answer {
    Some(mapping.map(|mapping| mapping.address() as c_long))
}

/// Converts the result of a function that returns an errno.
fn of_errno(answer: Result<c_int, Out>) -> Result<c_long, Out> {
    match answer? {
        0 => Ok(0),
        errno => Err(Out::Errno(errno)),
    }
}
