//! iSCSI as a service on connections. A [`Session`] receives PDUs, executes each command on the thread that is fastest for it, and sends replies.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi_proto::pdu;
use iscsi_proto::scsi::Asc;
use iscsi_proto::target::{
    Challenge, Command as Received, End, Event, Fault, Receiver, Replies, Sender as Numbering, Settings, TaskAnswer,
    TaskManagement, connect,
};
use rpc_tls::ServerTls;

use super::attached::Attached;
use super::command::Command;
use super::faults::Fate;
use super::iscsi::Iscsi;
use super::kinds::CommandKind;
use super::memory::{CommandMemory, Held};
use super::place::Place;
use super::sessions::{Link, SessionEntry};
use super::worker::{self, Request};
use crate::connections::Totals;
use crate::connections::connection::{Connection, Stamp};
use crate::connections::delayed_replies::DelayedReplies;
use crate::connections::ended::Ended;
use crate::connections::queue::Job;
use crate::connections::receive_buffer::Framed;
use crate::connections::service::Service;
use crate::connections::turn::{Outgoing, Turn};
use crate::connections::workers::CarryOut;
use crate::sys;

/// iSCSI on connections.
pub(crate) struct IscsiService {
    iscsi: Arc<Iscsi>,
    memory: Arc<CommandMemory>,
}

impl IscsiService {
    pub(crate) fn new(iscsi: Arc<Iscsi>, totals: Arc<Totals>) -> Self {
        Self { iscsi, memory: CommandMemory::new(totals) }
    }

    /// The session of a new connection in the portal group with this tag.
    pub(crate) fn session(&self, connection: &Arc<Connection>, portal_group_tag: u16) -> Session {
        Session::new(&self.iscsi, connection, portal_group_tag, self.memory.begin(connection.client()))
    }
}

impl Service for IscsiService {
    type Session = Session;

    fn serve(&self, session: &mut Session, turn: &mut Turn<'_, Self>) -> Result<(), Ended> {
        session.serve(turn)
    }

    fn waits(&self, session: &Session) -> bool {
        session.waits()
    }

    fn tick(&self, session: &mut Session, out: &mut Outgoing<'_, Self>) -> Result<(), Ended> {
        session.expire(out.replies());
        Ok(())
    }

    fn tls(&self) -> Option<ServerTls> {
        None
    }

    fn secured(&self, _session: &mut Session, _certified: bool) {}
}

impl CarryOut for IscsiService {
    type Request = Request;

    fn carry_out(&self, jobs: Vec<Job<Request>>, delayed: &DelayedReplies, out: &mut Vec<u8>) {
        worker::carry_out(jobs, delayed, out);
    }
}

/// The state of a connection for iSCSI.
pub(crate) struct Session {
    // Dropped before `place`, so that the tasks have ended when `place` reports the end of the session to others.
    receiver: Receiver,
    replies: Replies,
    link: Arc<Link>,
    is_logged_in: bool,
    place: Place,
    connection: Arc<Connection>,
}

/// Numbers the PDUs that leave.
struct Numbers(Numbering);

impl Stamp for Numbers {
    fn stamp(&mut self, bytes: &mut Vec<u8>) {
        self.0.stamp(bytes);
    }
}

impl Session {
    /// The session of a new connection in the portal group with this tag.
    pub(super) fn new(iscsi: &Arc<Iscsi>, connection: &Arc<Connection>, portal_group_tag: u16, held: Held) -> Self {
        // With a predictable challenge, a recorded CHAP response would be accepted. Without random bytes the connection ends.
        let [identifier, bytes @ ..] = sys::random_bytes().unwrap_or_else(|error| {
            tracing::error!(%error, "failed to draw random bytes for a login");
            connection.drop_now();
            [0; 33]
        });
        let (receiver, replies, numbering) = connect(Settings::default(), Challenge { identifier, bytes });
        connection.stamp_with(Box::new(Numbers(numbering)));
        let link = iscsi.sessions.connect(connection, &replies);
        let place = Place::new(iscsi, connection, &replies, portal_group_tag, held);
        Self { receiver, replies, link, is_logged_in: false, place, connection: Arc::clone(connection) }
    }

    /// Serves what was received.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_, IscsiService>) -> Result<(), Ended> {
        self.link.serves(true);
        let served = self.serve_frames(turn);
        self.link.serves(false);
        if served.is_ok() && self.waits() {
            self.expire(turn.out.replies());
        }
        self.place.held.keep(self.receiver.held_bytes());
        served
    }

    /// Whether commands wait for their data.
    pub(super) fn waits(&self) -> bool {
        self.receiver.is_collecting()
    }

    /// Ends commands whose data did not come in time. Sends R2Ts of commands for which memory is free again.
    pub(super) fn expire(&mut self, out: &mut Vec<u8>) {
        let now = self.place.iscsi.sessions.now();
        self.receiver.expire(now, self.place.held.is_short(), &self.place, out);
        self.place.held.keep(self.receiver.held_bytes());
    }

    fn serve_frames(&mut self, turn: &mut Turn<'_, IscsiService>) -> Result<(), Ended> {
        self.place.renew();
        let Turn { received, out } = turn;
        loop {
            let receiver = &self.receiver;
            let found = received.next_frame(|unread| receiver.frame(unread).map(framed));
            let Some(frame) = found.map_err(|fault| broken(&fault))? else { return Ok(()) };
            self.link.heard();
            if self.is_logged_in {
                out.begin(frame.more);
            }
            let event = self.receiver.receive(frame.bytes, &self.place, out.replies()).map_err(|fault| broken(&fault))?;
            match event {
                Event::Nothing => {}
                Event::LoggedIn => {
                    self.is_logged_in = true;
                    self.link.logged_in();
                    self.place.enter();
                }
                Event::Command(received) => {
                    let Received { task, cdb, data } = received;
                    // A command of a discovery session was refused before.
                    let Some(view) = &self.place.view else { continue };
                    let (sender, kind) = (Arc::clone(&view.sender), CommandKind::of(&cdb));
                    let attached = sender.mapped.at(task.lun()).cloned();
                    let command = Command { sender, attached, task, cdb, kind, received_at: Instant::now() };
                    serve_command(command, data, frame.more, out)?;
                    // The command's data counted until here: the command was executed, or a worker has it and its reservation
                    // counts the data.
                    self.place.held.keep(self.receiver.held_bytes());
                }
                Event::TaskManagement(request) => {
                    let answer = self.manage(&request, out)?;
                    self.replies.task_management(out.replies(), &request, answer);
                }
                Event::End(end) => {
                    out.send()?;
                    return Err(match end {
                        End::LoggedOut => Ended::Closed,
                        End::LoginRefused(status) => Ended::Protocol(format!("login refused: {status}")),
                    });
                }
            }
            out.send_if_large()?;
        }
    }

    /// Executes a task management function. The tasks of this session are already marked as aborted.
    fn manage(&self, request: &TaskManagement, out: &mut Outgoing<'_, IscsiService>) -> Result<TaskAnswer, Ended> {
        let Some(view) = &self.place.view else { return Ok(TaskAnswer::Rejected) };
        let target = view.target.luns.target();
        let others = || {
            let all = self.place.iscsi.sessions.of_target(target);
            all.into_iter().filter(|entry| !entry.is_of(&self.connection))
        };
        // Tasks of this session are waited for when the response leaves. Tasks of other sessions are waited for here.
        out.send()?;
        let function = request.function;
        let reset = |attached: &Attached| {
            self.end_tasks(others(), attached.lun.number());
            attached.lun.unit().reset(Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
        };
        if function == pdu::TaskFunction::TargetWarmReset || function == pdu::TaskFunction::TargetColdReset {
            // Only LUNs that the sender sees. The others belong to other initiators.
            view.sender.mapped.each().for_each(|attached| reset(attached));
            return Ok(TaskAnswer::Complete);
        }
        let Some(attached) = view.sender.mapped.at(request.lun) else { return Ok(TaskAnswer::NoLogicalUnit) };
        if function == pdu::TaskFunction::LogicalUnitReset {
            reset(attached);
        } else if function == pdu::TaskFunction::ClearTaskSet {
            let cleared: Vec<_> = others().filter(|entry| entry.has_tasks()).collect();
            for nexus in cleared.iter().filter_map(|entry| entry.nexus()) {
                attached.unit.report(nexus, Asc::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR);
            }
            self.end_tasks(cleared, attached.lun.number());
        }
        Ok(request.answer)
    }

    /// Aborts the tasks of sessions at a LUN, and waits for those that may change data. Other commands of the LUN continue.
    fn end_tasks(&self, of: impl IntoIterator<Item = Arc<SessionEntry>>, lun: u16) {
        let of: Vec<_> = of.into_iter().collect();
        of.iter().for_each(|entry| entry.abort(lun));
        self.place.iscsi.sessions.wait_for_tasks(&of, lun);
    }
}

/// Serves one command: hands it to a worker, or executes it here.
fn serve_command(
    mut command: Command,
    data: Cow<'_, [u8]>,
    more: bool,
    out: &mut Outgoing<'_, IscsiService>,
) -> Result<(), Ended> {
    let (overlaps, is_slow) = (out.begin(more), command.is_slow());
    let mut data = data;
    if !out.make_space(command.data_in_bytes(), Duration::ZERO) {
        command.refuse(out.replies());
        return Ok(());
    }
    // A single slow command is faster on this thread. So is a read of uncached data, if the initiator waits
    // for each response.
    if is_slow && overlaps {
        match submitted(command, data, out) {
            None => return Ok(()),
            Some(back) => (command, data) = (back.command, Cow::Owned(back.data)),
        }
    }
    if is_slow {
        out.send()?;
    }
    let mut start = out.replies().len();
    if command.is_read() && !command.has_faults() {
        match command.answer_now(out.replies()) {
            Ok(due) => return due.map_or(Ok(()), |due| out.delay(start, due, Default::default())),
            Err(cold) => command = cold,
        }
        if overlaps || !out.is_lone() {
            match submitted(command, data, out) {
                None => return Ok(()),
                Some(back) => (command, data) = (back.command, Cow::Owned(back.data)),
            }
        }
        out.send()?;
        start = 0;
    }
    match worker::answer(command, &data, out.replies()) {
        Fate::Goes | Fate::Lost => Ok(()),
        Fate::Late(due) => out.delay(start, due, Default::default()),
        Fate::Reset => {
            out.reset();
            Err(Ended::Reset)
        }
    }
}

/// Hands a command to a worker. Returns it if no worker takes it.
fn submitted(command: Command, data: Cow<'_, [u8]>, out: &Outgoing<'_, IscsiService>) -> Option<Request> {
    let reservation = out.reserve(data.len() + command.data_in_bytes());
    let (volume, group) = (Arc::as_ptr(&command.sender.export).addr(), command.group());
    let request = Request { command, data: data.into_owned() };
    let Some(reservation) = reservation else { return Some(request) };
    out.submit(reservation, volume, group, request).err()
}

fn framed(framed: pdu::Framed) -> Framed {
    match framed {
        pdu::Framed::Incomplete { bytes_needed } => Framed::Incomplete { bytes_needed },
        pdu::Framed::Whole { bytes } => Framed::Whole { body: 0..bytes, consumed: bytes },
    }
}

fn broken(fault: &Fault) -> Ended {
    let cause = std::error::Error::source(fault).map_or_else(String::new, |cause| format!(": {cause}"));
    Ended::Protocol(format!("{fault}{cause}"))
}
