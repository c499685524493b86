//! What happens between two attempts of one exchange: wait, give up, or try again.

use crate::error::{Error, ProtocolError};
use crate::limits::{BACKOFF_MS_MAX, BACKOFF_MS_MIN, PROTOCOL_ERRORS_MAX, SILENCE_MS};
use crate::rpc::service::{Fault, Link, Patience};
use crate::sys::socket;
use std::io;
use std::time::{Duration, Instant};

/// The troubles of one exchange so far.
#[derive(Debug)]
pub(crate) struct Trouble {
    since: Option<Instant>,
    pause: Duration,
    garbage_count: u32,
    broken_count: u32,
}

impl Trouble {
    pub(crate) const fn new() -> Self {
        Self { since: None, pause: Duration::from_millis(BACKOFF_MS_MIN), garbage_count: 0, broken_count: 0 }
    }

    /// Waits as long as this fault asks for.
    ///
    /// # Errors
    /// When patience is at its end: the fault as the caller is to see it.
    pub(crate) fn endure(&mut self, fault: Fault, link: &Link) -> Result<(), Error> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let cause = fault.cause();
        match (fault, link.patience) {
            (Fault::Fatal(error), _) => return Err(error),
            (Fault::Forked, _) => return Ok(()),
            (Fault::Garbage(source), _) => self.garbage(source, link)?,
            (Fault::Connect(source), Patience::Mounting) => {
                return Err(Error::Connect { service: link.program.name, server: link.server, source });
            }
            (Fault::Silent, Patience::Mounting) => return Err(timed_out(link, since.elapsed().max(link.resend_after))),
            (Fault::NoTls, Patience::Mounting) => {
                return Err(Error::NoTls { service: link.program.name, server: link.server });
            }
            (Fault::Tls(source), Patience::Mounting) => return Err(Error::Tls { server: link.server, source }),
            (Fault::Broken(source), _) => self.broken(source, link)?,
            // Never in the clear instead: it is waited for, as a server that is away.
            (Fault::Connect(_) | Fault::Silent | Fault::NoTls | Fault::Tls(_), _) => self.broken_count = 2,
        }
        if let Patience::Soft(limit) = link.patience
            && since.elapsed() >= limit
        {
            return Err(timed_out(link, since.elapsed()));
        }
        // A connection that broke may be had again at once; one that was refused may not.
        if self.broken_count > 1 || self.garbage_count > 0 {
            socket::sleep(self.pause);
            self.pause = (self.pause * 2).min(Duration::from_millis(BACKOFF_MS_MAX));
        }
        if since.elapsed() >= Duration::from_millis(SILENCE_MS) {
            link.is_silent(cause);
        }
        Ok(())
    }

    fn garbage(&mut self, source: ProtocolError, link: &Link) -> Result<(), Error> {
        self.garbage_count += 1;
        if self.garbage_count >= PROTOCOL_ERRORS_MAX { Err(Error::Protocol { server: link.server, source }) } else { Ok(()) }
    }

    fn broken(&mut self, source: io::Error, link: &Link) -> Result<(), Error> {
        self.broken_count += 1;
        if link.patience == Patience::Mounting && self.broken_count > 2 {
            return Err(Error::Connect { service: link.program.name, server: link.server, source });
        }
        Ok(())
    }
}

fn timed_out(link: &Link, waited: Duration) -> Error {
    Error::TimedOut { server: link.server, seconds: waited.as_secs() }
}
