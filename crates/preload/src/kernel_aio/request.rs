//! Requests: `struct iocb` as programs fill it, and the work for it.

use super::context::{Context, Submitted};
use super::pin::Pin;
use crate::data;
use crate::ffi;
use crate::medium;
use crate::open_file::Open;
use crate::outcome::{Errno, Out};
use crate::queues;
use crate::raw;
use crate::table::{self, Found};
use dnfs::Stability;
use libc::{c_int, c_void, iovec};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// `struct iocb` of 64-bit Linux, little endian.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iocb {
    pub(super) data: u64,
    key: u32,
    rw_flags: c_int,
    operation: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}
const _: () = assert!(size_of::<Iocb>() == 64);

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// `data` of the request.
    pub(crate) data: u64,
    /// Its address.
    pub(crate) request: u64,
    /// Bytes, or a negative errno.
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

const FLAG_EVENT_FD: u32 = 1;

/// The work on a file of a mount.
pub(crate) enum Work {
    Read(u64, Vec<IoSliceMut<'static>>),
    Write(u64, Vec<IoSlice<'static>>, Stability),
    Sync,
}

/// Requests of one io_submit. The thread of the context is woken once.
pub(super) struct Batch {
    context: &'static Context,
    ready: Vec<Submitted>,
    taken: usize,
    pin: Option<(c_int, Arc<Pin>)>,
    event_pin: Option<(c_int, Arc<Pin>)>,
}

impl Batch {
    pub(super) const fn new(context: &'static Context) -> Self {
        Self { context, ready: Vec::new(), taken: 0, pin: None, event_pin: None }
    }

    /// Passes on the accepted requests. Returns how many.
    pub(super) fn submit(self) -> usize {
        self.context.submit(self.ready);
        self.taken
    }

    /// Accepts one request.
    ///
    /// # Errors
    /// As io_submit(2).
    ///
    /// # Safety
    /// Its buffers stay valid until its event came.
    pub(super) unsafe fn take(&mut self, at: *const Iocb, iocb: &Iocb) -> Result<(), Errno> {
        if iocb.reserved != 0 || isize::try_from(iocb.bytes).is_err() {
            return Err(libc::EINVAL);
        }
        let fd = iocb.fd as c_int;
        let open = match table::find(fd) {
            Ok(Found::File(open)) => open,
            Ok(Found::Directory(..)) => return Err(libc::EINVAL),
            Ok(Found::Elsewhere) if medium::has(fd) => return Err(queues::cannot_reach()),
            // SAFETY: the caller's promise.
            Ok(Found::Elsewhere) => return unsafe { self.pass_on(at, iocb) },
            Err(Out::Errno(errno)) => return Err(errno),
            Err(_) => return Err(libc::EBADF),
        };
        let event_fd = self.event_descriptor(iocb)?;
        self.context.reserve(1)?;
        // SAFETY: the caller's promise.
        let work = unsafe { work_of(&open, iocb) }.inspect_err(|_| self.context.give_back(1))?;
        let pin = self.pinned(fd, &open).inspect_err(|_| self.context.give_back(1))?;
        let open = Open { fd: pin.number(), ..open };
        let mut one = Submitted::new(iocb.data, at as u64, event_fd);
        match work {
            Planned::Later(work) => {
                one.work = Some((open, pin, work));
                one.copy_written();
            }
            Planned::Now(result) => one.result = result,
        }
        self.ready.push(one);
        self.taken += 1;
        Ok(())
    }

    /// Passes a request to the kernel.
    ///
    /// # Safety
    /// As [`Self::take`].
    unsafe fn pass_on(&mut self, at: *const Iocb, iocb: &Iocb) -> Result<(), Errno> {
        let event_fd = self.event_descriptor(iocb)?;
        let answer = Submitted::new(iocb.data, at as u64, event_fd);
        // SAFETY: the caller's promise.
        unsafe { self.context.pass_on(*iocb, answer) }?;
        self.taken += 1;
        Ok(())
    }

    /// A descriptor of the same description, which stays open while the request is in flight, whatever the program closes.
    fn pinned(&mut self, fd: c_int, open: &Open) -> Result<Arc<Pin>, Errno> {
        if let Some((known, pin)) = &self.pin
            && *known == fd
        {
            return Ok(Arc::clone(pin));
        }
        let pin = self.context.pinned(open)?;
        self.pin = Some((fd, Arc::clone(&pin)));
        Ok(pin)
    }

    fn event_descriptor(&mut self, iocb: &Iocb) -> Result<Option<Arc<Pin>>, Errno> {
        if iocb.flags & FLAG_EVENT_FD == 0 {
            return Ok(None);
        }
        let fd = iocb.event_fd as c_int;
        if let Some((known, pin)) = &self.event_pin
            && *known == fd
        {
            return Ok(Some(Arc::clone(pin)));
        }
        let mut buffer = [0u8; libc::PATH_MAX as usize];
        if raw::fd_path(fd, &mut buffer).map_err(|_| libc::EBADF)? != b"anon_inode:[eventfd]" {
            return Err(libc::EINVAL);
        }
        let pin = Arc::new(Pin::of(fd)?);
        self.event_pin = Some((fd, Arc::clone(&pin)));
        Ok(Some(pin))
    }
}

/// What to do with a request.
enum Planned {
    Later(Work),
    Now(i64),
}

/// # Safety
/// The buffers of the request are valid until its event came.
unsafe fn work_of(open: &Open, iocb: &Iocb) -> Result<Planned, Errno> {
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
    // SAFETY: the caller's promise.
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

/// Whether an address can belong to a program.
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
