//! Replies. Any thread can write them without a lock. [`super::Sender`] sets the numbers of the connection.
//!
//! Until a PDU is stamped, the bytes of its StatSN hold a `Mark`.

use super::data_in;
use super::event::{TaskAnswer, TaskManagement};
use super::mark::{Mark, Residual};
use super::tasks::{Table, Task};
use crate::pdu::{self, AsyncMessage, BHS_BYTES, Bhs, Digests, Itt, Lun, NopIn, ScsiResponse, TaskResponse, Ttt};
use crate::serial::{CmdSn, DataSn};
use std::sync::Arc;

/// The event by which a target requests a logout (RFC 7143 11.9.1).
const REQUEST_LOGOUT: u8 = 1;
/// Response code of a target that cannot execute a command (RFC 7143 11.4.3).
const TARGET_FAILURE: u8 = 1;

/// Writes the replies of a connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Replies {
    pub(super) table: Arc<Table>,
}

/// A reply that was begun: the position of its header.
#[derive(Debug)]
#[must_use = "the space for the header is written by finish"]
pub struct Begun {
    at: usize,
}

/// The result of a command.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// SCSI status (SAM-5 5.3).
    pub status: u8,
    /// Sense data, which may be empty.
    pub sense: &'a [u8],
    /// Number of bytes that the command transfers according to its CDB, in the direction that the initiator expects. For a read: the
    /// appended bytes, or more if the caller stopped at [`Task::expected_read_bytes`]. For a write: the bytes that it took or would
    /// have taken. The residual count is the difference from the number that the initiator expects.
    pub transfer_bytes: u64,
}

impl Replies {
    /// Begins the reply of a command and reserves space for its header at the end of `out`. The caller then appends data for the
    /// initiator and calls [`Self::finish`].
    pub fn begin(&self, out: &mut Vec<u8>) -> Begun {
        let at = out.len();
        let header = [0; BHS_BYTES + pdu::DIGEST_BYTES];
        out.extend_from_slice(header.get(..self.header_bytes()).unwrap_or_default());
        Begun { at }
    }

    /// Completes the reply. Everything that was appended after `begun` is data for the initiator, which gets no more than it expects.
    /// A GOOD status is sent with the last data PDU. Other statuses, and commands without data, get a SCSI Response.
    pub fn finish(&self, out: &mut Vec<u8>, begun: Begun, mut task: Task, outcome: &Outcome<'_>) {
        if task.is_aborted() {
            out.truncate(begun.at);
            return;
        }
        task.replied = true; // The slot is freed when the status is stamped.
        let start = begun.at + self.header_bytes();
        let appended = out.len().saturating_sub(start);
        let data_bytes = appended.min(task.expected_read_bytes() as usize);
        out.truncate(start + data_bytes);
        let moved = if task.is_read { outcome.transfer_bytes.max(appended as u64) } else { outcome.transfer_bytes };
        let residual = Residual::new(task.expected_bytes, moved);
        let mut data_pdus = 0;
        if data_bytes > 0 {
            let has_status = outcome.status == 0 && outcome.sense.is_empty();
            data_pdus = data_in::lay_out(&self.table, out, begun.at, &task, has_status.then_some(residual));
            if has_status {
                return;
            }
        } else {
            out.truncate(begun.at);
        }
        let mut response = response(&task, residual);
        response.status = outcome.status;
        response.exp_data_sn = DataSn(data_pdus + task.r2t_count);
        let mut sense = Vec::new();
        if !outcome.sense.is_empty() {
            let length = outcome.sense.len().min(usize::from(u8::MAX) + 8);
            sense.extend_from_slice(&(length as u16).to_be_bytes());
            sense.extend_from_slice(outcome.sense.get(..length).unwrap_or_default());
        }
        self.put(out, response.to_bhs(), &sense);
    }

    /// Ends a command that the target cannot execute for reasons outside SCSI.
    pub fn fail(&self, out: &mut Vec<u8>, mut task: Task) {
        if !task.is_aborted() {
            task.replied = true;
            let mut response = response(&task, Residual::new(task.expected_bytes, 0));
            response.response = TARGET_FAILURE;
            self.put(out, response.to_bhs(), &[]);
        }
    }

    /// Answers a task management function. The response is sent when all aborted tasks that were [begun](Task::begin) have ended.
    pub fn task_management(&self, out: &mut Vec<u8>, request: &TaskManagement, answer: TaskAnswer) {
        let response = TaskResponse {
            response: answer as u8,
            itt: request.itt,
            stat_sn: Mark::WAITING.as_stat_sn(),
            exp_cmd_sn: CmdSn(0),
            max_cmd_sn: CmdSn(0),
        };
        self.put(out, response.to_bhs(), &[]);
    }

    /// Asks the initiator for a sign of life. Any PDU counts as an answer.
    pub fn ping(&self, out: &mut Vec<u8>) {
        // All pings may have the same tag, because the answers have no data and are not matched.
        self.nop_in(out, Ttt(0));
    }

    /// Reports the command window to the initiator and requests no answer. Used if the window moved and no reply carries it.
    pub fn window_update(&self, out: &mut Vec<u8>) {
        self.nop_in(out, Ttt::NONE);
    }

    /// Requests a logout within `seconds`. After that time the target closes the connection (RFC 7143 11.9.1, event 1).
    pub fn request_logout(&self, out: &mut Vec<u8>, seconds: u16) {
        self.asynchronous(out, Lun::default(), REQUEST_LOGOUT, seconds, &[]);
    }

    fn nop_in(&self, out: &mut Vec<u8>, ttt: Ttt) {
        let stat_sn = Mark::UNNUMBERED.as_stat_sn();
        let ping = NopIn { lun: Lun::default(), itt: Itt::NONE, ttt, stat_sn, exp_cmd_sn: CmdSn(0), max_cmd_sn: CmdSn(0) };
        self.put(out, ping.to_bhs(), &[]);
    }

    fn asynchronous(&self, out: &mut Vec<u8>, lun: Lun, event: u8, parameter3: u16, data: &[u8]) {
        let message = AsyncMessage {
            lun,
            stat_sn: Mark::NUMBERED.as_stat_sn(),
            exp_cmd_sn: CmdSn(0),
            max_cmd_sn: CmdSn(0),
            event,
            vendor_code: 0,
            parameter1: 0,
            parameter2: 0,
            parameter3,
        };
        self.put(out, message.to_bhs(), data);
    }

    /// Appends a PDU that has a mark.
    pub(super) fn put(&self, out: &mut Vec<u8>, bhs: Bhs, data: &[u8]) {
        pdu::append(out, bhs, &[], data, self.digests());
    }

    pub(super) fn digests(&self) -> Digests {
        self.table.digests()
    }

    /// Bytes from the start of a PDU to its data.
    pub(super) fn header_bytes(&self) -> usize {
        BHS_BYTES + self.digests().header_bytes()
    }
}

fn response(task: &Task, residual: Residual) -> ScsiResponse {
    ScsiResponse {
        overflow: residual.overflow,
        underflow: residual.underflow,
        response: 0,
        status: 0,
        itt: task.itt,
        snack_tag: 0,
        stat_sn: Mark::status(task.slot).as_stat_sn(),
        exp_cmd_sn: CmdSn(0),
        max_cmd_sn: CmdSn(0),
        exp_data_sn: DataSn(task.r2t_count),
        residual_bytes: residual.bytes,
    }
}
