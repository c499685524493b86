//! Servers that stop and start answering, calls that they leave unanswered, and what keeps this process from them, for whoever keeps the
//! log.

use super::denial::Denial;
use crate::file::FileHandle;
use nfs_proto::nfs3::Procedure;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

/// A change in the state of a server, or of what this host can promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// The server answers nobody; callers wait.
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
    /// The server leaves a call unanswered while it answers others. Its caller waits.
    Unanswered {
        /// The server.
        server: SocketAddr,
        /// The call.
        call: UnansweredCall,
        /// Whether the call is sent under another xid now. Otherwise its xid stays in force.
        renewed: bool,
    },
    /// This process cannot reach the server, and nothing that happens elsewhere changes that. Its calls fail.
    Denied {
        /// The server.
        server: SocketAddr,
        /// What forbids it.
        denial: Denial,
    },
    /// The server no longer exports the volume: it refuses the handle of the root. Callers wait.
    ExportGone {
        /// The server.
        server: SocketAddr,
        /// The path of the export.
        export: &'e str,
        /// For how long callers have waited by now.
        waited: Duration,
    },
    /// The server exports the volume again.
    ExportBack {
        /// The server.
        server: SocketAddr,
        /// The path of the export.
        export: &'e str,
        /// How long it did not.
        away: Duration,
    },
    /// The server exports another volume under the same path. Files that were open on the old one answer ESTALE.
    VolumeReplaced {
        /// The server.
        server: SocketAddr,
        /// The path of the export.
        export: &'e str,
    },
    /// There is no memory to keep written data in until COMMIT: what a server loses in a power cut is lost, and reported by fsync.
    NothingKept,
}

impl Event<'_> {
    /// The same without the path of the export, for whoever keeps events.
    #[must_use]
    pub const fn without_export(self) -> Event<'static> {
        let export = "";
        match self {
            Self::NotResponding { server, cause, silent } => Event::NotResponding { server, cause, silent },
            Self::Responding { server, away } => Event::Responding { server, away },
            Self::Unanswered { server, call, renewed } => Event::Unanswered { server, call, renewed },
            Self::Denied { server, denial } => Event::Denied { server, denial },
            Self::ExportGone { server, waited, .. } => Event::ExportGone { server, export, waited },
            Self::ExportBack { server, away, .. } => Event::ExportBack { server, export, away },
            Self::VolumeReplaced { server, .. } => Event::VolumeReplaced { server, export },
            Self::NothingKept => Event::NothingKept,
        }
    }
}

/// Why callers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no connection, or nothing comes on it.
    NoReply,
    /// It is there, but offers no TLS any more.
    NoTls,
    /// It answers others, but this process has no connection to it.
    NoConnection,
    /// It is there, but TLS with it fails: most likely a certificate.
    TlsFailed,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoReply => "does not answer",
            Self::NoConnection => "answers others, and takes no connection from this process",
            Self::NoTls => "offers no TLS any more, and the mount requires it",
            Self::TlsFailed => "cannot be reached under TLS (certificates? `millrace nfs ls URL` says more)",
        })
    }
}

/// A call that a server leaves unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnansweredCall {
    /// The number of its procedure; [`Self::procedure`] is its name.
    pub(crate) procedure: u32,
    /// The file that it is about, or the directory.
    pub file: Option<FileHandle>,
    /// First byte, of those that have one.
    pub offset: Option<u64>,
    /// Time since it was first sent.
    pub age: Duration,
}

impl UnansweredCall {
    /// The name of its procedure, as RFC 1813 has it.
    #[must_use]
    pub const fn procedure(&self) -> ProcedureName {
        ProcedureName(self.procedure)
    }
}

/// The name of a procedure, as RFC 1813 has it. Shown without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcedureName(u32);

impl std::fmt::Display for ProcedureName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// What is written to it in capitals.
        struct Capitals<'a, 'f>(&'a mut std::fmt::Formatter<'f>);

        impl std::fmt::Write for Capitals<'_, '_> {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                text.chars().try_for_each(|letter| self.0.write_char(letter.to_ascii_uppercase()))
            }
        }

        match Procedure::from_number(self.0) {
            Some(procedure) => write!(Capitals(f), "{procedure:?}"),
            None => write!(f, "procedure {}", self.0),
        }
    }
}

static REPORTER: OnceLock<fn(Event<'_>)> = OnceLock::new();

/// Has `reporter` called for each [`Event`]: once when a server stops answering or no longer exports a volume and once when that is over, for each call that it leaves
/// unanswered while it answers others, and for what weakens a guarantee.
///
/// The function may be called inside any call of this crate and must not block. Only the first one set counts.
pub fn report_to(reporter: fn(Event<'_>)) {
    let _ = REPORTER.set(reporter);
}

pub(crate) fn report(event: Event<'_>) {
    if let Some(reporter) = REPORTER.get() {
        reporter(event);
    }
}
