//! Events for the log: servers that stop and start answering, calls that they leave unanswered, and why this process cannot reach
//! them.

use crate::file::FileHandle;
pub use crate::nfs3::procedures::ProcedureName;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A change in the state of a server, or of what this host can promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server answers no call; callers wait.
    NotResponding {
        /// The server.
        server: SocketAddr,
        /// Why callers wait.
        cause: Cause,
        /// How long the server has been silent.
        silent: Duration,
    },
    /// The server answers again.
    Responding {
        /// The server.
        server: SocketAddr,
        /// How long it did not answer.
        away: Duration,
    },
    /// The server leaves one call unanswered while it answers others. The caller waits.
    Unanswered {
        /// The server.
        server: SocketAddr,
        /// The call.
        call: UnansweredCall,
        /// Whether the call is now sent under another xid. Otherwise it keeps its xid.
        renewed: bool,
    },
    /// This process can never reach the server. Its calls fail.
    Denied {
        /// The server.
        server: SocketAddr,
        /// Why this process cannot reach it.
        denial: Denial,
    },
    /// The server no longer exports the volume: it refuses the handle of the root. Callers wait.
    ExportGone {
        /// The server.
        server: SocketAddr,
        /// The path of the export.
        export: Arc<str>,
        /// How long callers have waited.
        waited: Duration,
    },
    /// The server exports the volume again.
    ExportBack {
        /// The server.
        server: SocketAddr,
        /// The path of the export.
        export: Arc<str>,
        /// How long it did not export the volume.
        away: Duration,
    },
    /// The server has the volume, but the directory of the mount was removed. Calls fail with ESTALE.
    DirectoryRemoved {
        /// The server.
        server: SocketAddr,
        /// The path of the directory.
        export: Arc<str>,
    },
    /// The server exports another volume under the same path. Calls on open files of the old one fail with ESTALE.
    VolumeReplaced {
        /// The server.
        server: SocketAddr,
        /// The path of the export.
        export: Arc<str>,
    },
    /// There is no memory to keep written data until COMMIT. Data that the server loses in a power cut is lost; fsync reports
    /// it.
    NothingKept,
    /// The keeper of another version of Millrace still saves what programs wrote. The program waits for it.
    OtherVersionEnds {
        /// Layout of that version.
        found: u32,
    },
}

/// Why callers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no connection, or no reply arrives.
    NoReply,
    /// The server no longer offers TLS.
    NoTls,
    /// The server answers others, but this process cannot connect to it.
    NoConnection,
    /// The TLS handshake fails, most likely because of a certificate.
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

/// Why this process cannot connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// A system call is refused with this errno: by a seccomp filter, RestrictAddressFamilies=, Landlock or another
    /// security module.
    Call {
        /// Name of the call.
        call: &'static str,
        /// The error number.
        errno: i32,
    },
    /// The process is in another network namespace than the mount, and that namespace has no way to the server (`unshare -n`,
    /// PrivateNetwork=).
    Namespace,
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call { call, errno } => {
                let text = rustix::io::Errno::from_raw_os_error(*errno);
                write!(
                    f,
                    "this process may not use sockets ({call}: {text}; a seccomp filter, RestrictAddressFamilies= or Landlock forbids it)"
                )
            }
            Self::Namespace => f.write_str(
                "this process is in a network namespace that does not lead to the server (unshare -n, PrivateNetwork=)",
            ),
        }
    }
}

/// A call that a server leaves unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnansweredCall {
    /// The number of its procedure; [`Self::procedure`] is its name.
    pub(crate) procedure: u32,
    /// Its file or directory.
    pub file: Option<FileHandle>,
    /// Its offset, if it has one.
    pub offset: Option<u64>,
    /// Time since it was first sent.
    pub age: Duration,
}

impl UnansweredCall {
    /// The name of its procedure, as in RFC 1813.
    #[must_use]
    pub const fn procedure(&self) -> ProcedureName {
        ProcedureName::of(self.procedure)
    }
}
