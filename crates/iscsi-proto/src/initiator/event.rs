//! What an initiator's connection hands to its caller.

use crate::login::{LoginStatus, Parameters};
use crate::pdu::{Itt, RejectReason, Ttt};
use thiserror::Error;

/// What came of a PDU.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing for the caller. What there is to send is in the buffer.
    Nothing,
    /// The login is over.
    LoggedIn(Parameters),
    /// The login was refused; the connection is of no use any more.
    LoginRefused {
        /// Why.
        status: LoginStatus,
        /// Where the target is, if it moved: the value of TargetAddress.
        address: Option<String>,
    },
    /// Data that was read.
    Data {
        /// The command.
        itt: Itt,
        /// Where the data begins in that of the command.
        offset: u32,
        /// The data.
        data: &'a [u8],
        /// How the command ended, with its last data; sense data comes by [`Event::Ended`] alone.
        status: Option<Status>,
    },
    /// A command ended.
    Ended {
        /// The command.
        itt: Itt,
        /// How.
        status: Status,
        /// Sense data.
        sense: &'a [u8],
    },
    /// The target is ready for data: [`super::Initiator::data_out`] answers.
    Wanted(DataRequest),
    /// A task management function was answered.
    TaskManagement {
        /// The request.
        itt: Itt,
        /// RFC 7143 11.6.1, 0: done.
        response: u8,
    },
    /// A ping was answered.
    Pong {
        /// The ping.
        itt: Itt,
        /// What came back.
        data: &'a [u8],
    },
    /// A text request was answered.
    Text {
        /// The request.
        itt: Itt,
        /// The whole answer: pairs for [`crate::text::parse`].
        text: Vec<u8>,
    },
    /// The target reports something (RFC 7143 11.9).
    Async {
        /// 0 SCSI event, 1 log out please, 2 connection dropped, 3 session dropped, 4 negotiate please.
        event: u8,
        /// Its three parameters.
        parameters: [u16; 3],
        /// Sense data of a SCSI event.
        data: &'a [u8],
    },
    /// The target rejected a PDU.
    Rejected {
        /// Why.
        reason: RejectReason,
        /// The task of the PDU.
        itt: Itt,
    },
    /// The logout was answered: the connection is to be closed.
    LoggedOut {
        /// 0: done.
        response: u8,
    },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// 0: the status is SCSI's; else the target failed (RFC 7143 11.4.3).
    pub response: u8,
    /// SCSI status.
    pub status: u8,
    /// What was not moved.
    pub residual: Residual,
}

/// The residual count of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// As many bytes as expected.
    None,
    /// So many bytes fewer than expected.
    Underflow(u32),
    /// So many bytes more than expected, which were not moved.
    Overflow(u32),
}

/// Data that the target is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRequest {
    /// The command.
    pub itt: Itt,
    /// Names the request.
    pub ttt: Ttt,
    /// Where the data begins in that of the command.
    pub offset: u32,
    /// Bytes wanted.
    pub bytes: u32,
}

/// Why a request is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The target takes no further command now.
    #[error("the command window of the target is closed")]
    WindowClosed,
    /// The login is not over, or the session has ended.
    #[error("the session is not in its full feature phase")]
    NotLoggedIn,
    /// The data does not fit in 32 bits, or the CDB is longer than CDBs are.
    #[error("request of {0} bytes")]
    TooLong(usize),
    /// There is no such task.
    #[error("no task has tag {0:#x}")]
    NoTask(u32),
}
