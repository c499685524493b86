//! Asynchronous I/O: many reads and stable writes of one thread in flight together. The thread has two connections of its own,
//! one for reads and one for writes, so that a server that waits for a reader or for a writer does not block the other.
//!
//! A request is accepted only if it needs exactly one call: a read of up to rtmax bytes, or a stable write of up to wtmax to a
//! file of which nothing is retained. Any other request is returned to the caller. The caller then uses the blocking calls of
//! [`Mount`] while no request is in flight, because those wait for locks that writes in flight hold.

use std::time::Instant;

use core::sync::atomic::Ordering::Relaxed;

use rustix::fd::BorrowedFd;

use super::async_calls::{Calls, Entry, Found, Held};
use super::io::note_attributes;
use super::io_request::{Finished, IoRequest, IoWork, Offered};
use super::{Mount, handle_of};
use crate::error::Error;
use crate::file::{FsError, Stability};
use crate::io_codec::Refused as RefusedByServer;
use crate::limits::{ASYNC_DEPTH_MAX, PIPELINE_SOCKET_BYTES};
use crate::rpc::calls::Calls as _;
use crate::rpc::io_slices::total;
use crate::rpc::lane::Lane;
use crate::segment::layout::Slot;
use crate::slot_limiter::{Lease, Owner, Strength};

/// Reads and writes in flight of one thread on one mount. Not for a thread whose signal handlers do I/O.
#[derive(Debug)]
pub struct AsyncIo<'m> {
    mount: &'m Mount,
    reads: Side<'m>,
    writes: Side<'m>,
    /// The lease of all writes in flight.
    lease: Option<Lease<'m>>,
}

/// One connection and the calls on it.
#[derive(Debug)]
struct Side<'m> {
    lane: Lane,
    calls: Calls<'m>,
}

impl<'m> AsyncIo<'m> {
    /// Creates the engine for requests on this mount. It is not connected yet.
    #[must_use]
    pub fn new(mount: &'m Mount) -> Self {
        let codec = mount.client.io_codec();
        Self {
            mount,
            reads: Side::new(Calls::reads(codec, ASYNC_DEPTH_MAX)),
            writes: Side::new(Calls::writes(codec, ASYNC_DEPTH_MAX)),
            lease: None,
        }
    }

    /// The mount.
    #[must_use]
    pub const fn mount(&self) -> &'m Mount {
        self.mount
    }

    /// Number of requests in flight.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.reads.calls.in_flight() + self.writes.calls.in_flight()
    }

    /// The sockets on which replies arrive: for reads, for writes.
    #[must_use]
    pub fn sockets(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.reads.lane.socket(), self.writes.lane.socket()]
    }

    /// Takes a request; [`Self::send`] sends it.
    pub fn offer(&mut self, request: IoRequest<'m>) -> Offered<'m> {
        let mount = self.mount;
        let Some(slot) = mount.segment.slot(request.file).filter(|_| !mount.locks.has_one_writer()) else {
            return Offered::Alone(request); // the blocking call returns the error
        };
        match &request.work {
            IoWork::Read(bufs) => {
                if slot.has_stores() || slot.has_retained() || request.cursor.is_some() && slot.has_uncommitted() {
                    return Offered::Alone(request); // its result may need a second call
                }
                let bytes = total(bufs);
                let held = Held::Read { resends: mount.segment.resends() };
                self.reads.take(mount, slot, request, (bytes, mount.client.state().parts.rtmax), |_| Ok(held))
            }
            IoWork::Write(bufs, how) => {
                let (bytes, wanted) = (total(bufs), mount.wanted(*how));
                let past_end = request.offset.checked_add(bytes as u64).is_none_or(|end| end > i64::MAX as u64);
                if wanted == Stability::Unstable || past_end || slot.is_mapped() {
                    return Offered::Alone(request);
                }
                self.drop_lost_lease();
                if self.lease.is_none() {
                    self.lease = mount.segment.members().lease(Strength::Strong);
                }
                let Some(lease) = self.lease.as_ref() else { return Offered::Alone(request) };
                if !lease.is_held() {
                    return Offered::Full(request); // until the writes that are in flight have ended
                }
                lease.renew();
                let (owner, others) = (lease.owner(), self.in_flight());
                let lock = |request: &IoRequest<'m>| mount.lock_alone(slot, (owner, request), bytes, wanted, others);
                self.writes.take(mount, slot, request, (bytes, mount.client.state().parts.wtmax), lock)
            }
        }
    }

    /// Sends the accepted requests.
    pub fn send(&mut self, finished: &mut Vec<Finished<'m>>) {
        let route = &self.mount.client.state().route;
        for side in [&mut self.reads, &mut self.writes] {
            if side.calls.has_unsent() {
                let sent = side.lane.send(route, &mut side.calls);
                side.given_up(sent, finished);
            }
        }
        self.drop_lost_lease();
    }

    /// Takes the replies that have arrived. `readable` shows which of [`Self::sockets`] have data.
    pub fn receive(&mut self, readable: [bool; 2], finished: &mut Vec<Finished<'m>>) {
        let route = &self.mount.client.state().route;
        for (side, readable) in [&mut self.reads, &mut self.writes].into_iter().zip(readable) {
            let received = if readable {
                side.lane.receive(route, &mut side.calls)
            } else {
                side.lane.look_for_unanswered(route, &mut side.calls)
            };
            side.finish(self.mount, finished);
            side.given_up(received, finished);
        }
        self.drop_lost_lease();
    }

    /// Drops the lease if other processes took over its locks, as soon as no write is in flight. The next write takes a new
    /// lease.
    fn drop_lost_lease(&mut self) {
        if self.writes.calls.in_flight() == 0 && self.lease.as_ref().is_some_and(|lease| !lease.is_held()) {
            self.lease = None;
        }
    }

    /// Called if nothing arrived for 250 ms.
    pub fn silent(&mut self, finished: &mut Vec<Finished<'m>>) {
        let route = &self.mount.client.state().route;
        for side in [&mut self.reads, &mut self.writes] {
            if side.lane.in_flight() > 0 {
                let waited = side.lane.silent(route, &mut side.calls);
                side.given_up(waited, finished);
            }
        }
        self.drop_lost_lease();
    }
}

impl<'m> Side<'m> {
    fn new(calls: Calls<'m>) -> Self {
        Self { lane: Lane::new(calls.procedure(), ASYNC_DEPTH_MAX, PIPELINE_SOCKET_BYTES), calls }
    }

    /// Accepts a request of `bytes` bytes if it is one call and `hold` returns what it needs.
    fn take(
        &mut self,
        mount: &'m Mount,
        slot: &'m Slot,
        request: IoRequest<'m>,
        (bytes, bytes_max): (usize, u32),
        hold: impl FnOnce(&IoRequest<'m>) -> Result<Held<'m>, Refused>,
    ) -> Offered<'m> {
        let Some(file) = handle_of(slot).ok().filter(mount.client.io_codec().takes) else { return Offered::Alone(request) };
        if bytes == 0 || bytes > bytes_max as usize {
            return Offered::Alone(request);
        }
        if self.calls.is_full() {
            return Offered::Full(request);
        }
        let permit = match &mount.client.state().slot_limiter {
            None => None,
            Some(limiter) => match limiter.try_acquire(1) {
                Some(permit) => Some(permit),
                None if self.calls.in_flight() > 0 => return Offered::Full(request),
                None => return Offered::Alone(request), // the blocking call waits
            },
        };
        match hold(&request) {
            Err(Refused::Full) => Offered::Full(request),
            Err(Refused::Alone) => Offered::Alone(request),
            Ok(held) => {
                let counts = &mount.client.state().counts;
                let calls = if matches!(held, Held::Read { .. }) { &counts.read_calls } else { &counts.write_calls };
                calls.fetch_add(1, Relaxed);
                let moment = slot.attr_moment();
                self.calls.insert(Entry { request, slot, file, bytes, begun: Instant::now(), moment, permit, held, found: None });
                Offered::Taken
            }
        }
    }

    /// Called if the retry policy gave up, or the server's RPC layer refused a call: each request gets the error from its own
    /// blocking call.
    fn given_up(&mut self, outcome: Result<(), Error>, finished: &mut Vec<Finished<'m>>) {
        if outcome.is_err() {
            finished.extend(self.calls.drain().map(|entry| Finished::Alone(entry.request)));
        }
    }

    fn finish(&mut self, mount: &'m Mount, finished: &mut Vec<Finished<'m>>) {
        while let Some(entry) = self.calls.next_answered() {
            finished.push(mount.finish(entry));
        }
    }
}

/// Why a write is not accepted now.
pub(super) enum Refused {
    Full,
    Alone,
}

impl Mount {
    /// Locks the blocks of a stable write whose file has nothing retained, as the blocking call does.
    fn lock_alone<'m>(
        &'m self,
        slot: &'m Slot,
        (owner, request): (Owner, &IoRequest<'m>),
        bytes: usize,
        wanted: Stability,
        others: usize,
    ) -> Result<Held<'m>, Refused> {
        let size_moment = slot.size_moment();
        let stable = if self.client.state().always_stable { Stability::FileSync } else { wanted };
        let Ok(retention) = self.retention() else { return Err(Refused::Alone) };
        let guard = match retention {
            None => None,
            Some(retention) => {
                if bytes > retention.piece_bytes() {
                    return Err(Refused::Alone);
                }
                let locked = retention.locks().try_lock(owner, request.file, request.offset, bytes);
                let guard = locked.ok_or(if others > 0 { Refused::Full } else { Refused::Alone })?;
                if slot.has_retained() {
                    return Err(Refused::Alone);
                }
                Some(guard)
            }
        };
        Ok(Held::Write { _guard: guard, size_moment, stable, wanted })
    }

    /// Converts a reply to the result that the blocking call would have returned. A request that needs another call is
    /// returned to the caller.
    fn finish<'m>(&'m self, entry: Entry<'m>) -> Finished<'m> {
        let Entry { request, slot, bytes, begun, moment, permit, held, found, .. } = entry;
        drop(permit);
        let found = match found {
            None | Some(Err(RefusedByServer::TryAlone(_))) => return Finished::Alone(request),
            Some(Err(RefusedByServer::Error(error))) => return Finished::Done(request.token, Err(error)),
            Some(Ok(found)) => found,
        };
        match (held, found) {
            (Held::Read { resends }, Found::Read { count, eof }) => {
                self.client.state().counts.read_bytes.fetch_add(count as u64, Relaxed);
                let unsure = slot.has_retained() || request.cursor.is_some() && slot.has_uncommitted();
                let is_current = self.segment.resends() == resends;
                if unsure || !is_current || (count < bytes && !eof) {
                    return Finished::Alone(request);
                }
                self.cell().reads.note(begun.elapsed(), count, self.client.state().parts.rtmax);
                let lost = request.cursor.map_or(Ok(()), |cursor| self.check_writeback_error(request.file, cursor));
                Finished::Done(request.token, lost.map(|()| count))
            }
            (Held::Write { size_moment, wanted, .. }, Found::Write { count, committed, attributes }) => {
                self.client.state().counts.write_bytes.fetch_add(count as u64, Relaxed);
                note_attributes(request.file, slot, attributes.as_ref(), moment);
                let grew = slot.size_grew(request.offset + count as u64, size_moment);
                if count < bytes || committed < wanted || !grew || slot.is_mapped() {
                    return Finished::Alone(request);
                }
                self.cell().writes.note(begun.elapsed(), count, self.client.state().parts.wtmax);
                Finished::Done(request.token, Ok(count))
            }
            _ => Finished::Done(request.token, Err(Error::Fs(FsError::Io))),
        }
    }
}
