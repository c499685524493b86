//! Processing of PDUs from the target.

use super::event::Event;
use super::login::Progress;
use super::session::{Initiator, Phase};
use super::tasks::{Pending, status_of};
use crate::fault::Fault;
use crate::limits::TARGETS_TEXT_BYTES_MAX;
use crate::pdu::{
    self, AsyncMessage, Bhs, DataIn, Digests, FrameLimits, Itt, LogoutResponse, NopIn, NopOut, Opcode, Pdu, PduError, R2t,
    Reject, ScsiResponse, TaskResponse, TextResponse, Ttt,
};
use crate::serial::StatSn;

impl Initiator {
    /// Processes one whole PDU. Appends answers that are due at once to `out`.
    ///
    /// # Errors
    /// [`Fault`]: the caller must close the connection.
    pub fn receive<'a>(&mut self, pdu: &'a [u8], out: &mut Vec<u8>) -> Result<Event<'a>, Fault> {
        let pdu = pdu::parse(pdu, self.limits)?;
        match &mut self.phase {
            Phase::Login(login) => {
                let progress = login.step(&pdu, &self.settings, out);
                self.awaits_algorithm = login.awaits_algorithm();
                let progress = progress?;
                self.note_numbers(&pdu.bhs);
                self.exp_stat_sn = StatSn(pdu.bhs.word(24)).next();
                Ok(self.login_event(progress))
            }
            Phase::Full => self.response(&pdu, out),
            Phase::Ended => Err(Fault::Misplaced { opcode: pdu.bhs.0[0] & 0x3f, phase: "after the end of the session" }),
        }
    }

    fn login_event<'a>(&mut self, progress: Progress) -> Event<'a> {
        match progress {
            Progress::Goes => Event::Nothing,
            Progress::Refused(status, address) => {
                self.phase = Phase::Ended;
                Event::LoginRefused { status, address }
            }
            Progress::Done(parameters, tsih, portal_group) => {
                (self.phase, self.parameters, self.tsih) = (Phase::Full, parameters, tsih);
                self.portal_group = portal_group;
                self.limits = FrameLimits {
                    digests: Digests { header: parameters.header_digest, data: parameters.data_digest },
                    data_bytes_max: parameters.receive_segment_bytes_max as usize,
                };
                Event::LoggedIn(parameters)
            }
        }
    }

    fn response<'a>(&mut self, pdu: &Pdu<'a>, out: &mut Vec<u8>) -> Result<Event<'a>, Fault> {
        let (bhs, data) = (&pdu.bhs, pdu.data);
        let number = bhs.0[0] & 0x3f;
        let opcode = bhs.opcode().ok_or(PduError::Opcode(number))?;
        self.note_numbers(bhs);
        match opcode {
            Opcode::DataIn => self.data_in(&DataIn::from_bhs(bhs), data),
            Opcode::ScsiResponse => {
                let header = ScsiResponse::from_bhs(bhs);
                self.note_stat_sn(header.stat_sn)?;
                self.tasks.end(header.itt, |pending| matches!(pending, Pending::Command { .. }))?;
                Ok(Event::Ended { itt: header.itt, status: status_of(&header), sense: sense_of(data) })
            }
            Opcode::R2t => Ok(Event::Wanted(self.tasks.request(&R2t::from_bhs(bhs))?)),
            Opcode::NopIn => self.nop_in(&NopIn::from_bhs(bhs), data, out),
            Opcode::TaskResponse => {
                let header = TaskResponse::from_bhs(bhs);
                self.note_stat_sn(header.stat_sn)?;
                self.tasks.end(header.itt, |pending| *pending == Pending::Management)?;
                Ok(Event::TaskManagement { itt: header.itt, response: header.response })
            }
            Opcode::TextResponse => self.text_response(&TextResponse::from_bhs(bhs), data, out),
            Opcode::LogoutResponse => {
                let header = LogoutResponse::from_bhs(bhs);
                self.note_stat_sn(header.stat_sn)?;
                self.tasks.end(header.itt, |pending| *pending == Pending::Logout)?;
                self.phase = Phase::Ended;
                Ok(Event::LoggedOut { response: header.response })
            }
            Opcode::AsyncMessage => {
                let header = AsyncMessage::from_bhs(bhs);
                self.note_stat_sn(header.stat_sn)?;
                let parameters = [header.parameter1, header.parameter2, header.parameter3];
                Ok(Event::Async { event: header.event, parameters, data })
            }
            Opcode::Reject => {
                let header = Reject::from_bhs(bhs);
                self.note_stat_sn(header.stat_sn)?;
                let rejected = Bhs(*data.first_chunk().ok_or(Fault::Protocol("a reject without the header that it rejects"))?);
                self.tasks.forget(rejected.itt());
                Ok(Event::Rejected { reason: header.reason, itt: rejected.itt() })
            }
            _ => Err(Fault::Misplaced { opcode: number, phase: "from a target in the full feature phase" }),
        }
    }

    fn data_in<'a>(&mut self, header: &DataIn, data: &'a [u8]) -> Result<Event<'a>, Fault> {
        if header.has_status {
            self.note_stat_sn(header.stat_sn)?;
        }
        let status = self.tasks.data_in(header, data.len())?;
        Ok(Event::Data { itt: header.itt, offset: header.buffer_offset, data, status })
    }

    fn nop_in<'a>(&mut self, header: &NopIn, data: &'a [u8], out: &mut Vec<u8>) -> Result<Event<'a>, Fault> {
        if header.itt != Itt::NONE {
            self.note_stat_sn(header.stat_sn)?;
            self.tasks.end(header.itt, |pending| *pending == Pending::Ping)?;
            return Ok(Event::Pong { itt: header.itt, data });
        }
        if header.ttt != Ttt::NONE {
            let (cmd_sn, exp_stat_sn) = (self.cmd_sn, self.exp_stat_sn);
            let answer = NopOut { immediate: true, lun: header.lun, itt: Itt::NONE, ttt: header.ttt, cmd_sn, exp_stat_sn };
            self.put(out, answer.to_bhs(), &[]);
        }
        Ok(Event::Nothing)
    }

    fn text_response<'a>(&mut self, header: &TextResponse, data: &[u8], out: &mut Vec<u8>) -> Result<Event<'a>, Fault> {
        self.note_stat_sn(header.stat_sn)?;
        if self.tasks.find(header.itt) != Some(&Pending::Text) {
            return Err(Fault::Protocol("an answer to no request of its kind"));
        }
        let bytes = self.text.len() + data.len();
        if bytes > TARGETS_TEXT_BYTES_MAX {
            return Err(Fault::Limit {
                what: "bytes of a text response",
                got: bytes as u32,
                limit: TARGETS_TEXT_BYTES_MAX as u32,
            });
        }
        self.text.extend_from_slice(data);
        if header.is_final {
            self.tasks.forget(header.itt);
            return Ok(Event::Text { itt: header.itt, text: std::mem::take(&mut self.text) });
        }
        if data.is_empty() && !header.is_continued {
            return Err(Fault::Protocol("a text response that neither ends nor goes on"));
        }
        self.text_request(out, header.itt, header.ttt, self.cmd_sn, &[]);
        Ok(Event::Nothing)
    }
}

/// The sense data of a SCSI Response, which follows its length (RFC 7143 11.4.7.2).
fn sense_of(data: &[u8]) -> &[u8] {
    let Some((length, rest)) = data.split_first_chunk() else { return &[] };
    rest.get(..usize::from(u16::from_be_bytes(*length))).unwrap_or(rest)
}
