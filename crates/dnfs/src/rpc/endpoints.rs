//! Where calls go: the address of the server that is in use, and its health. With a segment, all processes of the mount share
//! both.

use super::answers::Answers;
use super::channel_support::ChannelSupport;
use super::events::{Cause, Denial, Event};
use super::probe;
use super::program::Program;
use crate::limits::{PROBE_EVERY_MS, REPORT_EVERY_MS};
use crate::process::this_process;
use crate::segment::{ExportState, Segment};
use crate::sys::clock::monotonic_ms;
use crate::sys::connect::Connect;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

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
    unresponsive: AtomicBool,
    /// When that was last reported, on the monotonic clock; 0: never.
    reported_ms: AtomicU64,
    /// Since when the server has not answered, if that was reported, on the same clock.
    silent_since_ms: AtomicU64,
    /// When a probe last began, on the same clock, and when one last found the server silent; 0: never.
    probe_begun_ms: AtomicU64,
    probe_failed_ms: AtomicU64,
}

impl Endpoints {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self {
            first_server: server,
            export_state: None,
            network_namespace: None,
            channel_support: ChannelSupport::default(),
            answers: Answers::default(),
            unresponsive: AtomicBool::new(false),
            reported_ms: AtomicU64::new(0),
            silent_since_ms: AtomicU64::new(0),
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
        self.answers = other.answers.clone();
        self.export_state.clone_from(&other.export_state);
        self.network_namespace = other.network_namespace;
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

    /// Reports that the server does not answer: once for each silence, and at most once in [`REPORT_EVERY_MS`]. The server
    /// has been silent for the time `silent`.
    pub(super) fn report_unresponsive(&self, cause: Cause, silent: Duration) {
        if self.unresponsive.load(Ordering::Relaxed) {
            return;
        }
        let (now_ms, reported_ms) = (monotonic_ms(), self.reported_ms.load(Ordering::Relaxed));
        if (reported_ms == 0 || now_ms.saturating_sub(reported_ms) >= REPORT_EVERY_MS)
            && !self.unresponsive.swap(true, Ordering::Relaxed)
        {
            self.reported_ms.store(now_ms, Ordering::Relaxed);
            self.silent_since_ms.store(now_ms.saturating_sub(silent.as_millis() as u64), Ordering::Relaxed);
            this_process().reports.report(Event::NotResponding { server: self.server(), cause, silent });
        }
    }

    /// Reports that this process cannot reach the server, at most once a minute.
    #[cold]
    pub(super) fn report_denied(&self, denial: Denial) {
        if this_process().reports.take_denial_turn(monotonic_ms()) {
            this_process().reports.report(Event::Denied { server: self.server(), denial });
        }
    }

    /// Notes a reply.
    #[inline]
    pub(crate) fn note_answer(&self) {
        self.answers.note();
        self.report_responding();
    }

    /// Reports once that the server answers again.
    #[inline]
    fn report_responding(&self) {
        if self.unresponsive.load(Ordering::Relaxed) && self.unresponsive.swap(false, Ordering::Relaxed) {
            let away_ms = monotonic_ms().saturating_sub(self.silent_since_ms.load(Ordering::Relaxed));
            this_process().reports.report(Event::Responding { server: self.server(), away: Duration::from_millis(away_ms) });
        }
    }
}
