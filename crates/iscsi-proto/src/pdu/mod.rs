//! PDUs (RFC 7143 11): basic header segments, additional header segments, data segments, padding and digests.
//!
//! ```text
//!    0      48        48+AHS      (+4)         data, padded to 4      (+4)
//!    | BHS   | AHS...   | header   | data segment                 | data    |
//!    |       |          | digest   |                              | digest  |
//! ```

mod ahs;
mod digest;
mod frame;
mod header;
mod request;
mod response;

pub use ahs::{Cdb, extended_cdb};
pub use digest::{DIGEST_BYTES, Digests, crc32c};
pub use frame::{FrameLimits, Framed, Pdu, frame, padded, parse};
pub use header::{BHS_BYTES, Bhs, Isid, Itt, Lun, Opcode, Ttt};
pub use request::{
    DataOut, LoginRequest, LogoutReason, LogoutRequest, NopOut, ScsiCommand, SnackRequest, TaskFunction, TaskRequest, TextRequest,
};
pub use response::{
    AsyncMessage, DataIn, LoginResponse, LogoutResponse, NopIn, R2t, Reject, RejectReason, ScsiResponse, TaskResponse,
    TextResponse,
};

pub(crate) use frame::append;

use thiserror::Error;

/// Bytes that are no PDU a connection can go on behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PduError {
    /// More data than was declared to be acceptable.
    #[error("data segment of {bytes} bytes, over the limit {limit}")]
    DataSegmentTooLong {
        /// Its length.
        bytes: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// More additional header segments than any PDU needs.
    #[error("additional header segments of {bytes} bytes, over the limit {limit}")]
    AhsTooLong {
        /// Their length.
        bytes: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// An additional header segment that does not end where it says.
    #[error("additional header segment at byte {at} does not fit")]
    AhsMalformed {
        /// Where it begins, counted from the first.
        at: usize,
    },
    /// The header is not what was sent.
    #[error("header digest is {received:#010x}, computed {computed:#010x}")]
    HeaderDigest {
        /// As received.
        received: u32,
        /// Over the bytes received.
        computed: u32,
    },
    /// The data is not what was sent.
    #[error("data digest is {received:#010x}, computed {computed:#010x}")]
    DataDigest {
        /// As received.
        received: u32,
        /// Over the bytes received.
        computed: u32,
    },
    /// A number that is not an opcode of this direction.
    #[error("opcode {0:#04x} is unknown")]
    Opcode(u8),
    /// The slice is not one whole PDU: the caller's fault.
    #[error("{bytes} bytes are not one PDU of {needed}")]
    NotWhole {
        /// Bytes given.
        bytes: usize,
        /// Bytes of the PDU.
        needed: usize,
    },
}
