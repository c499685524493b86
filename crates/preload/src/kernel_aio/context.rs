//! Contexts: io_setup creates them, and all threads of the program use them.

use super::pin::{Pin, Pins};
use super::request::{Event, Iocb, Work};
use super::ring::Ring;
use super::worker;
use crate::aio::Asked;
use crate::ffi;
use crate::messages::warn;
use crate::open_file::Open;
use crate::outcome::Errno;
use crate::raw;
use libc::c_int;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;

/// Maximum number of contexts of a process. The kernel limits requests instead, 65,536 for the host.
const CONTEXTS_MAX: usize = 512;
/// Maximum number of a context's sockets that a child closes.
const SOCKETS_MAX: usize = 8;
/// Bytes of stack of a context's thread: what the calls need, and a reserve.
const STACK_BYTES: usize = 512 << 10;

static CONTEXTS: [AtomicPtr<Context>; CONTEXTS_MAX] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CONTEXTS_MAX];

/// The context for POSIX AIO.
static POSIX: AtomicPtr<Context> = AtomicPtr::new(std::ptr::null_mut());

/// An accepted request.
pub(crate) struct Submitted {
    answer: Answer,
    /// The work to do. `None` if it is done.
    pub(super) work: Option<(Open, Arc<Pin>, Work)>,
    pub(super) result: i64,
    /// A copy of the data of a write. As with the kernel, which keeps the pages, the write
    /// continues if the program frees the buffer before the event, for example by exiting.
    copied: Vec<u8>,
}

/// A context. It is never freed; a destroyed one is reused.
#[derive(Default)]
pub(crate) struct Context {
    /// The context's number for the program: the address of its ring. 0 for the context of POSIX AIO.
    number: AtomicUsize,
    open: AtomicBool,
    closing: AtomicBool,
    process: AtomicU32,
    /// Maximum number of requests, including those whose events have not been taken yet.
    capacity: AtomicUsize,
    taken: AtomicUsize,
    /// Requests on files of a mount that are not done.
    in_flight: AtomicUsize,
    /// Incremented after requests are done.
    pub(crate) completions: AtomicU32,
    waiters: AtomicU32,
    /// Number of waiters that poll `poll_wake`.
    pollers: AtomicU32,
    inbox: Mutex<VecDeque<Submitted>>,
    events: Mutex<Ring>,
    asleep: AtomicBool,
    /// Eventfds: the first wakes the thread, the second wakes pollers, and the kernel signals its
    /// completions by the third.
    wake: AtomicI32,
    poll_wake: AtomicI32,
    passed_on: AtomicI32,
    kernel: AtomicUsize,
    at_kernel: Mutex<Vec<Option<Submitted>>>,
    /// Requests of POSIX AIO in flight, and their descriptors.
    posix: Mutex<Vec<(usize, c_int)>>,
    pins: Mutex<Pins>,
    sockets: [AtomicI32; SOCKETS_MAX],
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The destination of a request's result.
enum Answer {
    /// An event. After that, the eventfd is signalled.
    Event { data: u64, request: u64, eventfd: Option<Arc<Pin>> },
    /// A request of POSIX AIO.
    Posix(Asked),
}

impl Submitted {
    /// Makes a write use a copy of its buffers.
    pub(super) fn copy_written(&mut self) {
        let Some((.., Work::Write(_, bufs, _))) = &mut self.work else { return };
        self.copied = bufs.iter().map(|buffer| &**buffer).collect::<Vec<&[u8]>>().concat();
        // SAFETY: `copied` keeps its memory until this request is dropped; nothing is written after that.
        let copied = unsafe { ffi::bytes(self.copied.as_ptr().cast(), self.copied.len()) };
        *bufs = vec![IoSlice::new(copied)];
    }

    pub(super) const fn new(data: u64, request: u64, eventfd: Option<Arc<Pin>>) -> Self {
        Self { answer: Answer::Event { data, request, eventfd }, work: None, result: 0, copied: Vec::new() }
    }

    /// Makes a request of POSIX AIO.
    ///
    /// # Errors
    /// The errors of duplicating a descriptor.
    pub(crate) fn posix(context: &Context, asked: Asked, open: Open, work: Work) -> Result<Self, Errno> {
        let pin = context.pinned(&open)?;
        let open = Open { fd: pin.number(), ..open };
        let mut one = Self { answer: Answer::Posix(asked), work: Some((open, pin, work)), result: 0, copied: Vec::new() };
        one.copy_written();
        Ok(one)
    }
}

impl Context {
    /// Makes a context for this number of requests at once, and starts its thread.
    ///
    /// # Errors
    /// EAGAIN beyond the host's limit (fs.aio-max-nr) or if no thread can be started; EINVAL; ENOMEM.
    pub(super) fn open(events: u32) -> Result<&'static Self, Errno> {
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| {
            // SAFETY: `drain` lives as long as the process. If atexit has no memory for it, _exit(2) drains.
            let _ = unsafe { libc::atexit(drain) };
        });
        let kernel = raw::aio::setup(events)?;
        // The kernel reserves twice as many, because each processor may keep some unused.
        let capacity = (events as usize).saturating_mul(2);
        let ring = Ring::new(capacity).inspect_err(|_| {
            let _ = raw::aio::destroy(kernel);
        })?;
        Self::open_beside(capacity, ring, kernel)
    }

    /// The context of this process for POSIX AIO, created on first use.
    ///
    /// # Errors
    /// EAGAIN if no thread can be started.
    pub(crate) fn for_posix() -> Result<&'static Self, Errno> {
        if let Some(context) = Self::posix() {
            return Ok(context);
        }
        let known = POSIX.load(Acquire);
        let context = Self::open_beside(usize::MAX, Ring::default(), 0)?;
        match POSIX.compare_exchange(known, std::ptr::from_ref(context).cast_mut(), SeqCst, SeqCst) {
            Ok(_) => Ok(context),
            Err(_) => context.close().and_then(|()| Self::posix().ok_or(libc::EAGAIN)),
        }
    }

    /// The context of this process for POSIX AIO. `None` if this process has not used POSIX AIO.
    pub(crate) fn posix() -> Option<&'static Self> {
        let at = POSIX.load(Acquire);
        // SAFETY: contexts are never freed.
        (!at.is_null()).then(|| unsafe { &*at }).filter(|context| context.is_of_this_process())
    }

    fn open_beside(capacity: usize, ring: Ring, kernel: usize) -> Result<&'static Self, Errno> {
        let made = Self::place().and_then(|context| context.start(capacity, ring, kernel).map(|()| context));
        made.inspect_err(|_| {
            let _ = raw::aio::destroy(kernel);
        })
    }

    /// The context with this number.
    ///
    /// # Errors
    /// EINVAL if this process has no such context.
    pub(super) fn find(number: usize) -> Result<&'static Self, Errno> {
        let known = CONTEXTS.iter().map(|place| place.load(Acquire)).take_while(|at| !at.is_null());
        // SAFETY: contexts are never freed.
        let mut known = known.map(|at| unsafe { &*at });
        let found = known.find(|context| context.number.load(Relaxed) == number && context.is_of_this_process());
        found.filter(|_| number != 0).ok_or(libc::EINVAL)
    }

    /// The context's number for the program.
    pub(super) fn number(&self) -> usize {
        self.number.load(Relaxed)
    }

    fn is_of_this_process(&self) -> bool {
        self.is_open() && self.process.load(Relaxed) == raw::process_id()
    }

    /// A free context, marked as used.
    fn place() -> Result<&'static Self, Errno> {
        for place in &CONTEXTS {
            let mut at = place.load(Acquire);
            if at.is_null() {
                let new = Box::into_raw(Box::<Self>::default());
                match place.compare_exchange(at, new, SeqCst, SeqCst) {
                    Ok(_) => at = new,
                    Err(other) => {
                        // SAFETY: `Box::into_raw` made it above, and no other code knows it.
                        drop(unsafe { Box::from_raw(new) });
                        at = other;
                    }
                }
            }
            // SAFETY: contexts are never freed.
            let context = unsafe { &*at };
            if context.process.compare_exchange(0, raw::process_id(), SeqCst, SeqCst).is_ok() {
                return Ok(context);
            }
        }
        Err(libc::EAGAIN)
    }

    fn start(&'static self, capacity: usize, ring: Ring, kernel: usize) -> Result<(), Errno> {
        let descriptors = [&self.wake, &self.poll_wake, &self.passed_on];
        for place in descriptors {
            let moved = internal_event_descriptor();
            place.store(moved.unwrap_or(-1), Relaxed);
        }
        if descriptors.iter().any(|place| place.load(Relaxed) < 0) {
            self.release();
            return Err(libc::EMFILE);
        }
        self.number.store(ring.address().unwrap_or(0), Relaxed);
        *lock(&self.events) = ring;
        self.capacity.store(capacity, Relaxed);
        self.kernel.store(kernel, Relaxed);
        self.closing.store(false, Relaxed);
        self.sockets.iter().for_each(|socket| socket.store(-1, Relaxed));
        let signals = raw::SignalsHeld::new(); // the thread inherits the mask, so no handler of the program runs on it
        let thread = std::thread::Builder::new().name("millrace-aio".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || worker::run(self));
        drop(signals);
        match started {
            Ok(thread) => {
                *lock(&self.thread) = Some(thread);
                self.open.store(true, SeqCst);
                Ok(())
            }
            Err(error) => {
                warn(format_args!("kernel AIO on a mount needs a thread, which cannot be started: {error}"));
                self.release();
                Err(libc::EAGAIN)
            }
        }
    }

    /// The descriptor that keeps a file open while requests on it are in flight.
    ///
    /// # Errors
    /// EAGAIN if the program has no descriptor left.
    pub(super) fn pinned(&self, open: &Open) -> Result<Arc<Pin>, Errno> {
        lock(&self.pins).of_file(open)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(SeqCst)
    }

    /// Destroys the context. Waits for requests in flight, and discards events that were not taken.
    ///
    /// # Errors
    /// EINVAL if another thread destroys the context at the same time.
    pub(super) fn close(&'static self) -> Result<(), Errno> {
        if !self.open.swap(false, SeqCst) {
            return Err(libc::EINVAL);
        }
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            self.end(thread);
        }
        Ok(())
    }

    fn end(&'static self, thread: JoinHandle<()>) {
        self.closing.store(true, SeqCst);
        self.wake_thread();
        let _ = raw::aio::destroy(self.kernel.load(Relaxed)); // waits for the kernel's requests
        let _ = thread.join();
        self.wake_waiters();
        // A request that another thread submitted during the end must not reach the next context.
        lock(&self.inbox).clear();
        lock(&self.at_kernel).clear();
        lock(&self.posix).clear();
        self.in_flight.store(0, SeqCst);
        self.release();
    }

    /// Releases all resources of the context, so that it can be reused.
    fn release(&self) {
        for place in [&self.wake, &self.poll_wake, &self.passed_on] {
            close_internal(place);
        }
        self.number.store(0, Relaxed);
        *lock(&self.events) = Ring::default();
        self.taken.store(0, SeqCst);
        self.process.store(0, SeqCst);
    }

    /// Reserves places for requests and their events.
    ///
    /// # Errors
    /// EAGAIN if there are not enough free places.
    pub(super) fn reserve(&self, count: usize) -> Result<(), Errno> {
        let capacity = self.capacity.load(Relaxed);
        let more = |taken| (taken + count <= capacity).then_some(taken + count);
        let reserved = || self.taken.fetch_update(SeqCst, Relaxed, more).map(drop).map_err(|_| libc::EAGAIN);
        reserved().or_else(|_| {
            self.count_taken(&mut lock(&self.events)); // the program may have taken events from the ring
            reserved()
        })
    }

    /// Frees the places of events that were taken.
    fn count_taken(&self, events: &mut Ring) {
        self.give_back(events.taken());
    }

    /// Releases places that were not used, or are free again.
    pub(super) fn give_back(&self, count: usize) {
        self.taken.fetch_sub(count, SeqCst);
    }

    /// Passes requests to the thread. A request that is already done becomes an event at once.
    pub(super) fn submit(&self, requests: Vec<Submitted>) {
        let (later, now): (Vec<_>, Vec<_>) = requests.into_iter().partition(|request| request.work.is_some());
        self.in_flight.fetch_add(later.len() + now.len(), SeqCst);
        if !now.is_empty() {
            self.complete(now);
        }
        if !later.is_empty() {
            lock(&self.inbox).extend(later);
            if self.asleep.swap(false, SeqCst) {
                self.wake_thread();
            }
        }
    }

    /// Passes a request to the kernel.
    ///
    /// # Errors
    /// Those of io_submit(2).
    ///
    /// # Safety
    /// The buffers of the request stay valid until its event is taken.
    pub(super) unsafe fn pass_on(&self, iocb: Iocb, answer: Submitted) -> Result<(), Errno> {
        self.reserve(1)?;
        let mut at_kernel = lock(&self.at_kernel);
        let free = at_kernel.iter().position(Option::is_none).unwrap_or(at_kernel.len());
        if free == at_kernel.len() {
            at_kernel.push(None);
        }
        at_kernel[free] = Some(answer);
        let iocb = iocb.with_eventfd(free as u64, self.passed_on.load(Relaxed));
        drop(at_kernel); // the call may wait; the thread may take events meanwhile
        // SAFETY: the buffers stay valid until the event is taken, by the caller's promise.
        unsafe { raw::aio::submit(self.kernel.load(Relaxed), &iocb) }.inspect_err(|_| {
            lock(&self.at_kernel)[free] = None;
            self.give_back(1);
        })
    }

    /// Takes the kernel's events.
    pub(super) fn collect_passed_on(&self) {
        raw::poll::reset(self.passed_on.load(Relaxed));
        let mut events = [Event::default(); 64];
        while let Ok(count @ 1..) = raw::aio::take_events(self.kernel.load(Relaxed), &mut events) {
            let mut at_kernel = lock(&self.at_kernel);
            let answer = |event: &Event| {
                let mut one = at_kernel.get_mut(event.data as usize)?.take()?;
                one.result = event.result;
                Some(one)
            };
            let done: Vec<_> = events[..count].iter().filter_map(answer).collect();
            drop(at_kernel);
            self.in_flight.fetch_add(done.len(), SeqCst);
            self.complete(done);
        }
    }

    /// Creates events for finished requests, and wakes waiters.
    pub(super) fn complete(&self, done: Vec<Submitted>) {
        let count = done.len();
        let mut eventfds = Vec::new();
        let mut events = lock(&self.events);
        for Submitted { answer, result, work, copied: _copied } in done {
            drop(work);
            match answer {
                Answer::Event { data, request, eventfd } => {
                    events.push(Event { data, request, result, result2: 0 });
                    eventfds.extend(eventfd);
                }
                Answer::Posix(asked) => {
                    lock(&self.posix).retain(|(request, _)| *request != asked.request());
                    self.give_back(1);
                    asked.answer(result);
                }
            }
        }
        drop(events);
        self.in_flight.fetch_sub(count, SeqCst);
        self.wake_waiters();
        for eventfd in eventfds {
            raw::poll::signal(eventfd.number());
        }
    }

    /// Accepts a request of POSIX AIO on a descriptor.
    pub(crate) fn take_posix(&self, request: usize, fd: c_int, submitted: Submitted) {
        let _held = raw::SignalsHeld::new(); // a handler may call aio_suspend
        self.taken.fetch_add(1, SeqCst);
        lock(&self.posix).push((request, fd));
        self.submit(vec![submitted]);
    }

    /// Whether a request of POSIX AIO in flight satisfies `is_it`, which gets its address and its descriptor.
    pub(crate) fn has_posix(&self, mut is_it: impl FnMut(usize, c_int) -> bool) -> bool {
        let _held = raw::SignalsHeld::new();
        lock(&self.posix).iter().any(|(request, fd)| is_it(*request, *fd))
    }

    fn wake_waiters(&self) {
        self.completions.fetch_add(1, SeqCst);
        if self.waiters.load(SeqCst) > 0 {
            raw::futex_wake_all(&self.completions);
        }
        if self.pollers.load(SeqCst) > 0 {
            raw::poll::signal(self.poll_wake.load(Relaxed));
        }
    }

    /// Passes up to `most` events to `give`. Returns their number.
    pub(super) fn take_events(&self, most: usize, give: &mut dyn FnMut(Event)) -> usize {
        let mut events = lock(&self.events);
        let count = events.take(most, give);
        self.count_taken(&mut events);
        count
    }

    /// Waits until there are more completions than `seen`.
    ///
    /// # Errors
    /// EINTR after a signal handler ran; ETIMEDOUT after `end_ns`.
    pub(crate) fn wait(&self, seen: u32, end_ns: Option<u64>) -> Result<(), Errno> {
        self.waiters.fetch_add(1, SeqCst);
        let waited = raw::futex_wait_until(&self.completions, seen, end_ns);
        self.waiters.fetch_sub(1, SeqCst);
        waited
    }

    /// As [`Self::wait`], with exactly this set of signals blocked. Setting the mask and waiting
    /// are one step.
    ///
    /// # Errors
    /// EINTR after a signal handler ran; ETIMEDOUT after `end_ns`.
    pub(super) fn wait_with_signals(&self, seen: u32, end_ns: Option<u64>, signals: u64) -> Result<(), Errno> {
        self.pollers.fetch_add(1, SeqCst);
        let poll_wake = self.poll_wake.load(Relaxed);
        raw::poll::reset(poll_wake);
        let left_ms = end_ns.map(|end| end.saturating_sub(raw::monotonic_ns()).div_ceil(1_000_000));
        let waited = if self.completions.load(SeqCst) == seen {
            let mut one = [libc::pollfd { fd: poll_wake, events: libc::POLLIN, revents: 0 }];
            raw::poll::poll(&mut one, left_ms, Some(signals))
        } else {
            Ok(1)
        };
        self.pollers.fetch_sub(1, SeqCst);
        match waited {
            Ok(0) => Err(libc::ETIMEDOUT),
            Ok(_) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// For the thread: takes the newly submitted requests.
    pub(super) fn take_inbox(&self, into: &mut VecDeque<Submitted>) {
        into.append(&mut lock(&self.inbox));
    }

    /// For the thread: whether it may sleep until it is woken.
    pub(super) fn falls_asleep(&self) -> bool {
        self.asleep.store(true, SeqCst);
        let may = lock(&self.inbox).is_empty();
        if !may {
            self.asleep.store(false, SeqCst);
        }
        may
    }

    pub(super) fn woke_up(&self) {
        self.asleep.store(false, SeqCst);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(SeqCst)
    }

    /// Descriptors for which the thread waits: its own wake-up, and the kernel's completions.
    pub(super) fn descriptors(&self) -> [c_int; 2] {
        [self.wake.load(Relaxed), self.passed_on.load(Relaxed)]
    }

    /// Stores the sockets' numbers, so that a child can close them.
    pub(super) fn note_sockets(&self, sockets: impl Iterator<Item = c_int>) {
        for (place, socket) in self.sockets.iter().zip(sockets.chain(std::iter::repeat(-1))) {
            place.store(socket, Relaxed);
        }
    }

    fn wake_thread(&self) {
        raw::poll::signal(self.wake.load(Relaxed));
    }
}

/// Waits until no request on a file of a mount is in flight. Called before the process ends or
/// executes another program.
pub(crate) extern "C" fn drain() {
    for at in CONTEXTS.iter().map(|place| place.load(Acquire)).take_while(|at| !at.is_null()) {
        // SAFETY: contexts are never freed.
        let context = unsafe { &*at };
        while context.is_open() && context.process.load(Relaxed) == raw::process_id() {
            let seen = context.completions.load(SeqCst);
            if context.in_flight.load(SeqCst) == 0 {
                break;
            }
            let _ = context.wait(seen, None);
        }
    }
}

/// Called in the child of a fork. The contexts and their threads are the parent's.
pub(crate) fn after_fork_child() {
    for place in &CONTEXTS {
        let at = place.swap(std::ptr::null_mut(), SeqCst);
        if at.is_null() {
            break;
        }
        // SAFETY: contexts are never freed; only this thread has the child's copy of this one.
        let context = unsafe { &*at };
        let own = [&context.wake, &context.poll_wake, &context.passed_on];
        own.into_iter().chain(&context.sockets).for_each(close_internal);
    }
}

fn internal_event_descriptor() -> Result<c_int, Errno> {
    let low = raw::poll::event_descriptor()?;
    let high = raw::duplicate_from(low, dnfs::lowest_internal_fd());
    let _ = raw::close(low);
    high.inspect(|fd| dnfs::set_internal_fd(*fd, true))
}

fn close_internal(place: &AtomicI32) {
    let fd = place.swap(-1, SeqCst);
    if fd >= 0 {
        dnfs::set_internal_fd(fd, false);
        let _ = raw::close(fd);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
