//! Errors that end a connection, on either side.

use crate::pdu::PduError;
use crate::text::TextError;
use thiserror::Error;

/// Why a connection must be closed at once, without a response. At error recovery level 0 there is no other remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The bytes are not a valid PDU.
    #[error("read a PDU")]
    Pdu(#[from] PduError),
    /// The text is not valid.
    #[error("read text keys")]
    Text(#[from] TextError),
    /// The PDU is not allowed now.
    #[error("opcode {opcode:#04x} is not allowed {phase}")]
    Misplaced {
        /// Its opcode.
        opcode: u8,
        /// The phase in which it is not allowed.
        phase: &'static str,
    },
    /// A sequence number is not the expected one.
    #[error("{what} is {got}, not {expected}")]
    Number {
        /// The name of the number.
        what: &'static str,
        /// The received number.
        got: u32,
        /// The expected number.
        expected: u32,
    },
    /// More bytes or items than negotiated.
    #[error("{what}: {got}, over the limit {limit}")]
    Limit {
        /// The name of the limited quantity.
        what: &'static str,
        /// The received quantity.
        got: u32,
        /// The limit.
        limit: u32,
    },
    /// Another violation of RFC 7143.
    #[error("{0}")]
    Protocol(&'static str),
}
