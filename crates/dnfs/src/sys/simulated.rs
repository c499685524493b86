//! What a simulated process (`crate::sim`) has in place of the kernel's: its turns, clock, sleep, futexes, identity and
//! descriptors. A process is a coroutine of the testing thread. Outside of a simulation all of this does nothing.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::rc::Rc;

use crate::process::Process;
use sim::Rng;

/// Virtual time at the start of a simulation, in ns.
const START_NS: u64 = 1_000_000_000_000;
/// Virtual time that a reading of the clock takes, so that a loop until some time ends.
const READING_NS: u64 = 100;

/// Why a process let others run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Its turn is over.
    Turn,
    /// It sleeps until this time.
    Sleep(u64),
    /// It is killed here.
    Killed,
    /// It is stopped here for a while.
    Stopped,
    /// It waits for this futex, until this time at most.
    Futex(u64, u64),
}

/// What all processes of a simulation share with its scheduler.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) now_ns: Cell<u64>,
    pub(crate) rng: RefCell<Rng>,
    /// Futexes that were woken, and up to how many waiters.
    pub(crate) woken: RefCell<Vec<(u64, u32)>>,
    /// A turn ends at one access in this many, on average.
    turn_accesses: u64,
    pub(crate) faults: Cell<Faults>,
}

impl Common {
    pub(crate) fn new(seed: u64) -> Rc<Self> {
        let mut rng = Rng::new(seed);
        // Some seeds switch at almost every access, others let a process run far.
        let turn_accesses = 2 << rng.below(8);
        Rc::new(Self {
            now_ns: Cell::new(START_NS),
            rng: RefCell::new(rng),
            woken: RefCell::default(),
            turn_accesses,
            faults: Cell::default(),
        })
    }
}

/// What may happen to a process: once in this many accesses to shared memory, on average; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// It is killed. A new process takes its place.
    pub(crate) kill: u64,
    /// It is stopped for up to 5 s.
    pub(crate) stop: u64,
}

impl Common {
    /// Whether a turn ends at an access, and how.
    fn end_of_turn(&self) -> Option<Pause> {
        let (mut rng, faults) = (self.rng.borrow_mut(), self.faults.get());
        let mut comes = |rate: u64| rate > 0 && rng.chance(1, rate);
        if comes(faults.kill) {
            Some(Pause::Killed)
        } else if comes(faults.stop) {
            Some(Pause::Stopped)
        } else {
            comes(self.turn_accesses).then_some(Pause::Turn)
        }
    }
}

/// A simulated process, or the test that prepares a simulation, while it runs.
struct Context {
    common: Rc<Common>,
    process: &'static Process,
    pid: u32,
    /// Null in the test itself, which gives no turns.
    yielder: Cell<*const Yielder<(), Pause>>,
    descriptors: RefCell<Vec<i32>>,
    is_timed_out: Cell<bool>,
}

thread_local! {
    /// The context of this thread; null outside of simulations.
    static CURRENT: Cell<*const Context> = const { Cell::new(core::ptr::null()) };
    /// Objects of processes that ended, for new ones: each has tables of 2 MiB.
    static FREE: RefCell<Vec<&'static Process>> = const { RefCell::new(Vec::new()) };
    static NEXT_PID: Cell<u32> = const { Cell::new(1) };
    /// Mapped files: address, length, and the file.
    static MAPPED: RefCell<Vec<(usize, usize, u64)>> = const { RefCell::new(Vec::new()) };
}

fn current() -> Option<&'static Context> {
    // SAFETY: `enter` sets the pointer, and puts the former one back before the context ends.
    unsafe { CURRENT.get().as_ref() }
}

/// Runs `work` in a context.
fn enter<T>(context: &Context, work: impl FnOnce() -> T) -> T {
    struct Restore(*const Context);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(context));
    work()
}

impl Context {
    fn new(common: &Rc<Common>) -> Self {
        let process = FREE.with_borrow_mut(Vec::pop).unwrap_or_else(Process::simulated);
        process.become_another();
        let pid = NEXT_PID.replace(NEXT_PID.get() % 4_000_000 + 1);
        let (descriptors, is_timed_out) = (RefCell::default(), Cell::new(false));
        Self { common: Rc::clone(common), process, pid, yielder: Cell::new(core::ptr::null()), descriptors, is_timed_out }
    }

    fn pause(&self, why: Pause) {
        // SAFETY: the coroutine of this context set the pointer, and lives while its code runs.
        if let Some(yielder) = unsafe { self.yielder.get().as_ref() } {
            let me = CURRENT.replace(core::ptr::null());
            yielder.suspend(why);
            CURRENT.set(me);
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        for fd in self.descriptors.take() {
            // SAFETY: a descriptor that this process opened and did not close; its owner is gone.
            unsafe { rustix::io::close(fd) };
        }
        FREE.with_borrow_mut(|free| free.push(self.process));
    }
}

/// Runs `work`, which prepares or checks a simulation, with its clock and random numbers, as a process of its own.
pub(crate) fn outside<T>(common: &Rc<Common>, work: impl FnOnce() -> T) -> T {
    let context = Context::new(common);
    let result = enter(&context, work);
    // What the test opened stays open.
    context.descriptors.take();
    result
}

/// A process of a simulation. Dropping it ends it at the instruction that it is at, as SIGKILL does.
pub(crate) struct Simulated {
    coroutine: Coroutine<(), Pause, ()>,
    context: Box<Context>,
}

impl Simulated {
    /// A process that runs `work` with `owned`, and has not begun. The caller drops it before `owned`, whose address does not
    /// change.
    pub(crate) fn start<T: 'static>(common: &Rc<Common>, owned: &T, work: Rc<dyn Fn(&T)>) -> Self {
        let context = Box::new(Context::new(common));
        let (owned, me) = (core::ptr::from_ref(owned), core::ptr::from_ref(&*context));
        let coroutine = Coroutine::new(move |yielder: &Yielder<(), Pause>, ()| {
            // SAFETY: the context is in a box of the same object, and the caller keeps `owned` as long.
            let (context, owned) = unsafe { (&*me, &*owned) };
            context.yielder.set(yielder);
            work(owned);
        });
        Self { coroutine, context }
    }

    /// Lets it run until it pauses. `None`: it has ended. `is_timed_out`: its wait for a futex is over by time.
    pub(crate) fn resume(&mut self, is_timed_out: bool) -> Option<Pause> {
        self.context.is_timed_out.set(is_timed_out);
        let (context, coroutine) = (&*self.context, &mut self.coroutine);
        match enter(context, || coroutine.resume(())) {
            CoroutineResult::Yield(why) => Some(why),
            CoroutineResult::Return(()) => None,
        }
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        if self.coroutine.started() && !self.coroutine.done() {
            // SAFETY: as after SIGKILL, no code of the process runs any more. What it has on the heap is leaked, and what it
            // shares consists of atomics.
            unsafe { self.coroutine.force_reset() };
        }
    }
}

/// Ends the turn of a simulated process at a random access.
#[inline]
pub(crate) fn turn() {
    if let Some(me) = current()
        && !me.yielder.get().is_null()
        && let Some(why) = me.common.end_of_turn()
    {
        me.pause(why);
    }
}

/// The object of the simulated process.
#[inline]
pub(crate) fn process() -> Option<&'static Process> {
    current().map(|me| me.process)
}

pub(crate) fn process_id() -> Option<u32> {
    current().map(|me| me.pid)
}

/// The virtual time.
pub(crate) fn now_ns() -> Option<u64> {
    let now = &current()?.common.now_ns;
    now.set(now.get() + READING_NS);
    Some(now.get())
}

/// Sleeps in virtual time. False outside of a simulation.
pub(crate) fn sleep(time: Duration) -> bool {
    let Some(me) = current() else { return false };
    me.pause(Pause::Sleep(me.common.now_ns.get() + time.as_nanos() as u64));
    true
}

/// Ends the turn. False outside of a simulation.
pub(crate) fn give_way() -> bool {
    let Some(me) = current() else { return false };
    me.pause(Pause::Turn);
    true
}

/// Notes that a file is mapped: a word in it is one futex for all processes, wherever they have mapped it.
pub(crate) fn mapped(base: usize, length: usize, fd: &super::fd::Fd) {
    if let Ok(file) = rustix::fs::fstat(fd) {
        let file = file.st_ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ file.st_dev;
        MAPPED.with_borrow_mut(|mapped| mapped.push((base, length, file)));
    }
}

/// Notes that a mapping ended.
pub(crate) fn unmapped(base: usize) {
    let _ = MAPPED.try_with(|mapped| mapped.borrow_mut().retain(|(other, ..)| *other != base));
}

/// What identifies a futex: its file and its place there, or its address.
fn futex(word: &core::sync::atomic::AtomicU32) -> u64 {
    let address = core::ptr::from_ref(word) as usize;
    MAPPED.with_borrow(|mapped| {
        let holds = |(base, length, _): &&(usize, usize, u64)| (*base..base + length).contains(&address);
        mapped.iter().find(holds).map_or(address as u64, |(base, _, file)| file.wrapping_add((address - base) as u64))
    })
}

/// Waits for a futex that has the expected value. Returns false after `longest`; `None` outside of a simulation.
pub(crate) fn wait(word: &core::sync::atomic::AtomicU32, longest: Duration) -> Option<bool> {
    let me = current()?;
    let end = me.common.now_ns.get() + longest.as_nanos() as u64;
    me.pause(Pause::Futex(futex(word), end));
    Some(!me.is_timed_out.get())
}

/// Wakes waiters of a futex. False outside of a simulation.
pub(crate) fn wake(word: &core::sync::atomic::AtomicU32, count: u32) -> bool {
    let Some(me) = current() else { return false };
    me.common.woken.borrow_mut().push((futex(word), count));
    true
}

pub(crate) fn random() -> Option<u64> {
    current().map(|me| me.common.rng.borrow_mut().bits())
}

/// Notes a descriptor that the process opened.
pub(crate) fn opened(fd: i32) {
    if let Some(me) = current() {
        me.descriptors.borrow_mut().push(fd);
    }
}

/// Notes that the process closed a descriptor.
pub(crate) fn closed(fd: i32) {
    if let Some(me) = current() {
        me.descriptors.borrow_mut().retain(|other| *other != fd);
    }
}

/// Whether the caller is a simulated process, whose record locks are those of its open files.
pub(crate) fn is_active() -> bool {
    current().is_some()
}
