//! Events that an initiator's connection returns to its caller.

use crate::login::{LoginStatus, Parameters};
use crate::pdu::{Itt, RejectReason, Ttt};
use thiserror::Error;

/// The result of a received PDU.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The caller need not act. Data to send is in the buffer.
    Nothing,
    /// The login has succeeded.
    LoggedIn(Parameters),
    /// The login was refused. The connection cannot be used any more.
    LoginRefused {
        /// The reason.
        status: LoginStatus,
        /// The value of TargetAddress, if the target has moved.
        address: Option<String>,
    },
    /// Data that was read.
    Data {
        /// Tag of the command.
        itt: Itt,
        /// Offset of this data in the data of the command, in bytes.
        offset: u32,
        /// The data.
        data: &'a [u8],
        /// The result of the command, with its last data. Sense data comes only with [`Event::Ended`].
        status: Option<Status>,
    },
    /// A command has ended.
    Ended {
        /// Tag of the command.
        itt: Itt,
        /// The result.
        status: Status,
        /// Sense data.
        sense: &'a [u8],
    },
    /// The target is ready for data. The caller answers with [`super::Initiator::data_out`].
    Wanted(DataRequest),
    /// A task management function was answered.
    TaskManagement {
        /// Tag of the request.
        itt: Itt,
        /// Response code (RFC 7143 11.6.1). 0: the function is complete.
        response: u8,
    },
    /// A ping was answered.
    Pong {
        /// Tag of the ping.
        itt: Itt,
        /// The returned data.
        data: &'a [u8],
    },
    /// A text request was answered.
    Text {
        /// Tag of the request.
        itt: Itt,
        /// The complete answer: pairs for [`crate::text::parse`].
        text: Vec<u8>,
    },
    /// The target sent an asynchronous message (RFC 7143 11.9).
    Async {
        /// 0 SCSI event, 1 logout request, 2 connection dropped, 3 session dropped, 4 negotiation request.
        event: u8,
        /// Parameter1 to Parameter3 of the message.
        parameters: [u16; 3],
        /// Sense data of a SCSI event.
        data: &'a [u8],
    },
    /// The target rejected a PDU.
    Rejected {
        /// The reason.
        reason: RejectReason,
        /// Tag of the rejected PDU's task.
        itt: Itt,
    },
    /// The logout was answered. The caller must close the connection.
    LoggedOut {
        /// Response code. 0: the session is closed.
        response: u8,
    },
}

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// 0: `status` holds the SCSI status. Otherwise the target failed (RFC 7143 11.4.3).
    pub response: u8,
    /// SCSI status.
    pub status: u8,
    /// The difference between expected and transferred data.
    pub residual: Residual,
}

/// The residual count of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// The expected number of bytes was transferred.
    None,
    /// Number of expected bytes that were not transferred.
    Underflow(u32),
    /// Number of bytes beyond the expected ones. These were not transferred.
    Overflow(u32),
}

/// A request of the target for data (R2T).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRequest {
    /// Tag of the command.
    pub itt: Itt,
    /// Tag of the request.
    pub ttt: Ttt,
    /// Offset of the requested data in the data of the command, in bytes.
    pub offset: u32,
    /// Number of requested bytes.
    pub bytes: u32,
}

/// Why a request cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The target accepts no further command now.
    #[error("the command window of the target is closed")]
    WindowClosed,
    /// The login is not complete, or the session has ended.
    #[error("the session is not in its full feature phase")]
    NotLoggedIn,
    /// The data, the CDB or the text is longer than its limit, or the data is shorter than the target requests. Its length in bytes.
    #[error("request of {0} bytes")]
    TooLong(usize),
    /// No task has this tag.
    #[error("no task has tag {0:#x}")]
    NoTask(u32),
}
