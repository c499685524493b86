//! What every channel to one service shares: address, prepared call head, patience, and the word on whether it answers.

use crate::credentials::Credentials;
use crate::error::{Error, ProtocolError};
use crate::limits::{CONNECT_ATTEMPT_MS, MOUNT_CONNECT_MS, SILENCE_MS};
use crate::rpc::attach::Service;
use crate::rpc::tls::Secrecy;
use nfs_proto::rpc::RPC_VERSION;
use nfs_proto::xdr::{Encode, Writer};
use rpc_tls::{RecordFault, TlsFault};
use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where xid, program and procedure stand in a prepared head, the record mark in front of it (RFC 5531 9).
const XID_AT: usize = 4;
const PROGRAM_AT: usize = 16;
const PROCEDURE_AT: usize = 24;

/// A change in the state of a server, for whoever keeps the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server was asked and does not answer, for this reason; callers wait.
    NotResponding(SocketAddr, Cause),
    /// It answers again.
    Answers(SocketAddr),
}

/// Why callers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no connection, or no word on it.
    Away,
    /// It is there, but offers no TLS any more.
    NoTls,
    /// It is there, but TLS with it fails: most likely somebody's certificate.
    TlsFails,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Away => "does not answer",
            Self::NoTls => "offers no TLS any more, and the mount asks for it",
            Self::TlsFails => "cannot be reached under TLS (certificates? `millrace nfs ls URL` says more)",
        })
    }
}

static REPORTER: OnceLock<fn(Event)> = OnceLock::new();

/// Has `reporter` called once when a server stops answering and once when it answers again; nothing is said otherwise.
///
/// The function may be called inside any call of this crate and must not block. Only the first one set counts.
pub fn report_to(reporter: fn(Event)) {
    let _ = REPORTER.set(reporter);
}

/// How long a caller waits for a server that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For ever.
    Hard,
    /// So long.
    Soft(Duration),
    /// While mounting: one refused connection is an answer.
    Mounting,
}

/// A program: number, version and the name used in messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) version: u32,
}

/// NFS version 3.
pub(crate) const NFS: Program = Program { name: "NFS", number: nfs_proto::nfs3::PROGRAM, version: nfs_proto::nfs3::VERSION };
/// MOUNT version 3.
pub(crate) const MOUNT: Program =
    Program { name: "MOUNT", number: nfs_proto::mount3::PROGRAM, version: nfs_proto::mount3::VERSION };
/// Portmap version 2.
pub(crate) const PORTMAP: Program =
    Program { name: "portmap", number: nfs_proto::portmap2::PROGRAM, version: nfs_proto::portmap2::VERSION };

/// One service of one server.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: SocketAddr,
    pub(crate) program: Program,
    pub(crate) patience: Patience,
    pub(crate) resend_after: Duration,
    pub(crate) privileged_port: bool,
    pub(crate) secrecy: Option<Secrecy>,
    head: Vec<u8>, // mark, call header, credential, verifier; xid and procedure to be filled in
    silent: AtomicBool,
    pub(crate) resends: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    pub(crate) connections: AtomicU64, // all that were made, the first ones too
    pub(crate) channels: Service,
}

impl Link {
    pub(crate) fn new(server: SocketAddr, program: Program, who: &Credentials, patience: Patience) -> Self {
        let mut head = Vec::new();
        let mut out = Writer::new(&mut head);
        // Mark, xid, CALL, RPC version, program, version, procedure.
        [0, 0, 0, RPC_VERSION, program.number, program.version, 0].iter().for_each(|word: &u32| word.encode(&mut out));
        who.encode(&mut out);
        Self {
            server,
            program,
            patience,
            resend_after: Duration::from_secs(60),
            privileged_port: false,
            secrecy: None,
            head,
            silent: AtomicBool::new(false),
            resends: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            channels: Service::default(),
        }
    }

    /// Appends the head of a call, its mark still open.
    pub(crate) fn append_head(&self, xid: u32, procedure: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        let mut writer = Writer::new(out);
        writer.patch_u32(start + XID_AT, xid);
        writer.patch_u32(start + PROCEDURE_AT, procedure);
    }

    /// The same for another program of this server.
    pub(crate) fn append_head_of(&self, program: u32, version: u32, xid: u32, procedure: u32, out: &mut Vec<u8>) {
        let start = out.len();
        self.append_head(xid, procedure, out);
        let mut writer = Writer::new(out);
        writer.patch_u32(start + PROGRAM_AT, program);
        writer.patch_u32(start + PROGRAM_AT + 4, version);
    }

    /// Whether connections tell the server which channel they carry: those of NFS, unless it is known not to understand.
    pub(crate) fn attaches(&self) -> bool {
        self.program.number == NFS.number && self.patience != Patience::Mounting && self.channels.may_be_there()
    }

    /// How long one attempt to connect may take.
    pub(crate) const fn connect_timeout(&self) -> Duration {
        Duration::from_millis(match self.patience {
            Patience::Mounting => MOUNT_CONNECT_MS,
            Patience::Hard | Patience::Soft(_) => CONNECT_ATTEMPT_MS,
        })
    }

    /// Says once that the server is silent.
    pub(crate) fn is_silent(&self, cause: Cause) {
        if self.patience != Patience::Mounting && !self.silent.swap(true, Ordering::Relaxed) {
            report(Event::NotResponding(self.server, cause));
        }
    }

    /// Says once that it answers again.
    pub(crate) fn answers(&self) {
        if self.silent.load(Ordering::Relaxed) && self.silent.swap(false, Ordering::Relaxed) {
            report(Event::Answers(self.server));
        }
    }
}

fn report(event: Event) {
    if let Some(reporter) = REPORTER.get() {
        reporter(event);
    }
}

/// Why an attempt on a connection ended without all answers.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No connection.
    Connect(io::Error),
    /// The connection broke, or ended.
    Broken(io::Error),
    /// Nothing came for the resend time.
    Silent,
    /// The server has no TLS.
    NoTls,
    /// Hands were not shaken, or what came cannot be opened.
    Tls(TlsFault),
    /// The process forked in the middle: the connection belongs to the parent.
    Forked,
    /// What came is not what was expected.
    Garbage(ProtocolError),
    /// Not worth another attempt.
    Fatal(Error),
}

impl Fault {
    /// What to say about a server that is waited for because of it.
    pub(crate) const fn cause(&self) -> Cause {
        match self {
            Self::NoTls => Cause::NoTls,
            Self::Tls(_) => Cause::TlsFails,
            _ => Cause::Away,
        }
    }

    /// A connection that failed: its TLS, or itself.
    fn of(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<RecordFault>()) {
            Some(fault) => Self::Tls((*fault).into()),
            None => Self::Broken(error),
        }
    }
}

impl From<ProtocolError> for Fault {
    fn from(error: ProtocolError) -> Self {
        Self::Garbage(error)
    }
}

impl From<nfs_proto::xdr::DecodeError> for Fault {
    fn from(error: nfs_proto::xdr::DecodeError) -> Self {
        Self::Garbage(error.into())
    }
}

/// The wait inside one attempt: how long the connection has been silent.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    since: Option<Instant>,
}

impl Silence {
    /// Something came.
    pub(crate) const fn over(&mut self) {
        self.since = None;
    }

    /// A send or receive came back with an error: go on waiting, or stop.
    pub(crate) fn goes_on(&mut self, error: io::Error, link: &Link) -> Result<(), Fault> {
        let ticked = match error.kind() {
            io::ErrorKind::WouldBlock => Duration::from_secs(1),
            io::ErrorKind::Interrupted => Duration::ZERO,
            _ => return Err(Fault::of(error)),
        };
        let now = Instant::now();
        let since = *self.since.get_or_insert_with(|| now.checked_sub(ticked).unwrap_or(now));
        let silent = now.saturating_duration_since(since);
        if silent >= Duration::from_millis(SILENCE_MS) {
            link.is_silent(Cause::Away);
        }
        if silent >= link.resend_after { Err(Fault::Silent) } else { Ok(()) }
    }
}
