//! Read-ahead: READs are sent without waiting for their replies, on a connection of the mount in this process that is made at
//! the first of them. A reader of the bytes receives the replies. There is no helper thread.
//!
//! The bytes of a READ are not used once a process of this host has written to the file or set its size since the READ was
//! sent, or once the READ is a second old. Read-ahead may be refused at any time: the caller then reads as usual. Nothing
//! allocates once the mount is attached. A signal handler that interrupts its thread here reads as usual. The child of a fork
//! starts without read-ahead data.

use crate::sys::atomic::AtomicU32;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use std::io::IoSliceMut;
use std::ops::Range;
use std::time::Duration;

use super::early_reads::{EarlyReads, Key, There};
use super::{FileRef, Mount, handle_of};
use crate::error::Error;
use crate::event_count::EventCount;
use crate::io_codec::IoCodec;
use crate::limits::{EARLY_AGE_MS, EARLY_PAUSE_MS, EARLY_SMALL_BYTES, HOLDER_CHECK_MS};
use crate::process::this_process;
use crate::rpc::early_lane::{Broken, EarlyLane};
use crate::rpc::io_slices::total;
use crate::segment::layout::Slot;
use crate::sys::clock::monotonic_ns;
use crate::sys::fork_lock::{ForkGuard, ForkLock};
use crate::sys::poll;

/// A future read: its reader and its file.
#[derive(Clone, Copy, Debug)]
pub struct EarlyRead<'c> {
    /// The reader, an open of a descriptor. Data is only given to the same reader, so that an open sees what other hosts wrote
    /// before it.
    pub reader: u64,
    /// The file.
    pub file: FileRef,
    /// Position in the error sequence of a description that may write, as for [`Mount::read_to_change`].
    pub cursor: Option<&'c AtomicU32>,
}

/// The read-ahead data of a mount in this process.
#[derive(Debug)]
pub(super) struct ReadAhead {
    engine: ForkLock<Engine>,
    engine_freed: EventCount,
    /// Held by the receiving thread, also while it waits for the socket: no other thread receives its reply.
    receiver: ForkLock<()>,
    /// Number of READs in flight or not used yet.
    in_use: AtomicUsize,
}

#[derive(Debug)]
struct Engine {
    lane: EarlyLane,
    reads: EarlyReads,
    fork_generation: u32,
    /// No READ is sent before this time, because the server did not answer or accepts no more connections.
    pause_until_ns: u64,
}

impl ReadAhead {
    pub(super) fn new(codec: &'static IoCodec) -> Self {
        let engine = Engine {
            lane: EarlyLane::new(EarlyReads::DEPTH),
            reads: EarlyReads::new(codec),
            fork_generation: this_process().identity.generation(),
            pause_until_ns: 0,
        };
        Self {
            engine: ForkLock::new(engine),
            engine_freed: EventCount::new(),
            receiver: ForkLock::new(()),
            in_use: AtomicUsize::new(0),
        }
    }

    pub(super) fn after_fork_child(&self) {
        if let Some(mut engine) = self.engine.try_lock(this_process().current_thread(), Engine::abandon) {
            engine.lane.reset_after_fork();
            engine.reads.clear();
            self.in_use.store(0, Relaxed);
        }
    }

    /// Runs `work` under the lock. `None` for a signal handler that interrupted the holder, and if another thread holds the
    /// lock for long.
    fn with<T>(&self, work: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        let me = this_process().current_thread();
        let lock = || self.engine.try_lock(me, Engine::abandon);
        let mut engine = match lock() {
            Some(engine) => engine,
            None if self.engine.is_held_by(me) => return None,
            None => self.engine_freed.wait_at_most(Duration::from_millis(HOLDER_CHECK_MS), lock)?,
        };
        engine.begin();
        let done = work(&mut engine);
        self.in_use.store(engine.reads.in_use(), Relaxed);
        self.unlock(engine);
        Some(done)
    }

    fn unlock<T>(&self, guard: ForkGuard<'_, T>) {
        drop(guard);
        self.engine_freed.notify(u32::MAX);
    }
}

impl Engine {
    fn abandon(&mut self) {
        self.lane.abandon();
        self.reads.clear();
    }

    /// Detects a fork that this library did not see.
    fn begin(&mut self) {
        if self.fork_generation != this_process().identity.generation() {
            self.abandon();
            self.fork_generation = this_process().identity.generation();
        }
    }

    fn check(&mut self, done: Result<(), Broken>) -> bool {
        if done.is_err() {
            self.reads.broken();
            self.pause_until_ns = monotonic_ns() + EARLY_PAUSE_MS * 1_000_000;
        }
        done.is_ok()
    }
}

impl Mount {
    /// Whether anything was read ahead. If not, [`Self::take_early`] has nothing.
    #[must_use]
    #[inline]
    pub fn has_early_reads(&self) -> bool {
        self.read_ahead.in_use.load(Relaxed) > 0
    }

    /// Sends READs for up to `bytes` bytes from an offset on, except for those already received or in flight, and waits for no
    /// reply. Returns the offset up to which bytes are received or requested: `offset` if nothing can be read ahead, less than
    /// requested at the end of the file or if no place is free.
    pub fn read_early(&self, of: &EarlyRead<'_>, offset: u64, bytes: usize) -> u64 {
        let Some((slot, key)) = self.early_key(of) else { return offset };
        if slot.has_unsent() {
            return offset; // after the key: the server has everything that was written before it
        }
        let end = offset.saturating_add(bytes as u64).min(slot.size_known().unwrap_or(i64::MAX as u64));
        let Some(file) = handle_of(slot).ok().filter(self.client.io_codec().takes) else { return offset };
        let kept = self.client.state().pool.kept();
        let bytes_max = (bytes > EARLY_SMALL_BYTES, self.client.state().parts.rtmax as usize);
        let sent = self.read_ahead.with(|engine| {
            let now_ns = monotonic_ns();
            if now_ns < engine.pause_until_ns || !engine.reads.map() {
                return offset;
            }
            engine.reads.free_old(now_ns);
            if engine.reads.has_unanswered(now_ns) {
                // An unanswered READ would keep its place without a time limit.
                engine.lane.close();
                engine.reads.broken();
            }
            let mut at = offset;
            while at < end {
                let known = engine.reads.end_of(&key, at, now_ns);
                if known > at {
                    at = known;
                    continue;
                }
                let added = engine.reads.add(key, file, at, (end - at) as usize, bytes_max, now_ns);
                match added {
                    Some(count) => {
                        self.client.state().counts.read_calls.fetch_add(1, Relaxed);
                        at += count as u64;
                    }
                    None if self.receive_unwanted(engine, now_ns) => {}
                    None => break,
                }
            }
            if !engine.reads.has_unsent() {
                return at.min(end.max(offset));
            }
            let sent = engine.lane.send(&self.client.state().route, kept, &mut engine.reads);
            if engine.check(sent) { at.min(end.max(offset)) } else { offset }
        });
        sent.unwrap_or(offset)
    }

    /// Reads from `offset` into `bufs` what was read ahead, and waits for it if it is in flight. Returns the bytes read as
    /// [`Self::read`] does. `None` if it was not read ahead, or is no longer valid: the caller then reads as usual.
    ///
    /// # Errors
    /// As [`Self::read_to_change`], with a cursor.
    pub fn take_early(&self, of: &EarlyRead<'_>, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Option<Result<usize, Error>> {
        let bytes = total(bufs);
        let resends = self.segment.resends(); // before the key: READs of another state of the server are not used
        let (slot, key) = self.early_key(of)?;
        let begun_ns = monotonic_ns();
        loop {
            match self.read_ahead.with(|engine| Self::look(engine, &key, offset, bytes, bufs))? {
                Look::Given(bytes) => {
                    return match self.is_good(of, slot, resends) {
                        Ok(true) => {
                            self.cell().unused_read_bytes.fetch_sub(bytes as u64, Relaxed);
                            Some(Ok(bytes))
                        }
                        Ok(false) => None,
                        Err(error) => Some(Err(error)),
                    };
                }
                Look::Nothing => {
                    self.read_ahead.with(|engine| while self.receive_unwanted(engine, monotonic_ns()) {});
                    return None;
                }
                Look::Flying => self.await_early(|engine| engine.reads.there(&key, offset, bytes, monotonic_ns()), begun_ns)?,
            }
            if self.early_key(of)?.1 != key {
                return None; // a process wrote to the file meanwhile
            }
        }
    }

    /// Discards what was read ahead of a range of a file, for one reader or all. Selected by the offsets at which READs began.
    pub fn forget_early(&self, file: FileRef, reader: Option<u64>, range: &Range<u64>) {
        if self.has_early_reads() {
            self.read_ahead.with(|engine| engine.reads.forget(file, reader, range));
        }
    }

    fn early_key(&self, of: &EarlyRead<'_>) -> Option<(&Slot, Key)> {
        if !self.may_read_ahead() || self.client.state().slot_limiter.is_some() || this_process().identity.shares_memory() {
            return None; // with a limit of calls, a READ without a waiter would keep its slot
        }
        let slot = self.segment.slot(of.file)?;
        let changes = self.changes(of.file)?;
        Some((slot, Key { reader: of.reader, file: of.file, changes, loss_epoch: slot.loss_epoch() }))
    }

    fn look(engine: &mut Engine, key: &Key, offset: u64, bytes: usize, bufs: &mut [IoSliceMut<'_>]) -> Look {
        let now_ns = monotonic_ns();
        match engine.reads.there(key, offset, bytes, now_ns) {
            There::Nothing => {
                engine.reads.free_old(now_ns);
                Look::Nothing
            }
            There::Flying { .. } => Look::Flying,
            There::All => {
                let mut at = offset;
                for buffer in bufs {
                    let given = engine.reads.give(key, at, buffer, now_ns);
                    at += given as u64;
                    if given < buffer.len() {
                        break;
                    }
                }
                Look::Given((at - offset) as usize)
            }
        }
    }

    /// Receives a reply, or waits while another thread does, as long as `there` returns that a reply is expected. `None`
    /// in a signal handler that interrupted the receiving thread.
    fn await_early(&self, there: impl Fn(&Engine) -> There, begun_ns: u64) -> Option<()> {
        let me = this_process().current_thread();
        let ahead = &self.read_ahead;
        let lock = || ahead.receiver.try_lock(me, |()| ());
        let receiver = match lock() {
            Some(receiver) => receiver,
            None if ahead.receiver.is_held_by(me) => return None,
            None => match ahead.engine_freed.wait_at_most(Duration::from_millis(HOLDER_CHECK_MS), lock) {
                Some(receiver) => receiver,
                None => return Some(()), // it may have received what this caller waits for
            },
        };
        let receive = |engine: &mut Engine| match there(engine) {
            There::Flying { sent_ns } if !engine.lane.is_readable() => Some((engine.lane.socket()?, sent_ns)),
            There::Flying { .. } => {
                self.receive_early(engine, begun_ns);
                None
            }
            There::Nothing | There::All => None,
        };
        let done = ahead.with(receive).map(|wait| {
            if let Some((socket, sent_ns)) = wait {
                let left_ns = (sent_ns + EARLY_AGE_MS * 1_000_000).saturating_sub(monotonic_ns());
                poll::is_readable(socket, Duration::from_nanos(left_ns));
                ahead.with(receive);
            }
        });
        ahead.unlock(receiver);
        done
    }

    /// Receives a reply that no reader needs, if there is one.
    fn receive_unwanted(&self, engine: &mut Engine, now_ns: u64) -> bool {
        if !engine.reads.has_unwanted(now_ns) {
            return false;
        }
        let Some(receiver) = self.read_ahead.receiver.try_lock(this_process().current_thread(), |()| ()) else { return false };
        let received = engine.lane.is_readable() && self.receive_early(engine, now_ns);
        self.read_ahead.unlock(receiver);
        received
    }

    /// Receives a reply. The counters contain the time that the program waited for it.
    fn receive_early(&self, engine: &mut Engine, begun_ns: u64) -> bool {
        let received = engine.lane.receive(&self.client.state().route, &mut engine.reads);
        let took = Duration::from_nanos(monotonic_ns().saturating_sub(begun_ns));
        for bytes in engine.reads.answered.drain(..) {
            self.client.state().counts.read_bytes.fetch_add(bytes as u64, Relaxed);
            self.cell().reads.note(took, bytes, self.client.state().parts.rtmax);
            self.cell().unused_read_bytes.fetch_add(bytes as u64, Relaxed);
        }
        engine.check(received)
    }

    /// The checks of an ordinary read after its reply: the server has the writes of this host, and a loss is reported.
    fn is_good(&self, of: &EarlyRead<'_>, slot: &Slot, resends: u32) -> Result<bool, Error> {
        if !self.is_current(slot, resends)? {
            return Ok(false);
        }
        let Some(cursor) = of.cursor else { return Ok(true) };
        if self.detect_loss(slot)? {
            self.refresh_size(of.file, slot);
        }
        self.check_writeback_error(of.file, cursor).map(|()| true)
    }
}

/// Result of one check.
enum Look {
    Nothing,
    Flying,
    Given(usize),
}
