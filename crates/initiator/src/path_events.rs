//! How a path handles the events of its connection.

use crate::command::{Command, Failure, Wire};
use crate::error::Error;
use crate::path::{Path, Task};
use crate::path_report::{AccessState, PathState};
use crate::probe::Next;
use crate::sense::{Reaction, SenseCode};
use crate::units::Units;
use crate::work::{ATTEMPTS_MAX, BUSY, FenceAnswer, Submitted, Work};
use iscsi_proto::initiator::{Event, Initiator, Residual, Status};
use iscsi_proto::login::END_SESSION_KEY;
use iscsi_proto::pdu::Itt;
use iscsi_proto::scsi::read_loss_epoch;
use iscsi_proto::text;
use std::io;
use std::time::Instant;

impl Path {
    /// Receives data, and handles the events in it.
    pub(crate) fn receive(&mut self, now: Instant, work: &mut Work) -> Result<(), Error> {
        let Some(mut connection) = self.connection.take() else { return Ok(()) };
        let result = connection
            .connected(now)
            .and_then(|()| connection.receive(now, |session, output, event| self.event(session, output, event, now, work)));
        self.connection = Some(connection);
        result
    }

    fn event(
        &mut self,
        session: &mut Initiator,
        output: &mut Vec<u8>,
        event: Event<'_>,
        now: Instant,
        work: &mut Work,
    ) -> Result<(), Error> {
        match event {
            Event::LoggedIn(_) => {
                // The login ended the previous session, with its tasks (RFC 7143 6.3.5).
                work.send_again(std::mem::take(&mut self.fenced));
                // After a redirect the group belongs to another portal.
                self.portal_group = session.portal_group().filter(|_| !self.attempt.is_redirected());
                self.attempt.logged_in();
                self.verifies = true;
                self.begin_use(session, output, now);
            }
            Event::LoginRefused { status, address } => {
                return Err(self.attempt.refused(&self.portal, status, address.as_deref()));
            }
            Event::Data { itt, offset, data, status } => {
                let buffer = match self.tasks.get_mut(&itt.0) {
                    Some(Task::Command(Submitted { command: Command::Read { buffer, .. }, .. })) => Some(buffer),
                    Some(Task::Probe(buffer, _) | Task::Verify(_, buffer)) => Some(buffer),
                    _ => None,
                };
                let start = offset as usize;
                if let Some(to) = buffer.and_then(|buffer| buffer.get_mut(start..start + data.len())) {
                    to.copy_from_slice(data);
                }
                if let Some(status) = status {
                    return self.ended((session, output), itt, status, &[], (now, work));
                }
            }
            Event::Ended { itt, status, sense } => return self.ended((session, output), itt, status, sense, (now, work)),
            Event::Wanted(request) => {
                if let Some(Task::Command(submitted)) = self.tasks.get(&request.itt.0) {
                    let sent = match submitted.command.wire(work.block_bytes) {
                        Wire::Write(_, data) => session.data_out(output, request, data),
                        Wire::Own(_, data) => session.data_out(output, request, &data),
                        Wire::None(_) | Wire::Read(..) => Ok(()),
                    };
                    let refused = |error| Error::Broken { portal: self.portal.clone(), source: io::Error::other(error) };
                    return sent.map_err(refused);
                }
            }
            Event::Async { event: 1, .. } => self.state = PathState::Draining,
            Event::Async { event: 2 | 3, .. } => return Err(self.closed("the target ends the session")),
            Event::Rejected { itt, .. } => return self.rejected((session, output), itt, (now, work)),
            Event::Text { itt, text } => {
                let pairs = text::parse(&text).unwrap_or_default();
                let is_open = pairs.iter().any(|pair| pair.key == END_SESSION_KEY && pair.value == "No");
                match self.tasks.remove(&itt.0) {
                    Some(Task::EndSession(path, failures)) => {
                        work.fence_answers.push((path, failures, if is_open { FenceAnswer::Again } else { FenceAnswer::Go }));
                    }
                    Some(Task::EndFormer) => self.former_ended(!is_open, session, output, now),
                    _ => {}
                }
            }
            Event::LoggedOut { .. } => return Err(self.closed("the session was ended")),
            Event::Nothing | Event::Pong { .. } | Event::TaskManagement { .. } | Event::Async { .. } => {}
        }
        Ok(())
    }

    /// Called when the target rejected a PDU.
    fn rejected(
        &mut self,
        (session, output): (&mut Initiator, &mut Vec<u8>),
        itt: Itt,
        (now, work): (Instant, &mut Work),
    ) -> Result<(), Error> {
        match self.tasks.remove(&itt.0) {
            Some(Task::Command(submitted) | Task::Verify(submitted, _)) => {
                self.commands -= 1;
                work.repeat(submitted, Failure::Target(0), now + BUSY, ATTEMPTS_MAX);
            }
            // The target does not accept text requests here.
            Some(Task::EndSession(path, failures)) => work.fence_answers.push((path, failures, FenceAnswer::Go)),
            Some(Task::EndFormer) => self.former_ended(true, session, output, now),
            Some(Task::Probe(..)) => return Err(self.closed("the target rejected a command")),
            None => {}
        }
        Ok(())
    }

    fn closed(&self, why: &'static str) -> Error {
        Error::Broken { portal: self.portal.clone(), source: io::Error::other(why) }
    }

    /// Called when a command ended.
    fn ended(
        &mut self,
        (session, output): (&mut Initiator, &mut Vec<u8>),
        itt: Itt,
        status: Status,
        sense: &[u8],
        (now, work): (Instant, &mut Work),
    ) -> Result<(), Error> {
        match self.tasks.remove(&itt.0) {
            Some(Task::Command(submitted)) => {
                self.commands -= 1;
                self.completed += 1;
                if let Some(code) = SenseCode::parse(sense)
                    && status.status == 2
                {
                    // The LUN may have a write cache from now on. The path asks for the mode again, and assumes a cache
                    // until then.
                    work.write_cache |= code.is_new_mode();
                    work.ask_again |= code.is_new_capacity() || code.is_new_access_state() || code.is_new_mode();
                    if code.reaction() == Reaction::OtherPath {
                        self.access = AccessState::Unavailable;
                        work.ask_again = true;
                    }
                }
                let is_flushed = submitted.command == Command::Flush && status.status == 0 && status.response == 0;
                if is_flushed && self.verifies && work.compares_losses() {
                    if let Err(flush) = self.verify(session, output, submitted) {
                        work.repeat(flush, Failure::Target(0), now + BUSY, ATTEMPTS_MAX);
                    }
                } else {
                    work.ended(submitted, status, sense, now);
                }
            }
            Some(Task::Verify(flush, page)) => {
                self.commands -= 1;
                match read_loss_epoch(&page).filter(|_| status.status == 0 && status.response == 0) {
                    Some(epoch) => {
                        self.verifies = false;
                        work.note_epoch(epoch);
                        work.finish(flush, Ok(()));
                    }
                    None => work.repeat(flush, Failure::Status(status.status), now + BUSY, ATTEMPTS_MAX),
                }
            }
            Some(Task::Probe(mut data, _)) => {
                let missing = if let Residual::Underflow(bytes) = status.residual { bytes as usize } else { 0 };
                data.truncate(data.len().saturating_sub(missing));
                return self.probed((session, output), status, sense, &data, (now, work));
            }
            Some(Task::EndSession(..) | Task::EndFormer) | None => {}
        }
        Ok(())
    }

    fn probed(
        &mut self,
        (session, output): (&mut Initiator, &mut Vec<u8>),
        status: Status,
        sense: &[u8],
        data: &[u8],
        (now, work): (Instant, &mut Work),
    ) -> Result<(), Error> {
        let Some(probe) = &mut self.probe else { return Ok(()) };
        let next = match (status.response, status.status, SenseCode::parse(sense)) {
            (0, 0, _) => probe.answered(data),
            (0, 2, Some(code)) => {
                if code.reaction() == Reaction::Lost {
                    work.note_loss();
                }
                if code.reaction() == Reaction::Fail {
                    probe.refused(Failure::Sense(code))
                } else {
                    probe.again(Failure::Sense(code))
                }
            }
            (0, 0x18, _) => probe.refused(Failure::Reserved),
            (0, status, _) => probe.again(Failure::Status(status)),
            (response, ..) => probe.again(Failure::Target(response)),
        };
        match next {
            Next::Go => self.send_probe(session, output, now),
            // The LUN has changed since the probe began.
            Next::Done if self.asks_again => self.begin_probe(session, output, now),
            Next::Done => {
                self.access = probe.access;
                self.learned = self.probe.take();
                if self.state == PathState::Starting {
                    self.state = PathState::Up;
                    self.in_a_row = 0;
                }
            }
            Next::NoDisk(device_type, data) => {
                let units = Units::new(self.lun_number, device_type, &data);
                return Err(Error::NoDisk { portal: self.portal.clone(), units });
            }
            Next::Failed(what, failure) => return Err(Error::Unusable { portal: self.portal.clone(), what, failure }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Connection;
    use crate::options::Options;
    use crate::path::settings;
    use crate::probe::Probe;
    use crate::url::IscsiUrl;
    use iscsi_proto::initiator::Initiator;
    use iscsi_proto::pdu::Isid;
    use std::net::TcpListener;

    const GOOD: Status = Status { response: 0, status: 0, residual: Residual::None };

    /// A path in use whose session accepts no command at the moment, and the listener of its portal.
    fn busy_path(now: Instant) -> (Path, Initiator, TcpListener) {
        let url: IscsiUrl = "iscsi://127.0.0.1/iqn.2026-11.org.example:v/0".parse().unwrap();
        let isid = Isid::of_life([0, 0, 1], 1, 0);
        let session = || Initiator::new(settings(&url, &Options::for_portals(1), Vec::new(), isid));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut path = Path::new(&url, isid, false, ("127.0.0.1", 3260), now).unwrap();
        path.connection = Some(Connection::begin("portal".into(), listener.local_addr().unwrap(), session(), now).unwrap());
        path.state = PathState::Up;
        (path, session(), listener)
    }

    #[test]
    fn a_probe_that_the_session_does_not_accept_is_made_later() {
        let now = Instant::now();
        let (mut path, ..) = busy_path(now);
        path.ask_again(now);
        assert!(path.probe.is_none() && path.asks_again);
    }

    #[test]
    fn what_a_probe_learned_is_dropped_if_the_lun_changed_meanwhile_and_the_probe_begins_again() {
        let (now, mut work, mut data) = (Instant::now(), Work::default(), [0; 64]);
        data[8..12].copy_from_slice(&512_u32.to_be_bytes());
        for has_changed in [false, true] {
            let (mut path, mut session, _listener) = busy_path(now);
            let mut probe = Probe::new();
            // All commands but the last one, which asks for the mode.
            (0..6).for_each(|_| assert_eq!(probe.answered(&data), Next::Go));
            path.probe = Some(probe);
            if has_changed {
                path.ask_again(now);
            }
            path.probed((&mut session, &mut Vec::new()), GOOD, &[], &data, (now, &mut work)).unwrap();
            assert_eq!((path.learned.is_none(), path.asks_again), (has_changed, has_changed));
        }
    }
}
