//! The requests of one io_submit.

use super::context::{Context, Submitted};
use super::pin::Pin;
use super::request::{FLAG_EVENT_FD, Iocb, Planned, work_of};
use crate::medium;
use crate::open_file::Open;
use crate::outcome::{Errno, Out};
use crate::queues;
use crate::raw;
use crate::table::{self, Found};
use libc::c_int;
use std::sync::Arc;

/// The requests of one io_submit. The thread of the context is woken once for all of them.
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

    /// Submits the accepted requests. Returns their number.
    pub(super) fn submit(self) -> usize {
        self.context.submit(self.ready);
        self.taken
    }

    /// Accepts one request.
    ///
    /// # Errors
    /// Those of io_submit(2).
    ///
    /// # Safety
    /// The buffers of the request stay valid until its event is taken.
    pub(super) unsafe fn take(&mut self, at: *const Iocb, iocb: &Iocb) -> Result<(), Errno> {
        if iocb.reserved != 0 || isize::try_from(iocb.bytes).is_err() {
            return Err(libc::EINVAL);
        }
        let fd = iocb.fd as c_int;
        let open = match table::find(fd) {
            Ok(Found::File(open)) => open,
            Ok(Found::Directory(..)) => return Err(libc::EINVAL),
            Ok(Found::Elsewhere) if medium::has(fd) => return Err(queues::cannot_reach()),
            // SAFETY: the buffers stay valid until the event is taken, by the caller's promise.
            Ok(Found::Elsewhere) => return unsafe { self.pass_on(at, iocb) },
            Err(Out::Errno(errno)) => return Err(errno),
            Err(_) => return Err(libc::EBADF),
        };
        let event_fd = self.event_descriptor(iocb)?;
        self.context.reserve(1)?;
        // SAFETY: the buffers stay valid until the event is taken, by the caller's promise.
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
        // SAFETY: the buffers stay valid until the event is taken, by the caller's promise.
        unsafe { self.context.pass_on(*iocb, answer) }?;
        self.taken += 1;
        Ok(())
    }

    /// A descriptor of the same description. It stays open while the request is in flight, even if
    /// the program closes its own.
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
