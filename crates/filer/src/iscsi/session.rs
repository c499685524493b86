//! A connection of iSCSI: PDUs in, each command served where it is quickest, replies out.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use iscsi_proto::pdu;
use iscsi_proto::scsi::Asc;
use iscsi_proto::target::{
    Challenge, Command as Received, End, Event, Fault, Receiver, Replies, Sender as Numbering, Settings, TaskAnswer,
    TaskManagement, connect,
};

use super::attached::Attached;
use super::command::Command;
use super::faults::Fate;
use super::iscsi::Iscsi;
use super::kinds::CommandKind;
use super::place::Place;
use super::service::IscsiService;
use super::sessions::Link;
use super::worker::{self, Request};
use crate::connections::connection::{Connection, Stamp};
use crate::connections::ended::Ended;
use crate::connections::receive_buffer::Framed;
use crate::connections::turn::{Outgoing, Turn};
use crate::luns::Lun;
use crate::sys;

/// A connection as iSCSI has it.
pub(crate) struct Session {
    // Before the place: its tasks are gone when that tells others that the session has ended.
    receiver: Receiver,
    replies: Replies,
    link: Arc<Link>,
    is_logged_in: bool,
    place: Place,
    connection: Arc<Connection>,
}

/// Numbers what leaves.
struct Numbers(Numbering);

impl Stamp for Numbers {
    fn stamp(&mut self, bytes: &mut Vec<u8>) {
        self.0.stamp(bytes);
    }
}

impl Session {
    /// A connection that begins, in the portal group of this tag.
    pub(super) fn new(iscsi: &Arc<Iscsi>, connection: &Arc<Connection>, portal_group_tag: u16) -> Self {
        // A challenge that is not random would let a recorded answer in: without one the connection ends.
        let [identifier, bytes @ ..] = sys::random_bytes().unwrap_or_else(|error| {
            tracing::error!(%error, "failed to draw random bytes for a login");
            connection.drop_now();
            [0; 33]
        });
        let (receiver, replies, numbering) = connect(Settings::default(), Challenge { identifier, bytes });
        connection.stamp_with(Box::new(Numbers(numbering)));
        let link = iscsi.sessions.connect(connection, &replies);
        let place = Place::new(iscsi, connection, &replies, portal_group_tag);
        Self { receiver, replies, link, is_logged_in: false, place, connection: Arc::clone(connection) }
    }

    /// Serves what was received.
    pub(super) fn serve(&mut self, turn: &mut Turn<'_, IscsiService>) -> Result<(), Ended> {
        self.link.serves(true);
        let served = self.serve_frames(turn);
        self.link.serves(false);
        served
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
                    // Of a discovery session no command comes this far.
                    let Some(view) = &self.place.view else { continue };
                    let (sender, kind) = (Arc::clone(&view.sender), CommandKind::of(&cdb));
                    let attached = sender.mapped.at(task.lun()).cloned();
                    let command = Command { sender, attached, task, cdb, kind, received_at: Instant::now() };
                    serve_command(command, data, frame.more, out)?;
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

    /// Carries out what is asked of tasks and units; the tasks of this session are marked as aborted already.
    fn manage(&self, request: &TaskManagement, out: &mut Outgoing<'_, IscsiService>) -> Result<TaskAnswer, Ended> {
        let Some(view) = &self.place.view else { return Ok(TaskAnswer::Rejected) };
        let target = view.target.luns.target();
        let others = || {
            let all = self.place.iscsi.sessions.of_target(target);
            all.into_iter().filter(|entry| !entry.is_of(&self.connection))
        };
        // What is under way is waited for, so that nothing of it comes behind the answer.
        out.send()?;
        let function = request.function;
        let reset = |attached: &Attached| {
            others().for_each(|entry| entry.abort(attached.lun.number()));
            reset(&attached.lun);
        };
        if function == pdu::TaskFunction::TargetWarmReset || function == pdu::TaskFunction::TargetColdReset {
            // Only LUNs that the sender sees: the others are other initiators' alone.
            view.sender.mapped.each().for_each(|attached| reset(attached));
            return Ok(TaskAnswer::Complete);
        }
        let Some(attached) = view.sender.mapped.at(request.lun) else { return Ok(TaskAnswer::NoLogicalUnit) };
        let lun = attached.lun.number();
        if function == pdu::TaskFunction::LogicalUnitReset {
            reset(attached);
        } else if function == pdu::TaskFunction::ClearTaskSet {
            others().filter(|entry| entry.has_tasks()).for_each(|entry| {
                entry.abort(lun);
                if let Some(nexus) = entry.nexus() {
                    attached.unit.attach(nexus, Some(Asc::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR));
                }
            });
            drop(attached.lun.halt());
        } else if request.aborted > 0 {
            drop(attached.lun.halt());
        }
        Ok(request.answer)
    }
}

/// Serves one command: handed to a worker, or executed here.
fn serve_command(
    mut command: Command,
    data: Cow<'_, [u8]>,
    more: bool,
    out: &mut Outgoing<'_, IscsiService>,
) -> Result<(), Ended> {
    let (overlaps, is_slow) = (out.begin(more), command.is_slow());
    let mut data = data;
    // A lone slow command is quicker on the thread that has it; a read that turns out cold, if its initiator waits for each.
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
            Ok(due) => return due.map_or(Ok(()), |due| out.delay(start, due)),
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
        Fate::Late(due) => out.delay(start, due),
        Fate::Reset => {
            out.reset();
            Err(Ended::Reset)
        }
    }
}

/// Gives a command to a worker, if it may wait; otherwise it comes back.
fn submitted(command: Command, data: Cow<'_, [u8]>, out: &Outgoing<'_, IscsiService>) -> Option<Request> {
    let reservation = out.reserve(data.len() + command.data_in_bytes());
    let group = command.group();
    let request = Request { command, data: data.into_owned() };
    let Some(reservation) = reservation else { return Some(request) };
    out.submit(reservation, group, request).err()
}

/// Ends what is under way at a unit, and resets it.
fn reset(lun: &Lun) {
    let _halted = lun.halt();
    lun.unit().reset(Asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
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
