//! Executes each non-idempotent call exactly once, however often its client sends it.
//!
//! [`ExactlyOnce`] is all that dispatch knows. It claims a call before it executes the call, and gives the reply to the claim. Each
//! implementation has its own way to recognise a resent call. NFSv3 has no sessions, so the [`ReplyCache`](reply_cache::ReplyCache)
//! compares xid, content and connection. A slot table of an NFSv4.1 session (RFC 8881 2.10.6) compares the sequence number of a slot:
//! the tests have one.

pub(super) mod reply_cache;
mod reply_order;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use nfs_proto::rpc::Xid;

use super::channels::ChannelId;
use crate::connections::connection::Connection;
use crate::connections::delivery::{Delivery, SentMark};

/// One sending of a call.
pub(crate) struct Attempt<'a> {
    pub(crate) xid: Xid,
    /// The complete record.
    pub(crate) record: &'a [u8],
    pub(crate) sender: Sender,
}

/// Where a call came from.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) client: IpAddr,
    pub(crate) connection: Delivery,
    /// The channel, if the connection carries one.
    pub(crate) channel: Option<ChannelId>,
}

/// What to do with a call that was claimed.
pub(crate) enum Claim<'a> {
    /// It is new: execute it, then call [`Execution::answered`].
    New(Box<dyn Execution + 'a>),
    /// It is being executed: send nothing. Its connection gets the reply when the call is answered.
    InProgress,
    /// It was executed: resend this reply record, with its mark.
    Answered(Arc<[u8]>, Option<SentMark>),
}

/// The claim on a call that is being executed. If it is dropped without a reply, the call was not executed: a later resend is new.
pub(crate) trait Execution {
    /// Takes the reply record and sends it to the connections of resends. `keep`: the call was executed, so later resends get this reply
    /// too. Returns the mark to be set when the call's own connection sends the reply.
    fn answered(self: Box<Self>, reply: &[u8], keep: bool) -> Option<SentMark>;
}

/// Recognises resent calls and stores the replies for them. Each method synchronizes itself.
pub(crate) trait ExactlyOnce: Send + Sync {
    /// Claims a call, or finds its reply.
    fn claim(&self, attempt: &Attempt<'_>) -> Claim<'_>;

    /// Called when a client has closed its connection, or when the filer stops.
    fn ended(&self, connection: &Arc<Connection>);

    /// Forgets all stored replies, as a reboot would. Calls that are being executed continue.
    fn forget(&self);

    /// What is stored now.
    fn contents(&self) -> Contents;
}

/// What is stored, and how often a stored reply was resent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) hits: u64,
    pub(crate) replies: usize,
    pub(crate) bytes: usize,
}
