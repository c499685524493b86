//! Why an attempt to get replies on a connection ended.

use super::denial;
use super::events::{Cause, Denial};
use super::route::Route;
use crate::error::{Error, ProtocolError};
use crate::sys::connect::{Connect, ConnectError};
use rpc_tls::{RecordFault, TlsFault};
use std::io;

/// Why an attempt on a connection ended before every call was answered.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No connection could be made.
    Connect(io::Error),
    /// No connection could be made, and this process can never make one.
    Denied(Denial),
    /// The server leaves a call unanswered while it answers others. The calls have to be sent under other xids.
    Unanswered,
    /// The connection broke, or ended.
    Broken(io::Error),
    /// Nothing arrived within the reply timeout (`timeo`).
    Unresponsive,
    /// The server's address changed after the connection was made.
    Moved,
    /// The server does not offer TLS.
    NoTls,
    /// The TLS handshake failed, or a record could not be decrypted.
    Tls(TlsFault),
    /// The process forked during the call: the connection belongs to the parent.
    Forked,
    /// The received bytes are not the expected reply.
    Malformed(ProtocolError),
    /// Another attempt would not help.
    Fatal(Error),
}

impl Fault {
    /// The cause to report for a server that callers wait for.
    pub(crate) const fn cause(&self) -> Cause {
        match self {
            Self::NoTls => Cause::NoTls,
            Self::Tls(_) => Cause::TlsFailed,
            _ => Cause::NoReply,
        }
    }

    /// Converts a failed attempt to connect.
    #[cold]
    pub(super) fn of_connect(failed: &ConnectError, how: &Connect, route: &Route) -> Self {
        denial::of_connect(failed, how, route).map_or_else(|| Self::Connect(failed.into()), Self::Denied)
    }

    /// Converts an error of a connection or of its TLS.
    pub(crate) fn of(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<RecordFault>()) {
            Some(fault) => Self::Tls((*fault).into()),
            None => denial::of_traffic(&error).map_or(Self::Broken(error), Self::Denied),
        }
    }
}

impl From<ProtocolError> for Fault {
    fn from(error: ProtocolError) -> Self {
        Self::Malformed(error)
    }
}

impl From<nfs_proto::xdr::DecodeError> for Fault {
    fn from(error: nfs_proto::xdr::DecodeError) -> Self {
        Self::Malformed(error.into())
    }
}
