//! Why a connection cannot go on, from either side.

use crate::pdu::PduError;
use crate::text::TextError;
use thiserror::Error;

/// Why a connection has to be closed at once, without an answer: at error recovery level 0 nothing else mends it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// No PDU.
    #[error("read a PDU")]
    Pdu(#[from] PduError),
    /// No text.
    #[error("read text keys")]
    Text(#[from] TextError),
    /// A PDU that is not allowed now.
    #[error("opcode {opcode:#04x} is not allowed {phase}")]
    Misplaced {
        /// Its opcode.
        opcode: u8,
        /// When.
        phase: &'static str,
    },
    /// A number is not the one that is due.
    #[error("{what} is {got}, not {expected}")]
    Number {
        /// Which number.
        what: &'static str,
        /// As received.
        got: u32,
        /// The one that is due.
        expected: u32,
    },
    /// More bytes or items than were agreed on.
    #[error("{what}: {got}, over the limit {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        got: u32,
        /// The most that is accepted.
        limit: u32,
    },
    /// Something else that RFC 7143 forbids.
    #[error("{0}")]
    Protocol(&'static str),
}
