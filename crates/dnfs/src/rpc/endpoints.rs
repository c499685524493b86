//! Where calls go: the address of the server that is in use, and its health. With a segment, all processes of the mount share
//! both.

use super::answers::Answers;
use super::channel_support::ChannelSupport;
use super::events::{Denial, Event};
use super::probe;
use super::program::Program;
use super::silence::Silence;
use crate::address::EndpointIndex;
use crate::limits::PROBE_EVERY_MS;
use crate::process::this_process;
use crate::segment::{ExportState, Segment};
use crate::sys::clock::monotonic_ms;
use crate::sys::connect::Connect;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The server's addresses, of which one is in use, and what is known of its health.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// The number of the address in use: that of its write verifiers. It stays if the address changes.
    pub(crate) index: EndpointIndex,
    /// The server's address when this was made; [`Self::server`] is the current one.
    first_server: SocketAddr,
    /// How the processes of the mount reach the export. `None` for a client without a segment.
    pub(crate) export_state: Option<ExportState>,
    /// The network namespace of the process that first connected to the server. `None` if it is unknown.
    pub(crate) network_namespace: Option<u64>,
    /// What this process knows of the server's program CHANNEL.
    pub(crate) channel_support: ChannelSupport,
    /// When the server last answered.
    answers: Answers,
    /// The reports that the server does not answer.
    pub(crate) silence: Arc<Silence>,
    /// When a probe last began, on the monotonic clock, and when one last found the server silent; 0: never.
    probe_begun_ms: AtomicU64,
    probe_failed_ms: AtomicU64,
}

impl Endpoints {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self {
            index: EndpointIndex::FIRST,
            first_server: server,
            export_state: None,
            network_namespace: None,
            channel_support: ChannelSupport::default(),
            answers: Answers::default(),
            silence: Arc::default(),
            probe_begun_ms: AtomicU64::new(0),
            probe_failed_ms: AtomicU64::new(0),
        }
    }

    /// Shares what this process learns of the server with all processes that have this segment.
    pub(super) fn share(&mut self, segment: &Segment) {
        let namespace = segment.header().network_namespace.load(Ordering::Relaxed);
        self.answers = Answers::Shared(segment.memory());
        self.export_state = Some(segment.export_state());
        self.network_namespace = Some(namespace).filter(|namespace| *namespace != 0);
    }

    /// Shares what another client of the same server shares.
    pub(super) fn share_with(&mut self, other: &Self) {
        self.index = other.index;
        self.answers = other.answers.clone();
        self.export_state.clone_from(&other.export_state);
        self.network_namespace = other.network_namespace;
        self.silence.clone_from(&other.silence);
    }

    /// The address in use.
    pub(crate) fn server(&self) -> SocketAddr {
        self.export_state.as_ref().and_then(ExportState::server).unwrap_or(self.first_server)
    }

    /// How often the address changed. A connection that was made before a change leads to the old address.
    #[inline]
    pub(crate) fn move_count(&self) -> u32 {
        self.export_state.as_ref().map_or(0, ExportState::move_count)
    }

    /// Whether the server answered lately.
    pub(super) fn answered_lately(&self) -> bool {
        self.answers.are_recent()
    }

    /// Whether the server answers. If it has not answered a call lately, sends NULL of the program as `how` says, and waits for the
    /// reply.
    #[cold]
    pub(super) fn liveness(&self, program: &Program, how: impl FnOnce() -> Connect) -> Liveness {
        if self.answers.are_recent() {
            return Liveness::Answers;
        }
        let (now_ms, begun_ms) = (monotonic_ms(), self.probe_begun_ms.load(Ordering::Relaxed));
        let is_due = begun_ms == 0 || now_ms.saturating_sub(begun_ms) >= PROBE_EVERY_MS;
        if is_due && self.probe_begun_ms.compare_exchange(begun_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            if probe::null_is_answered(&how(), (program.number, program.version)) {
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
    pub(super) fn report_denied(&self, denial: Denial) {
        if this_process().reports.take_denial_turn(monotonic_ms()) {
            this_process().reports.report(Event::Denied { server: self.server(), denial });
        }
    }

    /// Notes a reply. An answer of another service than the program of the mount does not end the silence.
    #[inline]
    pub(super) fn note_answer(&self, ends_silence: bool) {
        self.answers.note();
        self.silence.note_answer();
        if ends_silence {
            self.silence.end(self.server());
        }
    }
}
