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

/// Why bytes are not a PDU. The connection cannot continue after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PduError {
    /// The data segment is longer than this side has declared to accept.
    #[error("data segment of {bytes} bytes, over the limit {limit}")]
    DataSegmentTooLong {
        /// Length of the segment, in bytes.
        bytes: usize,
        /// The accepted limit, in bytes.
        limit: usize,
    },
    /// The additional header segments are longer than those of any PDU.
    #[error("additional header segments of {bytes} bytes, over the limit {limit}")]
    AhsTooLong {
        /// Length of the segments, in bytes.
        bytes: usize,
        /// The accepted limit, in bytes.
        limit: usize,
    },
    /// An additional header segment is longer than the space for it.
    #[error("additional header segment at byte {at} does not fit")]
    AhsMalformed {
        /// Its offset from the start of the first segment, in bytes.
        at: usize,
    },
    /// The header digest is wrong: the header was changed on its way.
    #[error("header digest is {received:#010x}, computed {computed:#010x}")]
    HeaderDigest {
        /// The received digest.
        received: u32,
        /// The digest of the received bytes.
        computed: u32,
    },
    /// The data digest is wrong: the data was changed on its way.
    #[error("data digest is {received:#010x}, computed {computed:#010x}")]
    DataDigest {
        /// The received digest.
        received: u32,
        /// The digest of the received bytes.
        computed: u32,
    },
    /// The number is not an opcode of this direction.
    #[error("opcode {0:#04x} is unknown")]
    Opcode(u8),
    /// The slice is not exactly one PDU. This is a fault of the caller.
    #[error("{bytes} bytes are not one PDU of {needed}")]
    NotWhole {
        /// Length of the slice, in bytes.
        bytes: usize,
        /// Length of the PDU, in bytes.
        needed: usize,
    },
}
