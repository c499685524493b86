//! A received call, with the information about it that is needed before it is executed.

use std::time::Instant;

use nfs_proto::nfs3::{self, Procedure, ReadArgs, StableHow, WriteArgs};
use nfs_proto::rpc::{AUTH_TLS, CallHeader, OpaqueAuth, RPC_VERSION, Xid};
use nfs_proto::xdr::{Decode, Reader, decode_all};
use nfs_proto::{mount3, portmap2};

use crate::connections::delivery::SentMarks;
use crate::limits::{LISTING_BYTES_MAX, TRANSFER_MAX};

/// The next step of the driver after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Served {
    /// A reply record was appended, or the call gets no reply.
    Answered,
    /// A reply record was appended that must not leave before this time: the modelled medium is not done.
    Due(Instant),
    /// Nothing was done or appended. The call may not wait, and it is a READ that would wait for the store or a listing of a large
    /// directory. The caller serves it again as [`Call::waiting`].
    Cold,
    /// A reply record was appended that is the last of this connection.
    Last,
    /// An injected fault resets the connection. Nothing was appended.
    Reset,
    /// The bytes are not an RPC call: close the connection.
    Close,
}

/// Where a stable write leaves the flush that must be [done](volume::flush_deferred) before its reply may leave.
pub type Later = std::cell::RefCell<Option<volume::DeferredFlush>>;

/// Marks of appended replies whose delivery the filer may ask for later. The thread that sends the replies passes the marks on, so that
/// they are set.
pub(crate) type Marks = std::cell::RefCell<SentMarks>;

/// A call whose header was read.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub(super) header: CallHeader<'a>,
    pub(super) arguments: &'a [u8],
    pub(super) record: &'a [u8],
    pub(super) may_wait: bool,
    pub(super) later: Option<&'a Later>,
    pub(super) marks: Option<&'a Marks>,
    pub(super) received_at: Option<Instant>,
}

impl<'a> Call<'a> {
    /// Reads the header of a call record. `None` if it is not an RPC call.
    #[must_use]
    pub fn parse(record: &'a [u8]) -> Option<Self> {
        let mut input = Reader::new(record);
        let header = CallHeader::decode(&mut input).ok()?;
        Some(Self { header, arguments: input.rest(), record, may_wait: true, later: None, marks: None, received_at: None })
    }

    /// The same call, which may not wait. A READ that would wait for the store and a listing of a large directory are not executed: see
    /// [`Served::Cold`].
    #[must_use]
    pub const fn without_waiting(mut self) -> Self {
        self.may_wait = false;
        self
    }

    /// The same call, which may take any time.
    #[must_use]
    pub const fn waiting(mut self) -> Self {
        self.may_wait = true;
        self
    }

    /// The same call. If it is a stable WRITE, its reply is appended before the flush, and must not leave before the flush in `later` is
    /// done.
    #[must_use]
    pub const fn settled_later(mut self, later: &'a Later) -> Self {
        self.later = Some(later);
        self
    }

    /// The same call. The mark of its reply, if it has one, is added to `marks`.
    #[must_use]
    pub(crate) const fn marking(mut self, marks: &'a Marks) -> Self {
        self.marks = Some(marks);
        self
    }

    /// The same call with the time at which it was received. Its latency counts from then, otherwise from the start of its execution.
    #[must_use]
    pub const fn received_at(mut self, received_at: Instant) -> Self {
        self.received_at = Some(received_at);
        self
    }

    /// Pairs the reply with the call.
    #[must_use]
    pub const fn xid(&self) -> Xid {
        self.header.xid
    }

    /// The number of its program.
    pub(crate) const fn program(&self) -> u32 {
        self.header.program
    }

    /// The procedure, if it is a call of NFS version 3.
    #[must_use]
    pub const fn nfs_procedure(&self) -> Option<Procedure> {
        let is_nfs3 = self.header.program == nfs3::PROGRAM && self.header.version == nfs3::VERSION;
        if is_nfs3 { Procedure::from_number(self.header.procedure) } else { None }
    }

    /// The arguments of a stable WRITE. `None` for other calls.
    #[must_use]
    pub fn stable_write(&self) -> Option<WriteArgs<'a>> {
        self.nfs_procedure().filter(|procedure| *procedure == Procedure::Write)?;
        decode_all::<WriteArgs<'_>>(self.arguments).ok().filter(|args| args.stable != StableHow::Unstable)
    }

    /// Largest size of its reply without headers, in bytes: the size that a READ or a listing requests. Replies of other calls for
    /// workers are so small that they count as 0.
    #[must_use]
    pub fn reply_bytes_max(&self) -> usize {
        match self.nfs_procedure() {
            Some(Procedure::Read) => {
                decode_all::<ReadArgs>(self.arguments).map_or(0, |args| args.count.min(TRANSFER_MAX) as usize)
            }
            Some(Procedure::ReadDir | Procedure::ReadDirPlus) => LISTING_BYTES_MAX as usize,
            _ => 0,
        }
    }

    /// Whether the call lists a directory.
    #[must_use]
    pub fn is_listing(&self) -> bool {
        matches!(self.nfs_procedure(), Some(Procedure::ReadDir | Procedure::ReadDirPlus))
    }

    /// Whether the call does nothing: procedure 0 of any program.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.header.procedure == 0
    }

    /// Whether the call asks for TLS (RFC 9289 4.1).
    #[must_use]
    pub fn asks_for_tls(&self) -> bool {
        let CallHeader { rpc_version, program, credential, verifier, .. } = self.header;
        self.is_null()
            && credential.flavor == AUTH_TLS
            && credential.body.0.is_empty()
            && verifier == OpaqueAuth::NONE
            && rpc_version == RPC_VERSION
            && matches!(program, nfs3::PROGRAM | mount3::PROGRAM | portmap2::PROGRAM)
    }

    /// Whether the call will wait for the medium: stable writes, commits and changes of names and attributes.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        match self.nfs_procedure() {
            Some(Procedure::Write) => self.stable_write().is_some(),
            Some(procedure) => procedure == Procedure::Commit || !procedure.is_idempotent(),
            None => false,
        }
    }
}
