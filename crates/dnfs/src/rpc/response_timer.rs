//! Measures how long a connection has been silent. The silence is reported after some seconds, and the attempt ends after the
//! reply timeout.

use super::endpoints::Liveness;
use super::events::Cause;
use super::fault::Fault;
use super::route::{RetryPolicy, Route};
use crate::call_notes::NotedCall;
use crate::limits::UNRESPONSIVE_MS;
use crate::sys::connect::SOCKET_TIMEOUT;
use std::io;
use std::time::{Duration, Instant};

/// How long a call waits before `millrace nfs` shows it.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// The wait for one server over several attempts. Reads no clock as long as every send and receive transfers bytes.
#[derive(Debug)]
pub(crate) struct ResponseTimer {
    since: Option<Instant>,  // of this attempt
    move_count: Option<u32>, // changes of the server's address when the connection was made
    procedure: u32,
    noted: Option<NotedCall>,
}

impl ResponseTimer {
    /// For calls of one procedure.
    pub(crate) const fn new(procedure: u32) -> Self {
        Self { since: None, move_count: None, procedure, noted: None }
    }

    /// Begins a new attempt.
    pub(crate) const fn begin_attempt(&mut self) {
        (self.since, self.move_count) = (None, None);
    }

    /// Notes that a connection is being made. The wait of the attempt includes it.
    pub(crate) fn on_connecting(&mut self) {
        self.since = Some(Instant::now());
    }

    /// Since when the server has been silent in this attempt. `None` if it was not silent.
    pub(crate) const fn silent_since(&self) -> Option<Instant> {
        self.since
    }

    /// Notes that the attempt uses a connection that was made after this number of changes of the server's address.
    pub(crate) const fn on_connection(&mut self, move_count: u32) {
        self.move_count = Some(move_count);
    }

    /// Publishes how long there has been no answer.
    #[cold]
    pub(crate) fn note(&mut self, waited: Duration, route: &Route) {
        if self.noted.is_none() {
            self.noted = route.membership.note_call(self.procedure, waited);
        }
    }

    /// Ends the wait.
    pub(crate) fn finish(&mut self, route: &Route) {
        route.membership.forget_call(self.noted.take());
    }

    /// The result of one receive: bytes, `None` if nothing has arrived yet, or a fault.
    #[inline]
    pub(crate) fn received(&mut self, outcome: io::Result<usize>, route: &Route) -> Result<Option<usize>, Fault> {
        self.moved(outcome, io::ErrorKind::UnexpectedEof, route)
    }

    /// The result of one send.
    #[inline]
    pub(crate) fn sent(&mut self, outcome: io::Result<usize>, route: &Route) -> Result<Option<usize>, Fault> {
        self.moved(outcome, io::ErrorKind::WriteZero, route)
    }

    #[inline]
    fn moved(&mut self, outcome: io::Result<usize>, end: io::ErrorKind, route: &Route) -> Result<Option<usize>, Fault> {
        match outcome {
            Ok(0) => Err(Fault::Broken(end.into())),
            Ok(bytes) => {
                self.since = None;
                Ok(Some(bytes))
            }
            Err(error) => self.on_error(error, route).map(|()| None),
        }
    }

    /// Continues to wait after a timeout of the socket or a signal, until the reply timeout.
    #[cold]
    fn on_error(&mut self, error: io::Error, route: &Route) -> Result<(), Fault> {
        let waited = match error.kind() {
            io::ErrorKind::WouldBlock => SOCKET_TIMEOUT,
            io::ErrorKind::Interrupted => Duration::ZERO,
            _ => return Err(Fault::of(error)),
        };
        let now = Instant::now();
        let since = *self.since.get_or_insert_with(|| now.checked_sub(waited).unwrap_or(now));
        let silent = now.saturating_duration_since(since);
        route.membership.renew_leases();
        route.report_attachment(Cause::NoReply);
        if silent >= NOTE_AFTER {
            self.note(silent, route);
            if self.move_count.is_some_and(|at| at != route.endpoints.move_count()) {
                return Err(Fault::Moved);
            }
        }
        if silent >= Duration::from_millis(UNRESPONSIVE_MS)
            && route.retry_policy != RetryPolicy::Mounting
            && route.liveness() == Liveness::Silent
        {
            route.report_unresponsive(Cause::NoReply, since);
        }
        if silent >= route.resend_after { Err(Fault::Unresponsive) } else { Ok(()) }
    }
}
