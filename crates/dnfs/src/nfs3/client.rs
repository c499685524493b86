//! The client of one export: mounts it, and sends every typed call.

use super::export;
use crate::client_state::{CallCounts, ClientState, MountParts};
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{FileHandle, FileKind, FsError};
use crate::limits::{DIRECTORY_BYTES, IO_BYTES_MAX, JUKEBOX_MS_MAX, JUKEBOX_MS_MIN};
use crate::nfs3::procedures::NFS;
use crate::nfs3::single_call::SingleCall;
use crate::nfs3::types::{self as convert, refusal};
use crate::protocol::FileProtocol as _;
use crate::rpc::fault::Fault;
use crate::rpc::route::{RetryPolicy, Route};
use crate::rpc::silence::Silence;
use crate::sys::clock;
use crate::sys::connect::SOCKET_TIMEOUT;
use crate::url::NfsUrl;
use nfs_proto::nfs3::{FsInfoOk, FsInfoResult, NfsStatus, ObjectArgs, Outcome, Procedure};
use nfs_proto::xdr::{Decode, Encode, Reader};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the server refused the handle of one call.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// The call was repeated after the server had answered for the root.
    pub(crate) is_repeated: bool,
}

/// A mounted export over NFSv3.
#[derive(Debug)]
pub(crate) struct Nfs3 {
    pub(super) state: ClientState,
}

impl Deref for Nfs3 {
    type Target = ClientState;

    fn deref(&self) -> &ClientState {
        &self.state
    }
}

impl DerefMut for Nfs3 {
    fn deref_mut(&mut self) -> &mut ClientState {
        &mut self.state
    }
}

/// Counts a call other than READ and WRITE, which count themselves. Counters only increase, so that concurrent readers see
/// consistent values.
fn count(counts: &CallCounts, procedure: Procedure) {
    let counter = if procedure == Procedure::Commit { &counts.commit_calls } else { &counts.other_calls };
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Nfs3 {
    /// Mounts what `url` names: MNT, then FSINFO.
    ///
    /// A path below an export is reached by LOOKUP if the server only accepts the export itself in MNT.
    ///
    /// # Errors
    /// Any reason why it cannot be mounted now. Does not wait.
    ///
    /// A wait is reported as one of these reports.
    pub(crate) fn mount(url: &NfsUrl, who: &Credentials, silence: &Arc<Silence>) -> Result<Self, Error> {
        let (client, rest) = Self::mount_prefix(url, who, silence)?;
        client.descend(&rest)
    }

    /// Mounts the longest part of the path that can be mounted. Returns the remaining components.
    ///
    /// # Errors
    /// As [`Self::mount`].
    pub(crate) fn mount_prefix(url: &NfsUrl, who: &Credentials, silence: &Arc<Silence>) -> Result<(Self, Vec<Vec<u8>>), Error> {
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
        let mut probe = Self::of(parts, url, &who, RetryPolicy::Mounting)?;
        probe.route.endpoints.silence = Arc::clone(silence);
        let info = probe.fsinfo(&parts.root).map_err(export::name_version)?;
        parts.rtmax = transfer_bytes(info.read_max, parts.rtmax);
        parts.wtmax = transfer_bytes(info.write_max, parts.wtmax);
        parts.wtpref = if info.write_preferred == 0 { parts.wtmax } else { transfer_bytes(info.write_preferred, parts.wtmax) };
        parts.fsid = match info.attributes {
            Some(attributes) => attributes.fsid,
            None => probe.getattr(&parts.root)?.fsid,
        };
        let mut client = Self::from_parts(parts, url, &who)?;
        client.route.endpoints.silence = Arc::clone(silence);
        Ok((client, mounted.rest))
    }

    /// The client of an export that was mounted before, perhaps by another process. Sends no call.
    ///
    /// # Errors
    /// Under TLS, certificates that cannot be read or used.
    pub(crate) fn from_parts(parts: MountParts, url: &NfsUrl, who: &Credentials) -> Result<Self, Error> {
        let retry_policy = if url.options.soft {
            RetryPolicy::Soft(url.options.resend_after * (url.options.retries + 1))
        } else {
            RetryPolicy::Hard
        };
        Self::of(parts, url, &who.for_url(url), retry_policy)
    }

    fn of(parts: MountParts, url: &NfsUrl, who: &Credentials, retry_policy: RetryPolicy) -> Result<Self, Error> {
        Ok(Self { state: ClientState::new(NFS, parts, url, who, retry_policy)? })
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
        count(&self.counts, procedure);
        let mut single = SingleCall::new(procedure.number(), arguments, look);
        let mut resent = false;
        let mut pause = Jukebox::new();
        loop {
            let slots = self.admit(1);
            single.again();
            resent |= self.pool.with(|channel| channel.run(&self.route, &mut single))?;
            drop(slots); // not held while waiting
            if single.status != NfsStatus::JukeBox {
                return Ok((single.status, resent));
            }
            pause.wait(&self.route);
        }
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

    pub(crate) fn wait(&mut self, route: &Route) {
        let mut left = self.pause;
        while !left.is_zero() {
            route.membership.renew_leases();
            let part = left.min(SOCKET_TIMEOUT);
            clock::sleep(part);
            left -= part;
        }
        self.pause = (self.pause * 2).min(Duration::from_millis(JUKEBOX_MS_MAX));
    }
}

/// The smaller of the server's and the user's size. 0 from the server counts as 8192.
fn transfer_bytes(server: u32, wanted: u32) -> u32 {
    let server = if server == 0 { 8192 } else { server };
    server.min(wanted).clamp(512, IO_BYTES_MAX)
}
