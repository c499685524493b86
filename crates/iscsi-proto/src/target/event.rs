//! Events that a connection returns to its caller.

use super::tasks::Task;
use crate::login::LoginStatus;
use crate::pdu::{Cdb, Itt, Lun, TaskFunction};
use std::borrow::Cow;

/// The result of a received PDU.
#[derive(Debug)]
pub enum Event<'a> {
    /// The caller need not act. Replies, if any, are in the reply buffer.
    Nothing,
    /// The login has succeeded. [`super::Receiver::session`] returns the session from now on.
    LoggedIn,
    /// A SCSI command with all of its data.
    Command(Command<'a>),
    /// A task management function. The tasks of this session that it ends are marked as aborted already.
    TaskManagement(TaskManagement),
    /// The connection ends. The caller sends the reply buffer and then closes the connection.
    End(End),
}

/// A SCSI command.
#[derive(Debug)]
pub struct Command<'a> {
    /// What a reply to the command needs.
    pub task: Task,
    /// The CDB, padded to 16 bytes with zeros.
    pub cdb: Cdb,
    /// Its data. Borrowed from the received PDU if the PDU contained the complete command.
    pub data: Cow<'a, [u8]>,
}

/// A task management function (RFC 7143 11.5).
#[derive(Clone, Copy, Debug)]
pub struct TaskManagement {
    /// The tag of the request.
    pub itt: Itt,
    /// The requested function. May also be a number that has no name.
    pub function: TaskFunction,
    /// The logical unit.
    pub lun: Lun,
    /// The tag of the task, for [`TaskFunction::AbortTask`].
    pub referenced: Itt,
    /// Number of tasks of this session that this function aborted.
    pub aborted: usize,
    /// For [`TaskFunction::AbortTask`]: the response, unless the caller has a reason for another one.
    pub answer: TaskAnswer,
}

/// The response to a task management function (RFC 7143 11.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAnswer {
    /// The function is complete.
    Complete = 0,
    /// No task has this tag.
    NoTask = 1,
    /// No logical unit has this number.
    NoLogicalUnit = 2,
    /// Tasks cannot be moved to another connection.
    NoReassignment = 4,
    /// The function is not supported.
    NotSupported = 5,
    /// Rejected.
    Rejected = 255,
}

/// How a connection ends regularly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The initiator logged out.
    LoggedOut,
    /// The login was refused.
    LoginRefused(LoginStatus),
}
