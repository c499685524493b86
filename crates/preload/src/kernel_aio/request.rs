//! Requests: `struct iocb` as programs fill it in, and the work for it.

use crate::data;
use crate::ffi;
use crate::open_file::Open;
use crate::outcome::{Errno, Out};
use dnfs::Stability;
use libc::{c_int, c_void, iovec};
use std::io::{IoSlice, IoSliceMut};

/// `struct iocb` of 64-bit Linux, little endian.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iocb {
    pub(super) data: u64,
    key: u32,
    rw_flags: c_int,
    operation: u16,
    priority: i16,
    pub(super) fd: u32,
    buffer: u64,
    pub(super) bytes: u64,
    offset: i64,
    pub(super) reserved: u64,
    pub(super) flags: u32,
    pub(super) event_fd: u32,
}
const _: () = assert!(size_of::<Iocb>() == 64);

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// `data` of the request.
    pub(crate) data: u64,
    /// Address of the request.
    pub(crate) request: u64,
    /// Number of bytes, or a negative errno.
    pub(crate) result: i64,
    /// Always 0.
    pub(crate) result2: i64,
}

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const NOOP: u16 = 6;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;

pub(super) const FLAG_EVENT_FD: u32 = 1;

/// The work on a file of a mount.
pub(crate) enum Work {
    Read(u64, Vec<IoSliceMut<'static>>),
    Write(u64, Vec<IoSlice<'static>>, Stability),
    Sync,
}

/// The plan for a request.
pub(super) enum Planned {
    Later(Work),
    Now(i64),
}

/// # Safety
/// The buffers of the request are valid until its event is taken.
pub(super) unsafe fn work_of(open: &Open, iocb: &Iocb) -> Result<Planned, Errno> {
    let (at, bytes) = (iocb.buffer as *mut c_void, iocb.bytes as usize);
    match iocb.operation {
        NOOP => return Ok(Planned::Now(0)),
        FSYNC | FDSYNC if bytes != 0 || iocb.buffer != 0 || iocb.offset != 0 || iocb.rw_flags != 0 => return Err(libc::EINVAL),
        FSYNC | FDSYNC => return Ok(Planned::Later(Work::Sync)),
        PREAD | PWRITE | PREADV | PWRITEV => {}
        _ => return Err(libc::EINVAL),
    }
    let access = open.flags & libc::O_ACCMODE;
    let reads = matches!(iocb.operation, PREAD | PREADV);
    if access == if reads { libc::O_WRONLY } else { libc::O_RDONLY } {
        return Err(libc::EBADF);
    }
    let offset = u64::try_from(iocb.offset).map_err(|_| libc::EINVAL)?;
    if bytes > 0 && !is_address(at) {
        return Err(libc::EFAULT);
    }
    // SAFETY: the buffers are valid until the event is taken, by the caller's promise.
    unsafe {
        match iocb.operation {
            PREAD | PREADV => {
                let bufs = if iocb.operation == PREAD {
                    vec![IoSliceMut::new(ffi::bytes_mut(at, bytes))]
                } else {
                    ffi::vector_mut(at as *const iovec, vector_count(bytes)?).map_err(errno_of)?.collect()
                };
                if iocb.rw_flags & !libc::RWF_HIPRI != 0 {
                    return Err(libc::EOPNOTSUPP);
                }
                Ok(Planned::Later(Work::Read(offset, bufs)))
            }
            _ => {
                let bufs = if iocb.operation == PWRITE {
                    vec![IoSlice::new(ffi::bytes(at, bytes))]
                } else {
                    ffi::vector(at as *const iovec, vector_count(bytes)?).map_err(errno_of)?.to_vec()
                };
                match data::stable_write(open, iocb.rw_flags).map_err(errno_of)? {
                    Some(how) => Ok(Planned::Later(Work::Write(offset, bufs, how))),
                    None => Ok(Planned::Now(result_of(data::flagged_write(open, &bufs, iocb.offset, iocb.rw_flags)))),
                }
            }
        }
    }
}

fn vector_count(bytes: usize) -> Result<c_int, Errno> {
    c_int::try_from(bytes).map_err(|_| libc::EINVAL)
}

/// Whether an address can be one of a program.
fn is_address(at: *const c_void) -> bool {
    (4096..1usize << 47).contains(&(at as usize))
}

fn errno_of(out: Out) -> Errno {
    match out {
        Out::Errno(errno) => errno,
        _ => libc::EBADF,
    }
}

/// The result field of an event.
pub(super) fn result_of<N: TryInto<i64>>(outcome: Result<N, Out>) -> i64 {
    match outcome {
        Ok(bytes) => bytes.try_into().unwrap_or(i64::MAX),
        Err(out) => -i64::from(errno_of(out)),
    }
}

impl Iocb {
    /// The descriptor of the request.
    pub(crate) const fn descriptor(&self) -> c_int {
        self.fd as c_int
    }

    /// The same request with another `data` and another eventfd.
    pub(super) fn with_eventfd(mut self, data: u64, event_fd: c_int) -> Self {
        (self.data, self.event_fd) = (data, event_fd as u32);
        self.flags |= FLAG_EVENT_FD;
        self
    }
}
