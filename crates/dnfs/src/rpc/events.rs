//! Servers that stop and start answering, for whoever keeps the log.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

/// A change in the state of a server, or of what this host can promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call to the server gets no reply; callers wait.
    NotResponding {
        /// The server.
        server: SocketAddr,
        /// Why they wait.
        cause: Cause,
        /// For how long by now.
        silent: Duration,
    },
    /// It answers again.
    Responding {
        /// The server.
        server: SocketAddr,
        /// How long it did not.
        away: Duration,
    },
    /// After a reconnection it knows the handles of this mount no more.
    HandlesUnknown {
        /// The server.
        server: SocketAddr,
    },
    /// There is no memory to keep written data in until COMMIT: what a server loses in a power cut is lost, and reported by fsync.
    NothingKept,
}

/// Why callers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no connection, or nothing comes on it.
    NoReply,
    /// It is there, but offers no TLS any more.
    NoTls,
    /// It is there, but TLS with it fails: most likely a certificate.
    TlsFailed,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoReply => "does not answer",
            Self::NoTls => "offers no TLS any more, and the mount requires it",
            Self::TlsFailed => "cannot be reached under TLS (certificates? `millrace nfs ls URL` says more)",
        })
    }
}

static REPORTER: OnceLock<fn(Event)> = OnceLock::new();

/// Has `reporter` called once when a server stops answering and once when it answers again, also when it then serves
/// another volume, and when written data cannot be kept; nothing is reported otherwise.
///
/// The function may be called inside any call of this crate and must not block. Only the first one set counts.
pub fn report_to(reporter: fn(Event)) {
    let _ = REPORTER.set(reporter);
}

pub(crate) fn report(event: Event) {
    if let Some(reporter) = REPORTER.get() {
        reporter(event);
    }
}
