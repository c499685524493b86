//! How calls reach a server: which program, at which endpoint, and how long their callers wait. The channels of a client share its
//! route.

use super::endpoints::{Endpoints, Liveness};
use super::events::{Cause, Denial};
use super::membership::Membership;
use super::program::{CallHeader, Program};
use super::tls_config::TlsConfig;
use crate::address::local_for;
use crate::credentials::Credentials;
use crate::file::FileHandle;
use crate::limits::{CONNECT_ATTEMPT_MS, FENCE_MS, MOUNT_CONNECT_MS, PROBE_ANSWER_MS};
use crate::segment::Segment;
use crate::sys::connect::Connect;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

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

/// The route of the calls of one program.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) program: Program,
    pub(crate) header: CallHeader,
    pub(crate) endpoints: Endpoints,
    pub(crate) membership: Membership,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) resend_after: Duration,
    /// Time after the end of a connection in which the server may still execute WRITEs that it had received on it.
    pub(crate) fence: Duration,
    pub(crate) privileged_port: bool,
    /// Addresses of this host to connect from; if empty, the kernel chooses.
    pub(crate) local: Vec<IpAddr>,
    pub(crate) tls_config: Option<TlsConfig>,
    /// A handle of the export. `None` for programs that access no files.
    pub(crate) root: Option<FileHandle>,
    pub(crate) counts: RouteCounts,
}

/// Counters of one route. They only increase.
#[derive(Debug, Default)]
pub(crate) struct RouteCounts {
    pub(crate) resends: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    /// All connections made, including the first of each channel.
    pub(crate) connections: AtomicU64,
}

impl Route {
    pub(crate) fn new(server: SocketAddr, program: Program, who: &Credentials, retry_policy: RetryPolicy) -> Self {
        Self {
            program,
            header: CallHeader::new(&program, who),
            endpoints: Endpoints::new(server),
            membership: Membership::default(),
            retry_policy,
            resend_after: Duration::from_secs(60),
            fence: Duration::from_millis(FENCE_MS.into()),
            privileged_port: false,
            local: Vec::new(),
            tls_config: None,
            root: None,
            counts: RouteCounts::default(),
        }
    }

    /// Shares with all processes that have this segment what this process learns of the server, and which of its calls wait.
    pub(crate) fn share(&mut self, segment: &Segment) {
        self.endpoints.share(segment);
        self.membership.share(segment);
    }

    /// Shares what another route to the same server shares.
    pub(crate) fn share_with(&mut self, other: &Self) {
        self.endpoints.share_with(&other.endpoints);
        self.membership = other.membership.clone();
    }

    /// The server's address.
    pub(crate) fn server(&self) -> SocketAddr {
        self.endpoints.server()
    }

    /// How to connect now, from this local port if it is given.
    pub(super) fn connect_request(&self, local_port: Option<u16>) -> Connect {
        let server = self.server();
        Connect {
            server,
            local_address: local_for(server, &self.local),
            local_port,
            privileged: self.privileged_port,
            timeout: self.connect_timeout(),
        }
    }

    /// How long one attempt to connect may take.
    const fn connect_timeout(&self) -> Duration {
        Duration::from_millis(match self.retry_policy {
            RetryPolicy::Mounting => MOUNT_CONNECT_MS,
            RetryPolicy::Hard | RetryPolicy::Soft(_) => CONNECT_ATTEMPT_MS,
        })
    }

    /// Whether a new connection begins with ATTACH: for a program that accesses files, unless the server is known not to have the
    /// program.
    pub(crate) fn uses_attach(&self) -> bool {
        self.program.procedures.is_some()
            && self.retry_policy != RetryPolicy::Mounting
            && self.endpoints.channel_support.may_be_present()
    }

    /// Whether the server answers. See [`Endpoints::liveness`].
    pub(super) fn liveness(&self) -> Liveness {
        let timeout = Duration::from_millis(PROBE_ANSWER_MS);
        self.endpoints.liveness(&self.program, || Connect { timeout, ..self.connect_request(None) })
    }

    /// Reports that the server has not answered since then, once for each silence, unless the caller reports the failure itself.
    pub(super) fn report_unresponsive(&self, cause: Cause, since: Instant) {
        if self.retry_policy != RetryPolicy::Mounting {
            self.endpoints.silence.report(self.server(), cause, since);
        }
    }

    /// Reports that the server has not answered a program that attaches a mount, if it has waited long enough.
    #[cold]
    pub(crate) fn report_attachment(&self, cause: Cause) {
        self.endpoints.silence.report_attachment(self.server(), cause);
    }

    /// Notes a reply.
    #[inline]
    pub(crate) fn note_answer(&self) {
        self.endpoints.note_answer(self.program.procedures.is_some());
    }

    /// Reports that this process cannot reach the server, unless the caller reports the failure itself.
    pub(super) fn report_denied(&self, denial: Denial) {
        if self.retry_policy != RetryPolicy::Mounting {
            self.endpoints.report_denied(denial);
        }
    }

    /// Waits until the server has executed what the thread's current call sent. See [`Membership::finish_revocations`].
    #[cold]
    pub(super) fn finish_revocations(&self) {
        self.membership.finish_revocations(self.retry_policy == RetryPolicy::Hard);
    }
}
