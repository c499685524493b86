//! The receiving side of a connection. It passes each PDU to the part that handles it.

use super::Fault;

use super::data_out::{Collector, Taken};
use super::event::{Command, End, Event, TaskAnswer, TaskManagement};
use super::host::{Challenge, Host};
use super::login::{Login, Progress};
use super::mark::Mark;
use super::replies::{Outcome, Replies};
use super::session::Session;
use super::settings::Settings;
use super::target_list::Exchange;
use super::tasks::{Table, Task, Tasks};
use crate::limits::{COMMAND_DATA_BYTES_MAX, LOGIN_SEGMENT_BYTES_MAX, PING_BYTES_MAX};
use crate::login::{Parameters, SessionType};

use crate::pdu::{
    self, Bhs, Cdb, DataOut, Digests, FrameLimits, Framed, Itt, LogoutReason, LogoutRequest, LogoutResponse, Lun, NopIn, NopOut,
    Opcode, Pdu, PduError, Reject, RejectReason, ScsiCommand, TaskFunction, TaskRequest, TextRequest, Ttt,
};
use crate::serial::{CmdSn, DataSn};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The status of a command whose data arrived out of order (SAM-5 5.3.1), and its sense data: ABORTED COMMAND, PROTOCOL SERVICE CRC ERROR,
/// as RFC 7143 7.7 requires for lost data.
const CHECK_CONDITION: u8 = 0x02;
const OUT_OF_ORDER: [u8; 18] = [0x70, 0, 0x0b, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x47, 0x05, 0, 0, 0, 0];

/// The status of a command for which there is no memory (SAM-5 5.3.1). Initiators resend the command.
const TASK_SET_FULL: u8 = 0x28;
/// Sense data of a command whose data did not arrive in time: ABORTED COMMAND, INITIATOR RESPONSE TIMEOUT.
const NO_DATA: [u8; 18] = [0x70, 0, 0x0b, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x4b, 0x06, 0, 0, 0, 0];

/// The receiving side of a connection. The connection's thread owns it.
#[derive(Debug)]
pub struct Receiver {
    replies: Replies,
    limits: FrameLimits,
    phase: Phase,
    collector: Collector,
    text: Exchange,
    slot_hint: usize,
}

#[derive(Debug)]
enum Phase {
    Login(Box<Login>),
    Full(Box<Session>),
    Ended,
}

impl Receiver {
    pub(super) fn new(settings: Settings, challenge: Challenge, replies: Replies) -> Self {
        let login = Login::new(settings.offer, challenge, Tasks(Arc::clone(&replies.table)));
        Self {
            replies,
            limits: FrameLimits { digests: Digests::default(), data_bytes_max: LOGIN_SEGMENT_BYTES_MAX },
            phase: Phase::Login(Box::new(login)),
            collector: Collector::default(),
            text: Exchange::default(),
            slot_hint: 0,
        }
    }

    /// Looks for one PDU at the start of `unread`.
    ///
    /// # Errors
    /// [`Fault::Pdu`]: the caller must close the connection.
    pub fn frame(&self, unread: &[u8]) -> Result<Framed, Fault> {
        Ok(pdu::frame(unread, self.limits)?)
    }

    /// Processes one whole PDU. Appends replies to `out`, which the caller must stamp before it sends them.
    ///
    /// # Errors
    /// [`Fault`]: the caller must close the connection, which ends the session. `out` need not be sent.
    pub fn receive<'a>(&mut self, pdu: &'a [u8], host: &dyn Host, out: &mut Vec<u8>) -> Result<Event<'a>, Fault> {
        let pdu = pdu::parse(pdu, self.limits)?;
        match &mut self.phase {
            Phase::Login(login) => match login.step(&pdu, host, out)? {
                Progress::Goes => Ok(Event::Nothing),
                Progress::Refused(status) => {
                    self.phase = Phase::Ended;
                    Ok(Event::End(End::LoginRefused(status)))
                }
                Progress::Done(session) => {
                    self.enter(session);
                    Ok(Event::LoggedIn)
                }
            },
            Phase::Full(_) => self.request(&pdu, host, out),
            Phase::Ended => Err(Fault::Misplaced { opcode: pdu.bhs.0[0] & 0x3f, phase: "after the end of the session" }),
        }
    }

    /// The session, after the login has succeeded.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        match &self.phase {
            Phase::Full(session) => Some(session),
            _ => None,
        }
    }

    /// The writer of replies.
    #[must_use]
    pub const fn replies(&self) -> &Replies {
        &self.replies
    }

    /// The tasks of the session.
    #[must_use]
    pub fn tasks(&self) -> Tasks {
        Tasks(Arc::clone(&self.replies.table))
    }

    /// Whether commands wait for data. If so, the caller must call [`Self::expire`] from time to time.
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        self.collector.is_waiting()
    }

    /// Memory that the host granted for commands that wait for data, and for the rest of a text response, in bytes.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.collector.held_bytes() + self.text.held_bytes()
    }

    /// Ends the commands whose data did not arrive in time, and sends R2Ts for which memory is free again. `now` is the time since a fixed
    /// moment that the caller chooses. `short`: memory is short.
    pub fn expire(&mut self, now: Duration, short: bool, host: &dyn Host, out: &mut Vec<u8>) {
        for task in self.collector.expire(now, short) {
            self.refuse(task, CHECK_CONDITION, &NO_DATA, out);
        }
        self.collector.solicit(&self.replies.table.parameters(), &self.replies, host, out);
    }

    fn enter(&mut self, session: Box<Session>) {
        let parameters = session.parameters;
        self.limits = FrameLimits {
            digests: Digests { header: parameters.header_digest, data: parameters.data_digest },
            data_bytes_max: parameters.receive_segment_bytes_max as usize,
        };
        self.table().settle(parameters);
        self.phase = Phase::Full(session);
    }

    fn table(&self) -> &Table {
        &self.replies.table
    }

    /// Processes a PDU of the full feature phase.
    fn request<'a>(&mut self, pdu: &Pdu<'a>, host: &dyn Host, out: &mut Vec<u8>) -> Result<Event<'a>, Fault> {
        let bhs = &pdu.bhs;
        let number = bhs.0[0] & 0x3f;
        let Some(opcode) = bhs.opcode() else {
            if number >= Opcode::NopIn as u8 {
                return Err(PduError::Opcode(number).into());
            }
            self.reject(bhs, RejectReason::NotSupported, out);
            return Ok(Event::Nothing);
        };
        let is_discovery = self.session().is_none_or(|session| session.session_type == SessionType::Discovery);
        if is_discovery && matches!(opcode, Opcode::ScsiCommand | Opcode::TaskRequest | Opcode::DataOut) {
            self.reject(bhs, RejectReason::ProtocolError, out);
            return Ok(Event::Nothing);
        }
        match opcode {
            Opcode::DataOut => return self.data(&DataOut::from_bhs(bhs), pdu.data, host, out),
            Opcode::SnackRequest => {
                self.reject(bhs, RejectReason::Snack, out);
                return Ok(Event::Nothing);
            }
            Opcode::ScsiCommand | Opcode::TaskRequest | Opcode::NopOut | Opcode::TextRequest | Opcode::LogoutRequest => {}
            _ => return Err(Fault::Misplaced { opcode: number, phase: "in the full feature phase" }),
        }
        if !self.is_in_window(bhs)? {
            if opcode == Opcode::ScsiCommand {
                self.collector.pass_over(bhs.itt());
            }
            return Ok(Event::Nothing);
        }
        if opcode == Opcode::ScsiCommand {
            return self.command(pdu, host, out);
        }
        self.advance(bhs);
        match opcode {
            Opcode::TaskRequest => Ok(self.task_management(&TaskRequest::from_bhs(bhs), host, out)),
            Opcode::NopOut => {
                self.ping(&NopOut::from_bhs(bhs), pdu.data, out);
                Ok(Event::Nothing)
            }
            Opcode::TextRequest => {
                if let Phase::Full(session) = &self.phase {
                    self.text.step(&TextRequest::from_bhs(bhs), pdu.data, session, host, &self.replies, out)?;
                }
                Ok(Event::Nothing)
            }
            _ => Ok(self.logout(&LogoutRequest::from_bhs(bhs), out)),
        }
    }

    /// Whether a request is in the command window and has the expected number. The caller ignores other requests (RFC 7143 4.2.2.1). A
    /// request that skips numbers of the window is an error, because the missing ones can no longer arrive on a single connection.
    fn is_in_window(&self, bhs: &Bhs) -> Result<bool, Fault> {
        let (number, due) = (CmdSn(bhs.word(24)), self.table().exp_cmd_sn());
        if bhs.is_immediate() || number == due {
            return Ok(bhs.is_immediate() || !self.table().max_cmd_sn().is_before(number));
        }
        if number.is_before(due) || self.table().max_cmd_sn().is_before(number) {
            return Ok(false);
        }
        Err(Fault::Number { what: "CmdSN", got: number.0, expected: due.0 })
    }

    /// Advances to the next number, unless the request was immediate.
    fn advance(&self, bhs: &Bhs) {
        if !bhs.is_immediate() {
            self.table().set_exp_cmd_sn(CmdSn(bhs.word(24)).next());
        }
    }

    fn command<'a>(&mut self, pdu: &Pdu<'a>, host: &dyn Host, out: &mut Vec<u8>) -> Result<Event<'a>, Fault> {
        let header = ScsiCommand::from_bhs(&pdu.bhs);
        let parameters = self.table().parameters();
        let cdb = Cdb::new(header.cdb, pdu.ahs)?;
        let follows = header.write && !header.is_final;
        check_data(&header, pdu.data, &parameters)?;
        let refusal = if header.read && header.write {
            Some(RejectReason::NotSupported)
        } else if self.collector.has(header.itt) {
            Some(RejectReason::TaskInProgress)
        } else {
            None
        };
        let mut slot = None;
        if refusal.is_none() {
            slot = self.replies.table.claim(header.itt, header.lun, header.immediate, &mut self.slot_hint);
        }
        self.advance(&pdu.bhs);
        let Some(slot) = slot else {
            self.reject(&pdu.bhs, refusal.unwrap_or(RejectReason::TooManyImmediate), out);
            if follows {
                self.collector.pass_over(header.itt);
            }
            return Ok(Event::Nothing);
        };
        let task = Task {
            table: Arc::clone(&self.replies.table),
            slot,
            itt: header.itt,
            lun: header.lun,
            expected_bytes: if header.read || header.write { header.expected_data_bytes } else { 0 },
            is_read: header.read,
            is_write: header.write,
            attribute: header.attribute,
            r2t_count: 0,
            replied: false,
            begun: false,
        };
        if !header.write {
            return Ok(Event::Command(Command { task, cdb, data: Cow::Borrowed(&[]) }));
        }
        let wanted = host.data_out_bytes(header.lun, cdb.as_slice()).min(u64::from(header.expected_data_bytes)) as u32;
        if wanted as usize > COMMAND_DATA_BYTES_MAX {
            if follows {
                self.collector.pass_over(header.itt);
            }
            self.replies.fail(out, task);
            return Ok(Event::Nothing);
        }
        if !follows && pdu.data.len() >= wanted as usize {
            let data = Cow::Borrowed(pdu.data.get(..wanted as usize).unwrap_or_default());
            return Ok(Event::Command(Command { task, cdb, data }));
        }
        match self.collector.begin(task, cdb, pdu.data, (wanted, follows), host) {
            Ok(()) => self.collector.solicit(&parameters, &self.replies, host, out),
            Err(task) => self.refuse(task, TASK_SET_FULL, &[], out),
        }
        Ok(Event::Nothing)
    }

    fn data(&mut self, header: &DataOut, data: &[u8], host: &dyn Host, out: &mut Vec<u8>) -> Result<Event<'static>, Fault> {
        let parameters = self.table().parameters();
        let taken = self.collector.take(header, data, &parameters, host)?;
        self.collector.solicit(&parameters, &self.replies, host, out);
        match taken {
            Taken::More => {}
            Taken::Whole(command) => return Ok(Event::Command(command)),
            Taken::Broken(task) => self.refuse(task, CHECK_CONDITION, &OUT_OF_ORDER, out),
            Taken::NoMemory(task) => self.refuse(task, TASK_SET_FULL, &[], out),
        }
        Ok(Event::Nothing)
    }

    /// Ends a command without executing it.
    fn refuse(&self, task: Task, status: u8, sense: &[u8], out: &mut Vec<u8>) {
        let begun = self.replies.begin(out);
        self.replies.finish(out, begun, task, &Outcome { status, sense, transfer_bytes: 0 });
    }

    fn task_management(&mut self, request: &TaskRequest, host: &dyn Host, out: &mut Vec<u8>) -> Event<'static> {
        let function = TaskFunction(request.function);
        let tasks = self.tasks();
        let (aborted, answer) = match function {
            TaskFunction::AbortTask => {
                let found = self.table().abort_one(request.referenced_itt);
                (usize::from(found), if found { TaskAnswer::Complete } else { TaskAnswer::NoTask })
            }
            TaskFunction::AbortTaskSet | TaskFunction::ClearTaskSet | TaskFunction::LogicalUnitReset => {
                (tasks.abort(Some(request.lun)), TaskAnswer::Complete)
            }
            TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => (tasks.abort(None), TaskAnswer::Complete),
            TaskFunction::TaskReassign => (0, TaskAnswer::NoReassignment),
            _ => (0, TaskAnswer::NotSupported),
        };
        let management =
            TaskManagement { itt: request.itt, function, lun: request.lun, referenced: request.referenced_itt, aborted, answer };
        self.collector.drop_aborted();
        self.collector.solicit(&self.replies.table.parameters(), &self.replies, host, out);
        if matches!(answer, TaskAnswer::NotSupported | TaskAnswer::NoReassignment) {
            self.replies.task_management(out, &management, answer);
            return Event::Nothing;
        }
        Event::TaskManagement(management)
    }

    fn ping(&self, request: &NopOut, data: &[u8], out: &mut Vec<u8>) {
        if request.itt == Itt::NONE {
            return; // an answer to a ping of the target
        }
        let bytes = data.len().min(PING_BYTES_MAX).min(self.table().send_segment_bytes_max() as usize);
        let answer = NopIn {
            lun: Lun::default(),
            itt: request.itt,
            ttt: Ttt::NONE,
            stat_sn: Mark::NUMBERED.as_stat_sn(),
            exp_cmd_sn: CmdSn(0),
            max_cmd_sn: CmdSn(0),
        };
        self.replies.put(out, answer.to_bhs(), data.get(..bytes).unwrap_or_default());
    }

    fn logout(&mut self, request: &LogoutRequest, out: &mut Vec<u8>) -> Event<'static> {
        let Some((cid, parameters)) = self.session().map(|session| (session.cid, session.parameters)) else {
            return Event::Nothing;
        };
        let response = match LogoutReason(request.reason) {
            LogoutReason::CloseSession => 0,
            LogoutReason::CloseConnection if request.cid == cid => 0,
            LogoutReason::CloseConnection => 1,
            _ => 2,
        };
        let answer = LogoutResponse {
            response,
            itt: request.itt,
            stat_sn: Mark::NUMBERED.as_stat_sn(),
            exp_cmd_sn: CmdSn(0),
            max_cmd_sn: CmdSn(0),
            time2wait_s: parameters.time2wait_s,
            time2retain_s: parameters.time2retain_s,
        };
        if response == 0 {
            self.tasks().abort(None);
            self.collector.clear();
            self.phase = Phase::Ended;
        }
        self.replies.put(out, answer.to_bhs(), &[]);
        if response == 0 { Event::End(End::LoggedOut) } else { Event::Nothing }
    }

    fn reject(&self, bhs: &Bhs, reason: RejectReason, out: &mut Vec<u8>) {
        let reject = Reject {
            reason,
            stat_sn: Mark::NUMBERED.as_stat_sn(),
            exp_cmd_sn: CmdSn(0),
            max_cmd_sn: CmdSn(0),
            data_sn: DataSn(0),
        };
        self.replies.put(out, reject.to_bhs(), &bhs.0);
    }
}

/// Checks that the data of a command respects the negotiated parameters.
fn check_data(header: &ScsiCommand, data: &[u8], parameters: &Parameters) -> Result<(), Fault> {
    if !header.write {
        return if data.is_empty() { Ok(()) } else { Err(Fault::Protocol("data with a command that sends none")) };
    }
    if !data.is_empty() && !parameters.immediate_data {
        return Err(Fault::Protocol("immediate data, which was not agreed on"));
    }
    if !header.is_final && parameters.initial_r2t {
        return Err(Fault::Protocol("unsolicited data, which was not agreed on"));
    }
    let limit = parameters.first_burst_bytes.min(header.expected_data_bytes);
    if data.len() > limit as usize {
        return Err(Fault::Limit { what: "immediate data", got: data.len() as u32, limit });
    }
    Ok(())
}
