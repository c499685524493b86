//! A channel for calls whose replies are taken later, when somebody asks for what they bring. They are hints: when anything goes wrong
//! the connection is closed and they are forgotten, and the caller does without.

use super::calls::Calls;
use super::channel::Channel;
use super::fault::Fault;
use super::response_timer::ResponseTimer;
use super::service::Service;
use crate::slot_limiter::KeptConnections;
use crate::sys::poll;
use std::sync::Arc;
use std::time::Duration;

/// A channel and its calls in flight.
#[derive(Debug)]
pub(crate) struct EarlyLane {
    channel: Channel,
}

/// The connection is closed, and every call in flight forgotten.
#[derive(Debug)]
pub(crate) struct Broken;

impl EarlyLane {
    /// A lane for so many calls in flight, not connected yet.
    pub(crate) fn new(depth: usize) -> Self {
        Self { channel: Channel::with_depth(depth, None) }
    }

    /// Makes and sends calls, on a connection that is made if there is none, and if there may be another one: `kept` says so.
    ///
    /// # Errors
    /// [`Broken`].
    pub(crate) fn send<C: Calls>(
        &mut self,
        service: &Service,
        kept: Option<&Arc<KeptConnections>>,
        calls: &mut C,
    ) -> Result<(), Broken> {
        self.step(service, calls, |channel, calls, timer| {
            channel.connected(service)?;
            if kept.is_some_and(|kept| !channel.may_stay(kept)) {
                return Err(Fault::Unresponsive);
            }
            channel.send_calls(service, calls, timer)
        })
    }

    /// Waits for a reply, and takes it. After [`Self::is_readable`] it is on its way at least.
    ///
    /// # Errors
    /// [`Broken`].
    pub(crate) fn receive<C: Calls>(&mut self, service: &Service, calls: &mut C) -> Result<(), Broken> {
        self.step(service, calls, |channel, calls, timer| channel.receive_answer(service, calls, timer))
    }

    /// Whether there is something to receive, or may be: of an encrypted connection its socket does not show all.
    pub(crate) fn is_readable(&self) -> bool {
        let connection = self.channel.connection();
        connection.is_encrypted() || self.socket().is_none_or(|socket| poll::is_readable(socket, Duration::ZERO))
    }

    /// Number of its socket, for [`poll::is_readable`].
    pub(crate) fn socket(&self) -> Option<i32> {
        use rustix::fd::AsRawFd as _;
        Some(self.channel.connection().socket().ok()?.descriptor().as_raw_fd())
    }

    /// Closes the connection and forgets the calls in flight.
    pub(crate) fn close(&mut self) {
        self.channel.disconnect();
        self.channel.forget_calls();
    }

    /// In a child after fork, whatever state it was copied in.
    pub(crate) fn abandon(&mut self) {
        self.channel.abandon();
    }

    /// In a child that knows it is one: closes the parent's descriptor.
    pub(crate) fn reset_after_fork(&mut self) {
        self.channel.reset_after_fork();
        self.channel.forget_calls();
    }

    fn step<C: Calls>(
        &mut self,
        service: &Service,
        calls: &mut C,
        step: impl FnOnce(&mut Channel, &mut C, &mut ResponseTimer) -> Result<(), Fault>,
    ) -> Result<(), Broken> {
        let mut timer = ResponseTimer::new(calls.procedure());
        let done = step(&mut self.channel, calls, &mut timer);
        timer.finish(service);
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
