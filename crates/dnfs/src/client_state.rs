//! What a client of an export has in any version of the protocol: its route to the server, its connections, what mounting found,
//! and counters.

use crate::activity::SlotUse;
use crate::address::AddressSet;
use crate::credentials::Credentials;
use crate::error::{Error, ProtocolError};
use crate::file::{FileHandle, WriteVerifier};
use crate::limits::GATHERED_CALL_BYTES;
use crate::options::{GonePolicy, StablePolicy};
use crate::process::this_process;
use crate::rpc::gone_report::GoneReport;
use crate::rpc::pool::Pool;
use crate::rpc::program::Program;
use crate::rpc::route::{RetryPolicy, Route};
use crate::rpc::tls_config::TlsConfig;
use crate::slot_limiter::{SlotLimiter, SlotPermit};
use crate::sys::local_file::Errno;
use crate::url::NfsUrl;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest wait for an answer while mounting.
pub(crate) const MOUNT_ANSWER: Duration = Duration::from_secs(10);

/// The result of mounting. Another process can use it without asking the server again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountParts {
    /// The NFS service: the address of the server that is in use.
    pub server: SocketAddr,
    /// All addresses of the server and of this host.
    pub addresses: AddressSet,
    /// Handle of the directory that the URL names.
    pub root: FileHandle,
    /// Largest READ, in bytes.
    pub rtmax: u32,
    /// Largest WRITE, in bytes.
    pub wtmax: u32,
    /// Size of WRITE that the server prefers, in bytes.
    pub wtpref: u32,
    /// Bytes that one READDIRPLUS requests.
    pub dtpref: u32,
    /// File system of the root; 0 if the server did not return it.
    pub fsid: u64,
    /// Which host of [`NfsUrl::server_set`] is in use: under TLS the server's certificate must have that name.
    pub host: u32,
}

/// Numbers of calls in this process, and their payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// READ calls.
    pub read_calls: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// WRITE calls.
    pub write_calls: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// COMMIT calls.
    pub commit_calls: u64,
    /// All other calls.
    pub other_calls: u64,
    /// Calls resent on a new connection.
    pub resends: u64,
    /// Reconnects.
    pub reconnects: u64,
}

#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    pub(crate) read_calls: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) write_calls: AtomicU64,
    pub(crate) write_bytes: AtomicU64,
    pub(crate) commit_calls: AtomicU64,
    pub(crate) other_calls: AtomicU64,
}

#[derive(Debug)]
pub struct ClientState {
    pub(crate) route: Route,
    pub(crate) pool: Pool,
    pub(crate) parts: MountParts,
    /// `rtmax` and `wtmax` of the server, which the URL may lower.
    offered: (u32, u32),
    /// Limits the calls in flight, if `slots=` is set.
    pub(crate) slot_limiter: Option<SlotLimiter>,
    pub(crate) always_stable: bool,
    pub(crate) gone_policy: GonePolicy,
    /// Reports that the server no longer exports the volume.
    pub(crate) gone: GoneReport,
    /// Bytes of one WRITE of available data: more than the server prefers, unless the URL sets a size.
    pub(crate) gathered_bytes: u32,
    pub(crate) counts: CallCounts,
    /// Number of connections that had been made when the server last sent its verifier.
    pub(crate) proven: AtomicU64,
}

impl ClientState {
    /// As [`Self::assemble`], with the certificates that the URL names.
    ///
    /// # Errors
    /// As [`Self::assemble`]; under TLS, certificates that cannot be read or used.
    pub(crate) fn new(
        program: Program,
        parts: MountParts,
        url: &NfsUrl,
        who: &Credentials,
        retry_policy: RetryPolicy,
    ) -> Result<Self, Error> {
        let host = url.server_set().get(parts.host as usize).copied().unwrap_or_else(|| url.server());
        let tls_config = TlsConfig::of(url, host)?;
        Self::assemble(program, parts, url, who, retry_policy, tls_config)
    }

    /// The state of a client that calls this program.
    ///
    /// # Errors
    /// No memory for the table of `slots=`.
    pub(crate) fn assemble(
        program: Program,
        parts: MountParts,
        url: &NfsUrl,
        who: &Credentials,
        retry_policy: RetryPolicy,
        tls_config: Option<TlsConfig>,
    ) -> Result<Self, Error> {
        let mut route = Route::new(parts.server, program, who, retry_policy);
        route.resend_after = url.options.resend_after;
        route.fence = url.options.fence;
        route.privileged_port = url.options.privileged_port;
        route.tls_config = tls_config;
        route.root = Some(parts.root);
        route.local.clone_from(&url.options.local);
        if retry_policy == RetryPolicy::Mounting {
            route.resend_after = route.resend_after.min(MOUNT_ANSWER);
        }
        let always_stable = url.options.stable == StablePolicy::Always;
        let offered = (parts.rtmax, parts.wtmax);
        let gathered_bytes = parts.wtmax.min(url.options.write_bytes_max(parts.wtpref.max(GATHERED_CALL_BYTES)));
        let parts = MountParts {
            rtmax: parts.rtmax.min(url.options.read_bytes_max()),
            wtmax: parts.wtmax.min(url.options.write_bytes_max(parts.wtpref)),
            ..parts
        };
        Ok(Self {
            route,
            pool: Pool::new(url.options.channel_count),
            parts,
            offered,
            slot_limiter: url.options.slot_count.map(SlotLimiter::alone).transpose().map_err(no_slot_table)?,
            always_stable,
            gone_policy: url.options.gone,
            gone: GoneReport::of(&url.export_path),
            gathered_bytes,
            counts: CallCounts::default(),
            proven: AtomicU64::new(0),
        })
    }

    /// The state of the same client for calls with other credentials, with its own connections. Reads no file and sends no call.
    ///
    /// # Errors
    /// No memory for the table of `slots=`.
    pub(crate) fn with_credentials(&self, url: &NfsUrl, who: &Credentials) -> Result<Self, Error> {
        let (route, who) = (&self.route, who.for_url(url));
        let mut other = Self::assemble(route.program, self.offered(), url, &who, route.retry_policy, route.tls_config.clone())?;
        other.route.share_with(route);
        Ok(other)
    }

    /// The address of the server that is in use.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.route.server()
    }

    /// The result of mounting.
    #[must_use]
    pub const fn parts(&self) -> MountParts {
        self.parts
    }

    /// As [`Self::parts`], without the URL's options: for another process.
    pub(crate) const fn offered(&self) -> MountParts {
        let (rtmax, wtmax) = self.offered;
        MountParts { rtmax, wtmax, ..self.parts }
    }

    /// Fences the connections that a process made under this number, its own or another's. False if the server does not support
    /// that.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn fence(&self, number: u64) -> Result<bool, Error> {
        self.pool.with(|channel| channel.fence(&self.route, number))
    }

    /// Closes the connection, for a client that is seldom used.
    pub(crate) fn disconnect(&self) {
        self.pool.with(crate::rpc::channel::Channel::disconnect);
    }

    /// Called in a child after fork; async-signal-safe. The client never uses the parent's connections again.
    pub fn after_fork_child(&self) {
        this_process().note_fork();
        self.pool.reset_after_fork();
    }

    /// Calls so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            read_calls: count(&self.counts.read_calls),
            read_bytes: count(&self.counts.read_bytes),
            write_calls: count(&self.counts.write_calls),
            write_bytes: count(&self.counts.write_bytes),
            commit_calls: count(&self.counts.commit_calls),
            other_calls: count(&self.counts.other_calls),
            resends: count(&self.route.counts.resends),
            reconnects: count(&self.route.counts.reconnects),
        }
    }

    /// Permission to send up to `wanted` calls together. `None` if there is no limit.
    pub(crate) fn admit(&self, wanted: usize) -> Option<SlotPermit<'_>> {
        self.slot_limiter.as_ref().map(|slot_limiter| slot_limiter.acquire(wanted))
    }

    /// Calls in flight, of this process or of all that share the mount. `None` without a limit.
    #[must_use]
    pub fn slots(&self) -> Option<SlotUse> {
        self.slot_limiter.as_ref().map(|slot_limiter| SlotUse::of(slot_limiter.table()))
    }

    pub(crate) fn incomplete(&self, what: &'static str) -> Error {
        Error::Protocol { server: self.route.server(), source: ProtocolError::Missing(what) }
    }

    /// The server's verifier as `ask` returns it, if a connection was made since the last request for it. Each new
    /// connection may lead to a server that restarted and lost unstable writes, which no READ shows.
    ///
    /// # Errors
    /// Those of `ask`. After an error, or if `ask` returned no verifier, the next call asks again.
    pub(crate) fn verifier_after_connect(
        &self,
        ask: impl FnOnce() -> Result<Option<WriteVerifier>, Error>,
    ) -> Result<Option<WriteVerifier>, Error> {
        let made = self.route.counts.connections.load(Ordering::Acquire);
        if made == self.proven.load(Ordering::Acquire) {
            return Ok(None);
        }
        let verifier = ask()?;
        if verifier.is_some() {
            self.proven.store(made, Ordering::Release);
        }
        Ok(verifier)
    }
}

/// `slots=` is set and there is no memory for the table: mounting fails rather than ignore the limit.
fn no_slot_table(errno: Errno) -> Error {
    Error::Local { action: "map the table for slots=", source: std::io::Error::from_raw_os_error(errno.0) }
}
