//! One RPC service of one server, shared by all channels to it: address, prepared call header, retry policy, counters.

use super::answers::Answers;
use super::channel_support::ChannelSupport;
use super::events::{Cause, Denial, Event};
use super::gone_report::GoneReport;
use super::probe;
use super::program::Program;
use super::silence::Silence;
use super::tls_config::TlsConfig;
use crate::address::local_for;
use crate::call_notes::CallNotes;
use crate::credentials::Credentials;
use crate::limits::{CONNECT_ATTEMPT_MS, FENCE_MS, MOUNT_CONNECT_MS, PROBE_ANSWER_MS, PROBE_EVERY_MS};
use crate::nfs3::procedures::NFS;
use crate::nfs3::types::WireHandle;
use crate::process::this_process;
use crate::segment::{ExportState, Segment};
use crate::slot_limiter::Members;
use crate::sys::clock::monotonic_ms;
use crate::sys::connect::Connect;
use nfs_proto::rpc::RPC_VERSION;
use nfs_proto::xdr::{Encode, Writer};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Offsets of xid, program and procedure in a prepared header, after the record mark (RFC 5531 9).
const XID_AT: usize = 4;
const PROGRAM_AT: usize = 16;
const PROCEDURE_AT: usize = 24;

/// How long a caller waits for a server that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// Without limit.
    Hard,
    /// For this time.
    Soft(Duration),
    /// While mounting: a refused connection ends the wait.
    Mounting,
}

/// Whether a server that leaves a call unanswered answers others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// The server answers other calls.
    Answers,
    /// The server answers no call.
    Silent,
    /// Another thread is probing the server.
    Unknown,
}

/// MOUNT version 3.
pub(crate) const MOUNT: Program =
    Program { name: "MOUNT", number: nfs_proto::mount3::PROGRAM, version: nfs_proto::mount3::VERSION };
/// Portmap version 2.
pub(crate) const PORTMAP: Program =
    Program { name: "portmap", number: nfs_proto::portmap2::PROGRAM, version: nfs_proto::portmap2::VERSION };

/// One service of one server.
#[derive(Debug)]
pub(crate) struct Service {
    /// The server's address when this was made; [`Self::server`] is the current one.
    first_server: SocketAddr,
    pub(crate) program: Program,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) resend_after: Duration,
    /// Time after the end of a connection in which the server may still execute WRITEs that it had received on it.
    pub(crate) fence: Duration,
    /// When the server last answered.
    pub(crate) answers: Answers,
    /// The network namespace of the process that first connected to the server. `None` if it is unknown.
    pub(crate) network_namespace: Option<u64>,
    pub(crate) privileged_port: bool,
    /// Addresses of this host to connect from; if empty, the kernel chooses.
    pub(crate) local: Vec<IpAddr>,
    pub(crate) tls_config: Option<TlsConfig>,
    /// Notes of calls that wait. `None` for a client without a segment.
    pub(crate) call_notes: Option<CallNotes>,
    /// How the processes of the mount reach the export. `None` for a client without a segment.
    pub(crate) export_state: Option<ExportState>,
    /// Reports that the server no longer exports the volume.
    pub(crate) gone: GoneReport,
    /// The members whose leases the callers hold (docs/design/028-stopped-processes.md). `None` for a client without a segment.
    pub(crate) leases: Option<Arc<Members>>,
    /// A handle of the export. `None` for programs other than NFS.
    pub(crate) root: Option<WireHandle>,
    /// Proves to Millrace's filer that this process belongs to the mount, so that it may fence other processes of the mount. 0
    /// for a client without a segment.
    pub(crate) mount_secret: u64,
    header: Vec<u8>, // record mark, call header, credential, verifier; xid and procedure are filled in later
    /// The reports that the server does not answer.
    pub(crate) silence: Arc<Silence>,
    /// When a probe last began, on the monotonic clock, and when one last found the server silent; 0: never.
    probe_begun_ms: AtomicU64,
    probe_failed_ms: AtomicU64,
    pub(crate) resends: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    pub(crate) connections: AtomicU64, // all connections made, including the first of each channel
    pub(crate) channel_support: ChannelSupport,
}

impl Service {
    pub(crate) fn new(server: SocketAddr, program: Program, who: &Credentials, retry_policy: RetryPolicy) -> Self {
        let mut header = Vec::new();
        let mut out = Writer::new(&mut header);
        // Mark, xid, CALL, RPC version, program, version, procedure.
        [0, 0, 0, RPC_VERSION, program.number, program.version, 0].iter().for_each(|word: &u32| word.encode(&mut out));
        who.encode(&mut out);
        Self {
            first_server: server,
            program,
            retry_policy,
            resend_after: Duration::from_secs(60),
            fence: Duration::from_millis(FENCE_MS.into()),
            answers: Answers::default(),
            network_namespace: None,
            privileged_port: false,
            local: Vec::new(),
            tls_config: None,
            call_notes: None,
            export_state: None,
            gone: GoneReport::default(),
            leases: None,
            root: None,
            mount_secret: 0,
            header,
            silence: Arc::default(),
            probe_begun_ms: AtomicU64::new(0),
            probe_failed_ms: AtomicU64::new(0),
            resends: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            channel_support: ChannelSupport::default(),
        }
    }

    /// Shares what this process learns of the server with all processes that have this segment.
    pub(crate) fn share(&mut self, segment: &Segment) {
        let namespace = segment.header().network_namespace.load(Ordering::Relaxed);
        self.answers = Answers::Shared(segment.memory());
        self.export_state = Some(segment.export_state());
        self.mount_secret = segment.header().instance.load(Ordering::Relaxed);
        self.network_namespace = Some(namespace).filter(|namespace| *namespace != 0);
    }

    /// Shares what another service of the same server shares.
    pub(crate) fn share_with(&mut self, other: &Self) {
        self.answers = other.answers.clone();
        self.export_state.clone_from(&other.export_state);
        self.network_namespace = other.network_namespace;
        self.call_notes.clone_from(&other.call_notes);
        self.leases.clone_from(&other.leases);
        self.silence.clone_from(&other.silence);
        self.mount_secret = other.mount_secret;
    }

    /// The server's address.
    pub(crate) fn server(&self) -> SocketAddr {
        self.export_state.as_ref().and_then(ExportState::server).unwrap_or(self.first_server)
    }

    /// How often the server's address changed. A connection that was made before a change leads to the old address.
    #[inline]
    pub(crate) fn move_count(&self) -> u32 {
        self.export_state.as_ref().map_or(0, ExportState::move_count)
    }

    /// Appends the header of a call. Its record mark is filled in later.
    pub(crate) fn append_header(&self, xid: u32, procedure: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.header);
        let mut writer = Writer::new(out);
        writer.patch_u32(start + XID_AT, xid);
        writer.patch_u32(start + PROCEDURE_AT, procedure);
    }

    /// As [`Self::append_header`], for another program of this server.
    pub(crate) fn append_header_of(&self, program: u32, version: u32, xid: u32, procedure: u32, out: &mut Vec<u8>) {
        let start = out.len();
        self.append_header(xid, procedure, out);
        let mut writer = Writer::new(out);
        writer.patch_u32(start + PROGRAM_AT, program);
        writer.patch_u32(start + PROGRAM_AT + 4, version);
    }

    /// Renews the leases of the thread's current call, so that waiters see that the thread runs.
    #[inline]
    pub(crate) fn renew_leases(&self) {
        if let Some(members) = &self.leases {
            members.renew_leases();
        }
    }

    /// Whether no other process has taken over the locks of the thread's current call.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.leases.as_ref().is_none_or(|members| members.may_send())
    }

    /// Waits until the server has executed what the thread's current call sent, or never will, because other processes take
    /// over the call's locks.
    #[cold]
    pub(crate) fn finish_revocations(&self) {
        if let Some(members) = &self.leases {
            members.finish_revocations(self.retry_policy == RetryPolicy::Hard);
        }
    }

    /// Whether a new connection begins with ATTACH: for NFS, unless the server is known not to have the program.
    pub(crate) fn uses_attach(&self) -> bool {
        self.program.number == NFS.number && self.retry_policy != RetryPolicy::Mounting && self.channel_support.may_be_present()
    }

    /// How long one attempt to connect may take.
    pub(crate) const fn connect_timeout(&self) -> Duration {
        Duration::from_millis(match self.retry_policy {
            RetryPolicy::Mounting => MOUNT_CONNECT_MS,
            RetryPolicy::Hard | RetryPolicy::Soft(_) => CONNECT_ATTEMPT_MS,
        })
    }

    /// Reports that the server has not answered since then: once for each silence.
    pub(crate) fn report_unresponsive(&self, cause: Cause, since: Instant) {
        if self.retry_policy != RetryPolicy::Mounting {
            self.silence.report(self.server(), cause, since);
        }
    }

    /// Reports that the server has not answered a program that attaches a mount, if it has waited long enough.
    #[cold]
    pub(crate) fn report_attachment(&self, cause: Cause) {
        self.silence.report_attachment(self.server(), cause);
    }

    /// Whether the server answers. If it has not answered a call lately, sends NULL and waits for the reply.
    #[cold]
    pub(crate) fn liveness(&self) -> Liveness {
        if self.answers.are_recent() {
            return Liveness::Answers;
        }
        let (now_ms, begun_ms) = (monotonic_ms(), self.probe_begun_ms.load(Ordering::Relaxed));
        let is_due = begun_ms == 0 || now_ms.saturating_sub(begun_ms) >= PROBE_EVERY_MS;
        if is_due && self.probe_begun_ms.compare_exchange(begun_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let how = Connect {
                server: self.server(),
                local_address: local_for(self.server(), &self.local),
                local_port: None,
                privileged: self.privileged_port,
                timeout: Duration::from_millis(PROBE_ANSWER_MS),
            };
            if probe::null_is_answered(&how, (self.program.number, self.program.version)) {
                self.answers.note();
                return Liveness::Answers;
            }
            self.probe_failed_ms.store(monotonic_ms(), Ordering::Relaxed);
            return Liveness::Silent;
        }
        let is_over = self.probe_failed_ms.load(Ordering::Relaxed) >= self.probe_begun_ms.load(Ordering::Relaxed);
        if is_over { Liveness::Silent } else { Liveness::Unknown }
    }

    /// Reports that this process cannot reach the server, at most once a minute.
    #[cold]
    pub(crate) fn report_denied(&self, denial: Denial) {
        if this_process().reports.take_denial_turn(monotonic_ms()) {
            this_process().reports.report(Event::Denied { server: self.server(), denial });
        }
    }

    /// Notes a reply. An answer of another service than NFS does not end the silence.
    #[inline]
    pub(crate) fn note_answer(&self) {
        self.answers.note();
        self.silence.note_answer();
        if self.program.number == NFS.number {
            self.silence.end(self.server());
        }
    }
}
