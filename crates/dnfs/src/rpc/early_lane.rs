//! A channel for calls whose replies are received later, when a reader needs them. The calls are hints: after any error the
//! connection is closed, the calls are dropped, and the caller reads as usual.

use super::calls::Calls;
use super::channel::Channel;
use super::fault::Fault;
use super::response_timer::ResponseTimer;
use super::route::Route;
use crate::slot_limiter::KeptConnections;
use crate::sys::poll;
use std::sync::Arc;
use std::time::Duration;

/// A channel and its calls in flight.
#[derive(Debug)]
pub(crate) struct EarlyLane {
    channel: Channel,
}

/// The connection was closed, and all calls in flight were dropped.
#[derive(Debug)]
pub(crate) struct Broken;

impl EarlyLane {
    /// A lane for `depth` calls in flight. It is not connected yet.
    pub(crate) fn new(depth: usize) -> Self {
        Self { channel: Channel::with_depth(depth, None) }
    }

    /// Makes and sends calls. Connects first if necessary, and if `kept` allows another connection.
    ///
    /// # Errors
    /// [`Broken`].
    pub(crate) fn send<C: Calls>(
        &mut self,
        route: &Route,
        kept: Option<&Arc<KeptConnections>>,
        calls: &mut C,
    ) -> Result<(), Broken> {
        self.step(route, calls, |channel, calls, timer| {
            channel.connected(route, timer)?;
            if kept.is_some_and(|kept| !channel.may_stay(kept)) {
                return Err(Fault::Unresponsive);
            }
            channel.send_calls(route, calls, timer)
        })
    }

    /// Waits for a reply and receives it. After [`Self::is_readable`] it has begun to arrive.
    ///
    /// # Errors
    /// [`Broken`].
    pub(crate) fn receive<C: Calls>(&mut self, route: &Route, calls: &mut C) -> Result<(), Broken> {
        self.step(route, calls, |channel, calls, timer| channel.receive_answer(route, calls, timer))
    }

    /// Whether there is, or may be, something to receive: an encrypted connection may have received more than its socket shows.
    pub(crate) fn is_readable(&self) -> bool {
        let connection = self.channel.connection();
        connection.is_encrypted() || self.socket().is_none_or(|socket| poll::is_readable(socket, Duration::ZERO))
    }

    /// Number of its socket, for [`poll::is_readable`].
    pub(crate) fn socket(&self) -> Option<i32> {
        use rustix::fd::AsRawFd as _;
        Some(self.channel.connection().socket().ok()?.descriptor().as_raw_fd())
    }

    /// Closes the connection and drops the calls in flight.
    pub(crate) fn close(&mut self) {
        self.channel.disconnect();
        self.channel.forget_calls();
    }

    /// Abandons the connection in a child after fork, in any state.
    pub(crate) fn abandon(&mut self) {
        self.channel.abandon();
    }

    /// In a child right after fork: closes the parent's descriptor.
    pub(crate) fn reset_after_fork(&mut self) {
        self.channel.reset_after_fork();
        self.channel.forget_calls();
    }

    fn step<C: Calls>(
        &mut self,
        route: &Route,
        calls: &mut C,
        step: impl FnOnce(&mut Channel, &mut C, &mut ResponseTimer) -> Result<(), Fault>,
    ) -> Result<(), Broken> {
        let mut timer = ResponseTimer::new(calls.procedure());
        let done = step(&mut self.channel, calls, &mut timer);
        timer.finish(route);
        match done {
            Ok(()) => Ok(()),
            Err(Fault::Forked) => {
                self.abandon();
                Err(Broken)
            }
            Err(_) => {
                self.close();
                Err(Broken)
            }
        }
    }
}
