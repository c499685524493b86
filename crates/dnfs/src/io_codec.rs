//! How READ and WRITE of one range look on the wire, for callers that drive a connection step by step: read-ahead, asynchronous I/O
//! and pipelines.

use crate::error::{Error, ProtocolError};
use crate::file::{Attributes, FileHandle, Stability};
use crate::rpc::calls::ReadHead;
use crate::rpc::fault::Fault;
use nfs_proto::xdr::{Reader, Writer};

/// READ and WRITE of one version of the protocol.
#[derive(Debug)]
pub struct IoCodec {
    /// Numbers of the procedures.
    pub(crate) read: u32,
    pub(crate) write: u32,
    /// Bytes before the data in the usual reply of a READ.
    pub(crate) read_head_bytes: usize,
    /// Reads these bytes. See [`crate::rpc::calls::Calls::read_head`].
    pub(crate) read_head: fn(&[u8], usize) -> Option<ReadHead>,
    /// Whether calls can have this handle. The other functions take no other handle.
    pub(crate) takes: fn(&FileHandle) -> bool,
    /// Appends the arguments of a READ: handle, offset, bytes.
    pub(crate) encode_read: fn(&FileHandle, u64, u32, &mut Writer<'_>),
    /// Appends the arguments of a WRITE up to its data: handle, offset, bytes, stability.
    pub(crate) encode_write: fn(&FileHandle, u64, u32, Stability, &mut Writer<'_>),
    pub(crate) decode_read: for<'r> fn(&mut Reader<'r>) -> Result<Result<ReadData<'r>, Refused>, Fault>,
    pub(crate) decode_write: fn(&mut Reader<'_>) -> Result<Result<Written, Refused>, Fault>,
}

/// The results of a READ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadData<'r> {
    pub(crate) data: &'r [u8],
    pub(crate) eof: bool,
}

/// The results of a WRITE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) count: usize,
    pub(crate) committed: Stability,
    pub(crate) attributes: Option<Attributes>,
}

/// Checks that a reply does not return more bytes than requested.
pub(crate) fn check_count(sent: usize, asked: usize) -> Result<(), ProtocolError> {
    if sent > asked { Err(ProtocolError::TooMuch { sent: sent as u64, asked: asked as u64 }) } else { Ok(()) }
}

/// Why the server refused a call.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The blocking call waits for the server, or finds that the file is gone.
    TryAlone(Error),
    /// Any other reason.
    Error(Error),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TryAlone(error) | Refused::Error(error) => error,
        }
    }
}
