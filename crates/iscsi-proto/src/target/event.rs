//! What a connection hands to its caller.

use super::tasks::Task;
use crate::login::LoginStatus;
use crate::pdu::{Cdb, Itt, Lun, TaskFunction};
use std::borrow::Cow;

/// What came of a PDU.
#[derive(Debug)]
pub enum Event<'a> {
    /// Nothing for the caller. What there was to answer is in the reply buffer.
    Nothing,
    /// The login is over: [`super::Receiver::session`] has a session from now on.
    LoggedIn,
    /// A SCSI command with all of its data.
    Command(Command<'a>),
    /// A task management function. The tasks of this session that it ends are marked as aborted already.
    TaskManagement(TaskManagement),
    /// The connection ends: what is in the reply buffer is to be sent, then the connection closed.
    End(End),
}

/// A SCSI command.
#[derive(Debug)]
pub struct Command<'a> {
    /// What its reply needs.
    pub task: Task,
    /// The CDB, padded to 16 bytes with zeros.
    pub cdb: Cdb,
    /// Its data: borrowed from the received PDU where the command came whole in that.
    pub data: Cow<'a, [u8]>,
}

/// A task management function (RFC 7143 11.5).
#[derive(Clone, Copy, Debug)]
pub struct TaskManagement {
    /// The tag of the request.
    pub itt: Itt,
    /// What is asked for; also numbers that have no name.
    pub function: TaskFunction,
    /// The logical unit.
    pub lun: Lun,
    /// The tag of the task that [`TaskFunction::AbortTask`] means.
    pub referenced: Itt,
    /// Tasks of this session that were under way and are aborted now.
    pub aborted: usize,
    /// For [`TaskFunction::AbortTask`]: the answer that is due when the caller has nothing against it.
    pub answer: TaskAnswer,
}

/// The answer to a task management function (RFC 7143 11.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAnswer {
    /// Done.
    Complete = 0,
    /// There is no such task.
    NoTask = 1,
    /// There is no such logical unit.
    NoLogicalUnit = 2,
    /// Tasks cannot be moved to another connection.
    NoReassignment = 4,
    /// The function is not supported.
    NotSupported = 5,
    /// Rejected.
    Rejected = 255,
}

/// How a connection ends in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The initiator logged out.
    LoggedOut,
    /// The login was refused.
    LoginRefused(LoginStatus),
}
