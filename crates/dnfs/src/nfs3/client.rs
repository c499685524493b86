//! The client of one export: mounts it, and sends every typed call.

use super::export;
use crate::activity::SlotUse;
use crate::address::AddressSet;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{Attributes, FileHandle, FileKind, FsError};
use crate::limits::{DIRECTORY_BYTES, GATHERED_CALL_BYTES, IO_BYTES_MAX, JUKEBOX_MS_MAX, JUKEBOX_MS_MIN};
use crate::nfs3::procedures::NFS;
use crate::nfs3::single_call::SingleCall;
use crate::nfs3::types::{self as convert, refusal};
use crate::options::GonePolicy;
use crate::process::this_process;
use crate::rpc::fault::Fault;
use crate::rpc::pool::Pool;
use crate::rpc::service::{RetryPolicy, Service};
use crate::rpc::silence::Silence;
use crate::rpc::tls_config::TlsConfig;
use crate::slot_limiter::{SlotLimiter, SlotPermit};
use crate::sys::clock;
use crate::sys::connect::SOCKET_TIMEOUT;
use crate::url::NfsUrl;
use nfs_proto::nfs3::{FsInfoOk, FsInfoResult, NfsStatus, ObjectArgs, Outcome, Procedure};
use nfs_proto::xdr::{Decode, Encode, Reader};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

impl CallCounts {
    /// Counts a call other than READ and WRITE, which count themselves. Counters only increase, so that concurrent readers see
    /// consistent values.
    fn count(&self, procedure: Procedure) {
        let counter = if procedure == Procedure::Commit { &self.commit_calls } else { &self.other_calls };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A mounted export. Every call blocks its caller, which drives the connection; there are no helper threads.
///
/// Mounts are hard by default: the client waits for a server that does not answer, and then resends every unanswered call with
/// the same xid and from the same port. The client may be used from several threads, from a signal handler inside a call, and
/// in a child after fork, which makes its own connections. Reading, writing and committing do not allocate.
#[derive(Debug)]
pub struct Client {
    pub(crate) service: Service,
    pub(crate) pool: Pool,
    pub(crate) parts: MountParts,
    /// `rtmax` and `wtmax` of the server, which the URL may lower.
    offered: (u32, u32),
    /// Limits the calls in flight, if `slots=` is set.
    pub(crate) slot_limiter: Option<SlotLimiter>,
    pub(crate) always_stable: bool,
    pub(crate) gone_policy: GonePolicy,
    /// Bytes of one WRITE of available data: more than the server prefers, unless the URL sets a size.
    pub(crate) gathered_bytes: u32,
    pub(crate) counts: CallCounts,
    /// Number of connections that had been made when the server last sent its verifier.
    pub(crate) proven: AtomicU64,
}

/// How often the server refused the handle of one call.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// The call was repeated after the server had answered for the root.
    pub(crate) is_repeated: bool,
}

impl Client {
    /// The address of the server that is in use.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.service.server()
    }

    /// Mounts what `url` names: MNT, then FSINFO.
    ///
    /// A path below an export is reached by LOOKUP if the server only accepts the export itself in MNT.
    ///
    /// # Errors
    /// Any reason why it cannot be mounted now. Does not wait.
    pub fn mount(url: &NfsUrl, who: &Credentials) -> Result<Self, Error> {
        Self::mount_reporting(url, who, &Arc::default())
    }

    /// As [`Self::mount`]. A wait is reported as one of these reports.
    pub(crate) fn mount_reporting(url: &NfsUrl, who: &Credentials, silence: &Arc<Silence>) -> Result<Self, Error> {
        let (client, rest) = Self::mount_part(url, who, silence)?;
        client.descend(&rest)
    }

    /// Mounts the longest part of the path that can be mounted. Returns the remaining components.
    ///
    /// # Errors
    /// As [`Self::mount`].
    pub fn mount_prefix(url: &NfsUrl, who: &Credentials) -> Result<(Self, Vec<Vec<u8>>), Error> {
        Self::mount_part(url, who, &Arc::default())
    }

    fn mount_part(url: &NfsUrl, who: &Credentials, silence: &Arc<Silence>) -> Result<(Self, Vec<Vec<u8>>), Error> {
        let who = who.for_url(url);
        let mounted = export::mount(url, &who, silence)?;
        let mut parts = MountParts {
            server: mounted.nfs,
            addresses: mounted.addresses,
            root: mounted.root,
            rtmax: IO_BYTES_MAX,
            wtmax: IO_BYTES_MAX,
            wtpref: IO_BYTES_MAX,
            dtpref: DIRECTORY_BYTES,
            fsid: 0,
            host: mounted.host,
        };
        let mut probe = Self::with_retry_policy(parts, url, &who, RetryPolicy::Mounting)?;
        probe.service.silence = Arc::clone(silence);
        let info = probe.fsinfo(&parts.root).map_err(export::name_version)?;
        parts.rtmax = transfer_bytes(info.read_max, parts.rtmax);
        parts.wtmax = transfer_bytes(info.write_max, parts.wtmax);
        parts.wtpref = if info.write_preferred == 0 { parts.wtmax } else { transfer_bytes(info.write_preferred, parts.wtmax) };
        parts.fsid = match info.attributes {
            Some(attributes) => attributes.fsid,
            None => probe.getattr(&parts.root)?.fsid,
        };
        let mut client = Self::from_parts(parts, url, &who)?;
        client.service.silence = Arc::clone(silence);
        Ok((client, mounted.rest))
    }

    /// The client of an export that was mounted before, perhaps by another process. Sends no call.
    ///
    /// # Errors
    /// Under TLS, certificates that cannot be read or used.
    pub fn from_parts(parts: MountParts, url: &NfsUrl, who: &Credentials) -> Result<Self, Error> {
        let retry_policy = if url.options.soft {
            RetryPolicy::Soft(url.options.resend_after * (url.options.retries + 1))
        } else {
            RetryPolicy::Hard
        };
        Self::with_retry_policy(parts, url, &who.for_url(url), retry_policy)
    }

    /// The same client for calls with other credentials, with its own connections. Reads no file and sends no call.
    ///
    /// # Errors
    /// No memory for the table of `slots=`.
    pub(crate) fn with_credentials(&self, url: &NfsUrl, who: &Credentials) -> Result<Self, Error> {
        let mut client =
            Self::assemble(self.offered(), url, &who.for_url(url), self.service.retry_policy, self.service.tls_config.clone())?;
        client.service.share_with(&self.service);
        Ok(client)
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
        self.pool.with(|channel| channel.fence(&self.service, number))
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
            resends: count(&self.service.resends),
            reconnects: count(&self.service.reconnects),
        }
    }

    fn with_retry_policy(parts: MountParts, url: &NfsUrl, who: &Credentials, retry_policy: RetryPolicy) -> Result<Self, Error> {
        let host = url.server_set().get(parts.host as usize).copied().unwrap_or_else(|| url.server());
        let tls_config = TlsConfig::of(url, host)?;
        Self::assemble(parts, url, who, retry_policy, tls_config)
    }

    fn assemble(
        parts: MountParts,
        url: &NfsUrl,
        who: &Credentials,
        retry_policy: RetryPolicy,
        tls_config: Option<TlsConfig>,
    ) -> Result<Self, Error> {
        let mut service = Service::new(parts.server, NFS, who, retry_policy);
        service.resend_after = url.options.resend_after;
        service.fence = url.options.fence;
        service.privileged_port = url.options.privileged_port;
        service.tls_config = tls_config;
        service.root = crate::nfs3::types::handle(&parts.root).ok();
        service.gone.export = url.export_path.as_str().into();
        service.local.clone_from(&url.options.local);
        if retry_policy == RetryPolicy::Mounting {
            service.resend_after = service.resend_after.min(export::MOUNT_ANSWER);
        }
        let always_stable = url.options.stable == crate::options::StablePolicy::Always;
        let offered = (parts.rtmax, parts.wtmax);
        let gathered_bytes = parts.wtmax.min(url.options.write_bytes_max(parts.wtpref.max(GATHERED_CALL_BYTES)));
        let parts = MountParts {
            rtmax: parts.rtmax.min(url.options.read_bytes_max()),
            wtmax: parts.wtmax.min(url.options.write_bytes_max(parts.wtpref)),
            ..parts
        };
        Ok(Self {
            service,
            pool: Pool::new(url.options.channel_count),
            parts,
            offered,
            slot_limiter: url.options.slot_count.map(SlotLimiter::alone).transpose().map_err(no_slot_table)?,
            always_stable,
            gone_policy: url.options.gone,
            gathered_bytes,
            counts: CallCounts::default(),
            proven: AtomicU64::new(0),
        })
    }

    /// The same client with a directory below as its root.
    fn descend(mut self, components: &[Vec<u8>]) -> Result<Self, Error> {
        for name in components {
            let (object, _) = self.lookup(&self.parts.root, name)?;
            self.parts.root = object;
        }
        if !components.is_empty() {
            let attributes = self.getattr(&self.parts.root)?;
            if attributes.kind != FileKind::Directory {
                return Err(Error::Fs(FsError::NotDirectory));
            }
            self.parts.fsid = attributes.fsid;
        }
        Ok(self)
    }

    /// Sends a call whose result is owned. Also returns whether it was resent.
    pub(crate) fn call<A, O, F>(&self, procedure: Procedure, arguments: &A) -> Result<(Outcome<O, F>, bool), Error>
    where
        A: Encode,
        Outcome<O, F>: for<'a> Decode<'a>,
    {
        let mut slot = None;
        let resent = self.call_with(procedure, arguments, |results| {
            let outcome: Outcome<O, F> = Decode::decode(results)?;
            let status = outcome.as_ref().map_or_else(|failure| failure.status, |_| NfsStatus::Ok);
            slot = Some(outcome);
            Ok(status)
        })?;
        match slot {
            Some(outcome) => Ok((outcome, resent)),
            None => Err(self.incomplete("results")),
        }
    }

    /// Sends a call whose results are decoded where they were received; `look` returns their status. Returns whether the call
    /// was resent. Waits while the server does not export the volume.
    pub(crate) fn call_with<A: Encode>(
        &self,
        procedure: Procedure,
        arguments: &A,
        mut look: impl FnMut(&mut Reader<'_>) -> Result<NfsStatus, Fault>,
    ) -> Result<bool, Error> {
        let (mut refusals, mut resent) = (Refusals::default(), false);
        loop {
            let (status, resent_now) = self.call_once(procedure, arguments, &mut look)?;
            resent |= resent_now;
            if !self.is_to_repeat(status, &mut refusals)? {
                return Ok(resent);
            }
        }
    }

    /// As [`Self::call_with`], but does not wait for the export. Returns the status of the reply, and whether the call was
    /// resent.
    pub(crate) fn call_once<A: Encode>(
        &self,
        procedure: Procedure,
        arguments: &A,
        look: &mut impl FnMut(&mut Reader<'_>) -> Result<NfsStatus, Fault>,
    ) -> Result<(NfsStatus, bool), Error> {
        self.counts.count(procedure);
        let mut single = SingleCall::new(procedure.number(), arguments, look);
        let mut resent = false;
        let mut pause = Jukebox::new();
        loop {
            let slots = self.admit(1);
            single.again();
            resent |= self.pool.with(|channel| channel.run(&self.service, &mut single))?;
            drop(slots); // not held while waiting
            if single.status != NfsStatus::JukeBox {
                return Ok((single.status, resent));
            }
            pause.wait(&self.service);
        }
    }

    /// GETATTR of a handle, which fails if the server does not answer within `time`. Does not wait for an export that is gone.
    /// For a client that no other thread uses yet.
    ///
    /// # Errors
    /// The server's refusal; [`Error::TimedOut`].
    pub(crate) fn getattr_within(&mut self, object: &FileHandle, time: Duration) -> Result<Attributes, Error> {
        let before = (self.service.retry_policy, self.service.resend_after, self.gone_policy);
        (self.service.retry_policy, self.service.resend_after) = (RetryPolicy::Soft(time), before.1.min(time));
        self.gone_policy = GonePolicy::Error;
        let answer = self.getattr(object);
        (self.service.retry_policy, self.service.resend_after, self.gone_policy) = before;
        answer
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
        Error::Protocol { server: self.service.server(), source: crate::error::ProtocolError::Missing(what) }
    }

    /// Limits and preferences of the server, RFC 1813 3.3.19.
    fn fsinfo(&self, object: &FileHandle) -> Result<FsInfoOk, Error> {
        let arguments = ObjectArgs { object: convert::handle(object)? };
        let (outcome, _): (FsInfoResult, _) = self.call(Procedure::FsInfo, &arguments)?;
        outcome.map_err(|failure| refusal(failure.status))
    }
}

/// The pauses after NFS3ERR_JUKEBOX, which become longer each time.
#[derive(Debug)]
pub(crate) struct Jukebox {
    pause: Duration,
}

impl Jukebox {
    pub(crate) const fn new() -> Self {
        Self { pause: Duration::from_millis(JUKEBOX_MS_MIN) }
    }

    pub(crate) fn wait(&mut self, service: &Service) {
        let mut left = self.pause;
        while !left.is_zero() {
            service.renew_leases();
            let part = left.min(SOCKET_TIMEOUT);
            clock::sleep(part);
            left -= part;
        }
        self.pause = (self.pause * 2).min(Duration::from_millis(JUKEBOX_MS_MAX));
    }
}

/// `slots=` is set and there is no memory for the table: mounting fails rather than ignore the limit.
fn no_slot_table(errno: crate::sys::local_file::Errno) -> Error {
    Error::Local { action: "map the table for slots=", source: std::io::Error::from_raw_os_error(errno.0) }
}

/// The smaller of the server's and the user's size. 0 from the server counts as 8192.
fn transfer_bytes(server: u32, wanted: u32) -> u32 {
    let server = if server == 0 { 8192 } else { server };
    server.min(wanted).clamp(512, IO_BYTES_MAX)
}
