//! The RPC engine: one connection, driven by the thread that waits for its replies. Replies arrive in any order, and each may
//! make room for another call.
//!
//! A single call costs one send and one receive. Calls made in one turn leave in one send, and one receive may bring many
//! replies. When the connection breaks, the client closes it, makes another one, and resends every unanswered call with the
//! same xid. A call that a server leaves unanswered while it answers others is resent with another xid (`unanswered`).

use super::call_table::{self, CallTable};
use super::calls::Calls;
use super::connection::Connection;
use super::fault::Fault;
use super::receive::Receiver;
use super::receive_buffer::ReceiveBuffer;
use super::response_timer::ResponseTimer;
use super::retry::Backoff;
use super::route::Route;
use super::send_queue::SendQueue;
use super::unanswered;
use crate::call_notes::CONNECTING;
use crate::error::{Error, ProtocolError};
use crate::limits::SLOTS_MAX;
use crate::process::this_process;
use crate::slot_limiter::KeptConnections;
use crate::sys::clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A connection and its buffers.
#[derive(Debug)]
pub(crate) struct Channel {
    connection: Connection,
    socket_buffer_bytes: Option<usize>,
    table: CallTable,
    queue: SendQueue,
    buffer: ReceiveBuffer,
    refused: bool, // the server closed a new connection without a reply
    resends: bool, // what is queued was sent before
}

impl Channel {
    /// A channel for the calls of one read or write, not connected yet.
    pub(crate) fn new() -> Self {
        Self::with_depth(SLOTS_MAX, None)
    }

    /// A channel for `depth` calls in flight. Its socket asks for a receive buffer of `socket_buffer_bytes`.
    pub(crate) fn with_depth(depth: usize, socket_buffer_bytes: Option<usize>) -> Self {
        Self {
            connection: Connection::new(),
            socket_buffer_bytes,
            table: CallTable::new(depth),
            queue: SendQueue::new(depth),
            buffer: ReceiveBuffer::default(),
            refused: false,
            resends: false,
        }
    }

    /// Makes calls until there are no more, and waits until each is answered. True if a call was resent.
    ///
    /// # Errors
    /// If the retry policy gives up, or the RPC layer of the server refused a call. The connection is closed then.
    pub(crate) fn run<C: Calls>(&mut self, route: &Route, calls: &mut C) -> Result<bool, Error> {
        if this_process().identity.shares_memory() && !self.connection.is_aside() {
            return self.run_aside(route, calls);
        }
        route.membership.renew_leases();
        let mut timer = ResponseTimer::new(calls.procedure());
        let done = self.run_until_answered(route, calls, &mut timer);
        timer.finish(route);
        done
    }

    fn run_until_answered<C: Calls>(&mut self, route: &Route, calls: &mut C, timer: &mut ResponseTimer) -> Result<bool, Error> {
        self.table.clear();
        self.queue.clear();
        let mut backoff = Backoff::new();
        let mut resent = false;
        while let Err(fault) = self.attempt(route, calls, &mut backoff, timer) {
            resent |= self.recover(fault, route, calls, &mut backoff, timer)? > 0;
        }
        Ok(resent)
    }

    /// After a fault: waits as long as the fault requires, then queues every call in flight for a resend. Returns how many had
    /// been sent before.
    ///
    /// # Errors
    /// If the retry policy gives up.
    pub(super) fn recover<C: Calls>(
        &mut self,
        fault: Fault,
        route: &Route,
        calls: &C,
        backoff: &mut Backoff,
        timer: &mut ResponseTimer,
    ) -> Result<u64, Error> {
        self.refused |= self.connection.is_unanswered() && matches!(fault, Fault::Broken(_));
        self.disconnect();
        timer.note(Duration::ZERO, route);
        let renewed = matches!(fault, Fault::Unanswered);
        backoff.wait(fault, timer.silent_since(), route)?;
        if renewed {
            self.renew(route, calls.procedure());
        }
        route.membership.renew_leases();
        let Self { table, queue, .. } = self;
        queue.clear();
        let resends = table.resend(|xid, call| queue.push(route, xid, call, calls));
        route.counts.resends.fetch_add(resends, Ordering::Relaxed);
        self.resends = resends > 0;
        Ok(resends)
    }

    /// Gives the calls in flight other xids and another port. Before WRITEs are resent, waits until the server has executed
    /// those that it received on the closed connection: the server must not execute them after the caller continues.
    fn renew(&mut self, route: &Route, procedure: u32) {
        self.connection.forget_port();
        if route.program.is_write(procedure) {
            clock::sleep(route.fence);
        }
        self.table.renew();
    }

    /// As [`Self::run`], on a connection that is closed afterwards, for a child that shares this memory. The parent's
    /// descriptors are unknown in the child, and the child's are unknown in the parent.
    #[cold]
    fn run_aside<C: Calls>(&mut self, route: &Route, calls: &mut C) -> Result<bool, Error> {
        self.leave_after_fork();
        let parents = self.connection.set_aside();
        let done = self.run(route, calls);
        self.disconnect();
        self.connection.put_back(parents);
        done
    }

    /// Called when a call is done: its connection stays open if there is a place for it.
    #[inline]
    pub(crate) fn stay_or_end(&mut self, kept: &Arc<KeptConnections>) {
        if self.refused {
            self.refused = false;
            kept.refused();
        }
        if !self.connection.may_stay(kept) {
            self.disconnect();
        }
    }

    /// Closes the connection: no reply can arrive any more.
    pub(crate) fn disconnect(&mut self) {
        self.buffer.clear();
        self.connection.disconnect();
    }

    /// In a child right after fork: closes the parent's descriptor.
    pub(crate) fn reset_after_fork(&mut self) {
        if self.connection.reset_after_fork() {
            self.buffer.clear();
            self.table.reset_after_fork();
        }
    }

    /// After a fork, which the child may not have noticed: never uses the parent's connection again and never reuses its xids.
    #[inline]
    fn leave_after_fork(&mut self) {
        if self.connection.leave_after_fork() {
            self.buffer.clear();
            self.table.reset_after_fork();
        }
    }

    /// After a thread left a call by a jump: closes the connection, and drops nothing else.
    pub(crate) fn leave(&mut self) {
        self.connection.leave();
        self.table.abandon();
        self.queue.clear();
        self.buffer.abandon();
        (self.refused, self.resends) = (false, false);
    }

    /// In a child after fork, if a thread of the parent used the channel: discards its state without dropping it.
    pub(crate) fn abandon(&mut self) {
        self.connection.abandon();
        self.table.abandon();
        self.queue.clear();
        self.buffer.abandon();
    }

    /// Makes calls, sends them and receives replies on one connection until no call is in flight.
    fn attempt<C: Calls>(
        &mut self,
        route: &Route,
        calls: &mut C,
        backoff: &mut Backoff,
        timer: &mut ResponseTimer,
    ) -> Result<(), Fault> {
        self.connect(route, timer)?;
        timer.begin_attempt();
        timer.on_connection(self.connection.move_count());
        loop {
            self.send_calls(route, calls, timer)?;
            let Self { connection, table, buffer, .. } = self;
            let in_flight = table.in_flight();
            if in_flight == 0 {
                break;
            }
            Receiver { connection, table, buffer, calls, route, timer }.receive_replies()?;
            if table.in_flight() < in_flight {
                connection.note_answer();
                backoff.reset();
                route.note_answer();
            }
        }
        if self.buffer.is_empty() { Ok(()) } else { Err(ProtocolError::UnexpectedReply.into()) }
    }

    /// Makes as many calls as the table takes, and sends all queued calls.
    #[inline]
    pub(super) fn send_calls<C: Calls>(&mut self, route: &Route, calls: &mut C, timer: &mut ResponseTimer) -> Result<(), Fault> {
        let Self { connection, table, queue, .. } = self;
        let mut now_ms = None;
        while !table.is_full()
            && let Some(call) = calls.next_call(table.in_flight())
        {
            let xid = table.insert(call, *now_ms.get_or_insert_with(call_table::now));
            queue.push(route, xid, call, calls);
            if C::ONE_BY_ONE {
                check_leases(self.resends, route, calls)?;
                queue.transmit(connection, calls, table, route, timer)?;
            }
        }
        if !queue.is_empty() {
            calls.sending();
            check_leases(self.resends, route, calls)?;
            queue.transmit(connection, calls, table, route, timer)?;
        }
        self.resends = false;
        // Other replies may keep the connection busy while one call stays unanswered.
        if now_ms.is_some_and(|now_ms| table.is_look_due(now_ms)) { unanswered::look(table, calls, route) } else { Ok(()) }
    }

    /// Checks once a second whether a call in flight stays unanswered.
    pub(super) fn look_for_unanswered<C: Calls>(&mut self, route: &Route, calls: &C) -> Result<(), Fault> {
        if self.table.is_look_due(call_table::now()) { unanswered::look(&mut self.table, calls, route) } else { Ok(()) }
    }

    /// Fences the connections that were made under a process number, by a call on a connection of another number. False if the
    /// server does not support that.
    ///
    /// # Errors
    /// If the retry policy gives up.
    pub(crate) fn fence(&mut self, route: &Route, number: u64) -> Result<bool, Error> {
        let (mut backoff, mut timer) = (Backoff::new(), ResponseTimer::new(CONNECTING));
        loop {
            self.disconnect(); // the connection may have been made under that number
            this_process().identity.renew_number(number);
            match self.connect(route, &mut timer).and_then(|()| self.connection.fence(route, number)) {
                Ok(Some(fenced)) => return Ok(fenced),
                Ok(None) => {} // the server still executes calls of that process
                Err(fault) => backoff.wait(fault, timer.silent_since(), route)?,
            }
        }
    }

    /// Receives once without waiting. False if there was nothing to receive.
    pub(super) fn receive_there<C: Calls>(
        &mut self,
        route: &Route,
        calls: &mut C,
        timer: &mut ResponseTimer,
    ) -> Result<bool, Fault> {
        let Self { connection, table, buffer, .. } = self;
        Receiver { connection, table, buffer, calls, route, timer }.receive_there()
    }

    /// Receives until a call in flight is answered.
    pub(super) fn receive_answer<C: Calls>(
        &mut self,
        route: &Route,
        calls: &mut C,
        timer: &mut ResponseTimer,
    ) -> Result<(), Fault> {
        let Self { connection, table, buffer, .. } = self;
        Receiver { connection, table, buffer, calls, route, timer }.receive_replies()?;
        self.connection.note_answer();
        route.note_answer();
        Ok(())
    }

    /// Whether its connection may stay open between calls.
    pub(super) fn may_stay(&mut self, kept: &Arc<KeptConnections>) -> bool {
        self.connection.may_stay(kept)
    }

    /// Its connection. Connects first if necessary.
    pub(super) fn connected(&mut self, route: &Route, timer: &mut ResponseTimer) -> Result<&mut Connection, Fault> {
        self.connect(route, timer)?;
        Ok(&mut self.connection)
    }

    /// Its connection, which may not be connected.
    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Removes the calls in flight: the client has given up on them.
    pub(super) fn forget_calls(&mut self) {
        self.table.clear();
        self.queue.clear();
    }

    /// Calls in flight.
    pub(super) const fn in_flight(&self) -> usize {
        self.table.in_flight()
    }

    fn connect(&mut self, route: &Route, timer: &mut ResponseTimer) -> Result<(), Fault> {
        self.leave_after_fork();
        if !self.connection.is_made() {
            timer.on_connecting();
        }
        let local = |source| Fault::Fatal(Error::Local { action: "map the buffers of a connection", source });
        self.queue.map().and_then(|()| self.buffer.map()).map_err(local)?;
        if self.connection.connect(route)?
            && let Some(bytes) = self.socket_buffer_bytes
        {
            self.connection.socket()?.grow_receive_buffer(bytes);
        }
        Ok(())
    }
}

/// Refuses to send a call after another process took over the locks of its caller. A resend of any call but WRITE is allowed:
/// the server may recognise its xid.
#[inline]
fn check_leases<C: Calls>(resends: bool, route: &Route, calls: &C) -> Result<(), Fault> {
    let is_checked = !resends || route.program.is_write(calls.procedure());
    if !is_checked || route.membership.may_send() {
        return Ok(());
    }
    route.finish_revocations();
    Err(Fault::Fatal(Error::TakenOver))
}
