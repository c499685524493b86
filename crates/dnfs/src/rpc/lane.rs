//! A channel driven step by step, by a thread that has several of them and polls all at once. Nothing here waits for replies.

use super::calls::Calls;
use super::channel::Channel;
use super::fault::Fault;
use super::response_timer::ResponseTimer;
use super::retry::Backoff;
use super::route::Route;
use crate::error::Error;
use rustix::fd::BorrowedFd;
use std::io;

/// A channel, and the response timer of its server.
#[derive(Debug)]
pub(crate) struct Lane {
    channel: Channel,
    timer: ResponseTimer,
    backoff: Backoff,
}

impl Lane {
    /// A lane for `depth` calls in flight, all of one procedure. It is not connected yet. Its socket asks for a receive buffer
    /// of `socket_buffer_bytes`.
    pub(crate) fn new(procedure: u32, depth: usize, socket_buffer_bytes: usize) -> Self {
        let channel = Channel::with_depth(depth, Some(socket_buffer_bytes));
        Self { channel, timer: ResponseTimer::new(procedure), backoff: Backoff::new() }
    }

    /// Calls in flight.
    pub(crate) const fn in_flight(&self) -> usize {
        self.channel.in_flight()
    }

    /// The socket to poll for replies. `None` while no call is in flight.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        if self.in_flight() == 0 {
            return None;
        }
        Some(self.channel.connection().socket().ok()?.descriptor())
    }

    /// Makes and sends calls. Waits for space in the socket, and while the server is away.
    ///
    /// # Errors
    /// If the retry policy gives up: all calls in flight are then removed.
    pub(crate) fn send<C: Calls>(&mut self, route: &Route, calls: &mut C) -> Result<(), Error> {
        self.step(route, calls, |channel, calls, timer| connect_and_send(channel, route, calls, timer))
    }

    /// Takes the replies that have arrived.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn receive<C: Calls>(&mut self, route: &Route, calls: &mut C) -> Result<(), Error> {
        let in_flight = self.in_flight();
        self.step(route, calls, |channel, calls, timer| {
            // An encrypted connection may have received more than its socket shows.
            while channel.receive_there(route, calls, timer)? && channel.in_flight() > 0 && channel.connection().is_encrypted() {}
            channel.look_for_unanswered(route, calls)
        })?;
        if self.in_flight() < in_flight {
            self.backoff.reset();
            route.note_answer();
        }
        if self.in_flight() == 0 {
            self.timer.finish(route);
        }
        Ok(())
    }

    /// Called if nothing arrived for 250 ms.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn silent<C: Calls>(&mut self, route: &Route, calls: &mut C) -> Result<(), Error> {
        self.step(route, calls, |channel, calls, timer| {
            channel.look_for_unanswered(route, calls)?;
            timer.received(Err(io::ErrorKind::WouldBlock.into()), route).map(drop)
        })
    }

    /// Checks for unanswered calls if nothing arrived on this lane.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn look_for_unanswered<C: Calls>(&mut self, route: &Route, calls: &mut C) -> Result<(), Error> {
        self.step(route, calls, |channel, calls, _| channel.look_for_unanswered(route, calls))
    }

    /// Runs one step. After a fault, reconnects and resends every unanswered call.
    fn step<C: Calls>(
        &mut self,
        route: &Route,
        calls: &mut C,
        step: impl FnOnce(&mut Channel, &mut C, &mut ResponseTimer) -> Result<(), Fault>,
    ) -> Result<(), Error> {
        route.membership.renew_leases();
        let Self { channel, timer, backoff } = self;
        let mut outcome = step(channel, calls, timer);
        while let Err(fault) = outcome {
            if let Err(error) = channel.recover(fault, route, calls, backoff, timer) {
                channel.forget_calls();
                timer.finish(route);
                return Err(error);
            }
            timer.begin_attempt();
            outcome = connect_and_send(channel, route, calls, timer);
        }
        Ok(())
    }
}

fn connect_and_send<C: Calls>(
    channel: &mut Channel,
    route: &Route,
    calls: &mut C,
    timer: &mut ResponseTimer,
) -> Result<(), Fault> {
    let connection = channel.connected(route, timer)?;
    timer.on_connection(connection.move_count());
    if let Some(socket) = connection.socket_mut() {
        socket.receive_without_waiting();
    }
    channel.send_calls(route, calls, timer)
}
