//! The client of an export: chooses the version of the protocol.

use crate::activity::SlotUse;
use crate::client_state::{Counters, MountParts};
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{Attributes, FileHandle};
use crate::nfs3::client::Nfs3;
use crate::options::GonePolicy;
use crate::protocol::FileProtocol;
use crate::rpc::route::RetryPolicy;
use crate::rpc::silence::Silence;
use crate::url::NfsUrl;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A mounted export. Every call blocks its caller, which drives the connection; there are no helper threads.
///
/// Mounts are hard by default: the client waits for a server that does not answer, and then resends every unanswered call with
/// the same xid and from the same port. The client may be used from several threads, from a signal handler inside a call, and
/// in a child after fork, which makes its own connections. Reading, writing and committing do not allocate.
#[derive(Debug)]
pub struct Client(Box<dyn FileProtocol>);

impl Client {
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
        Nfs3::mount(url, who, silence).map(Self::of)
    }

    /// Mounts the longest part of the path that can be mounted. Returns the remaining components.
    ///
    /// # Errors
    /// As [`Self::mount`].
    pub fn mount_prefix(url: &NfsUrl, who: &Credentials) -> Result<(Self, Vec<Vec<u8>>), Error> {
        let (client, rest) = Nfs3::mount_prefix(url, who, &Arc::default())?;
        Ok((Self::of(client), rest))
    }

    /// The client of an export that was mounted before, perhaps by another process. Sends no call.
    ///
    /// # Errors
    /// Under TLS, certificates that cannot be read or used.
    pub fn from_parts(parts: MountParts, url: &NfsUrl, who: &Credentials) -> Result<Self, Error> {
        Nfs3::from_parts(parts, url, who).map(Self::of)
    }

    /// A client that speaks this protocol.
    pub(crate) fn of(protocol: impl FileProtocol + 'static) -> Self {
        Self(Box::new(protocol))
    }

    /// The same client for calls with other credentials, with its own connections. Reads no file and sends no call.
    ///
    /// # Errors
    /// No memory for the table of `slots=`.
    pub(crate) fn with_credentials(&self, url: &NfsUrl, who: &Credentials) -> Result<Self, Error> {
        self.0.with_credentials(url, who).map(Self)
    }

    /// The address of the server that is in use.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.state().server()
    }

    /// The result of mounting.
    #[must_use]
    pub fn parts(&self) -> MountParts {
        self.state().parts
    }

    /// Calls so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.state().counters()
    }

    /// Calls in flight, of this process or of all that share the mount. `None` without a limit.
    #[must_use]
    pub fn slots(&self) -> Option<SlotUse> {
        self.state().slots()
    }

    /// Called in a child after fork; async-signal-safe. The client never uses the parent's connections again.
    pub fn after_fork_child(&self) {
        self.state().after_fork_child();
    }

    /// GETATTR of a handle, which fails if the server does not answer within `time`. Does not wait for an export that is gone.
    /// For a client that no other thread uses yet.
    ///
    /// # Errors
    /// The server's refusal; [`Error::TimedOut`].
    pub(crate) fn getattr_within(&mut self, object: &FileHandle, time: Duration) -> Result<Attributes, Error> {
        let state = self.0.state_mut();
        let before = (state.route.retry_policy, state.route.resend_after, state.gone_policy);
        (state.route.retry_policy, state.route.resend_after) = (RetryPolicy::Soft(time), before.1.min(time));
        state.gone_policy = GonePolicy::Error;
        let answer = self.getattr(object);
        let state = self.0.state_mut();
        (state.route.retry_policy, state.route.resend_after, state.gone_policy) = before;
        answer
    }
}

impl core::ops::Deref for Client {
    type Target = dyn FileProtocol;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl core::ops::DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}
