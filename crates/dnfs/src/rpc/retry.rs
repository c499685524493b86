//! Decides what happens between two attempts of one run of calls: wait, give up, or try again.

use super::endpoints::Liveness;
use super::events::Cause;
use super::fault::Fault;
use super::route::{RetryPolicy, Route};
use crate::error::{Error, ProtocolError};
use crate::limits::{BACKOFF_MS_MAX, BACKOFF_MS_MIN, PROTOCOL_ERRORS_MAX, UNRESPONSIVE_MS};
use crate::sys::clock;
use std::io;
use std::time::{Duration, Instant};

/// The faults since the last reply that was received, and the pause before the next attempt.
#[derive(Debug)]
pub(crate) struct Backoff {
    since: Option<Instant>,
    pause: Duration,
    malformed_count: u32,
    broken_count: u32,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { since: None, pause: Duration::from_millis(BACKOFF_MS_MIN), malformed_count: 0, broken_count: 0 }
    }

    /// Notes a reply: the next fault is a new one.
    #[inline]
    pub(crate) fn reset(&mut self) {
        if self.since.is_some() {
            *self = Self::new();
        }
    }

    /// Waits as long as this fault requires. `silent_since`: since when the attempt has had no answer, if the server was silent.
    ///
    /// # Errors
    /// If the retry policy gives up: the fault as the caller sees it.
    pub(crate) fn wait(&mut self, fault: Fault, silent_since: Option<Instant>, route: &Route) -> Result<(), Error> {
        let since = *self.since.get_or_insert_with(|| silent_since.unwrap_or_else(Instant::now));
        // If the server answers others, the unanswered call is already in the log.
        let (cause, is_connected) = (fault.cause(), matches!(fault, Fault::Unanswered | Fault::Unresponsive));
        route.report_attachment(cause);
        match (fault, route.retry_policy) {
            (Fault::Fatal(error), _) => return Err(error),
            (Fault::Forked | Fault::Moved, _) => return Ok(()),
            (Fault::Denied(denial), _) => {
                route.report_denied(denial);
                return Err(Error::Denied { server: route.server(), denial });
            }
            (Fault::Unanswered, _) => {}
            // The connection is not at fault, but it ended inside a call or its data.
            (Fault::Broken(source), _) if source.raw_os_error() == Some(libc::EFAULT) => return Err(Error::BadAddress),
            (Fault::Malformed(source), _) => self.malformed(source, route)?,
            // A server that was just restarted has dropped connections that it had not accepted yet.
            (Fault::Connect(source), RetryPolicy::Mounting) if source.kind() == io::ErrorKind::ConnectionReset => {
                self.broken(source, route)?;
            }
            (Fault::Connect(source), RetryPolicy::Mounting) => {
                return Err(Error::Connect { service: route.program.name, server: route.server(), source });
            }
            (Fault::Unresponsive, RetryPolicy::Mounting) => {
                return Err(timed_out(route, since.elapsed().max(route.resend_after)));
            }
            (Fault::NoTls, RetryPolicy::Mounting) => {
                return Err(Error::NoTls { service: route.program.name, server: route.server() });
            }
            (Fault::Tls(source), RetryPolicy::Mounting) => return Err(Error::Tls { server: route.server(), source }),
            (Fault::Broken(source), _) => self.broken(source, route)?,
            // The client never falls back to an unencrypted connection: it waits as for a server that does not answer.
            (Fault::Connect(_) | Fault::Unresponsive | Fault::NoTls | Fault::Tls(_), _) => self.broken_count = 2,
        }
        if let RetryPolicy::Soft(limit) = route.retry_policy
            && since.elapsed() >= limit
        {
            return Err(timed_out(route, since.elapsed()));
        }
        // After a broken connection the next attempt may succeed at once; after a refused one it probably does not.
        if self.broken_count > 1 || self.malformed_count > 0 {
            clock::sleep(self.pause);
            self.pause = (self.pause * 2).min(Duration::from_millis(BACKOFF_MS_MAX));
        }
        if since.elapsed() >= Duration::from_millis(UNRESPONSIVE_MS) {
            match cause {
                Cause::NoReply if is_connected && route.liveness() != Liveness::Silent => {}
                Cause::NoReply if route.endpoints.answered_lately() => route.report_unresponsive(Cause::NoConnection, since),
                _ => route.report_unresponsive(cause, since),
            }
        }
        Ok(())
    }

    fn malformed(&mut self, source: ProtocolError, route: &Route) -> Result<(), Error> {
        self.malformed_count += 1;
        if self.malformed_count >= PROTOCOL_ERRORS_MAX { Err(Error::Protocol { server: route.server(), source }) } else { Ok(()) }
    }

    fn broken(&mut self, source: io::Error, route: &Route) -> Result<(), Error> {
        self.broken_count += 1;
        if route.retry_policy == RetryPolicy::Mounting && self.broken_count > 2 {
            return Err(Error::Connect { service: route.program.name, server: route.server(), source });
        }
        Ok(())
    }
}

fn timed_out(route: &Route, waited: Duration) -> Error {
    Error::TimedOut { server: route.server(), seconds: waited.as_secs() }
}
