//! Requests of an initiator.

use super::event::{DataRequest, Refusal};
use super::session::Initiator;
use super::tasks::Pending;
use crate::limits::{CDB_BYTES_MAX, PING_BYTES_MAX, TEXT_BYTES_MAX};
use crate::login::{END_FORMER, END_SESSION_KEY};
use crate::pdu::{
    self, DataOut, Isid, Itt, LogoutReason, LogoutRequest, Lun, NopOut, ScsiCommand, TaskFunction, TaskRequest, TextRequest, Ttt,
};
use crate::serial::{CmdSn, DataSn};

/// A SCSI command.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The logical unit.
    pub lun: Lun,
    /// Its CDB.
    pub cdb: &'a [u8],
    /// Task attribute: 1 simple, 2 ordered, 3 head of queue.
    pub attribute: u8,
    /// Its data.
    pub transfer: Transfer<'a>,
}

/// The data of a command.
#[derive(Clone, Copy, Debug)]
pub enum Transfer<'a> {
    /// The command has no data.
    None,
    /// The initiator receives up to this number of bytes.
    Read(u32),
    /// The initiator sends these bytes. The target requests those that are not sent with the command by
    /// [`Event::Wanted`](super::Event::Wanted).
    Write(&'a [u8]),
}

impl Initiator {
    /// Appends a SCSI command, with as much of its data as the negotiated parameters allow.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was appended.
    pub fn command(&mut self, out: &mut Vec<u8>, request: &Request<'_>) -> Result<Itt, Refusal> {
        let (read_bytes, data) = match request.transfer {
            Transfer::None => (0, &[][..]),
            Transfer::Read(bytes) => (bytes, &[][..]),
            Transfer::Write(data) => (0, data),
        };
        let write_bytes = u32::try_from(data.len()).map_err(|_| Refusal::TooLong(data.len()))?;
        if request.cdb.len() > CDB_BYTES_MAX {
            return Err(Refusal::TooLong(request.cdb.len()));
        }
        let cmd_sn = self.number()?;
        let parameters = self.parameters;
        let first_burst = write_bytes.min(parameters.first_burst_bytes) as usize;
        let immediate = if parameters.immediate_data { first_burst.min(parameters.send_segment_bytes_max as usize) } else { 0 };
        let unsolicited = if parameters.initial_r2t { immediate } else { first_burst };
        let pending = Pending::Command { lun: request.lun, read_bytes, write_bytes, received: 0, data_sn: DataSn(0) };
        let itt = self.tasks.add(pending);
        let (cdb, ahs) = pdu::extended_cdb(request.cdb);
        let header = ScsiCommand {
            immediate: false,
            is_final: unsolicited == immediate,
            read: matches!(request.transfer, Transfer::Read(_)),
            write: matches!(request.transfer, Transfer::Write(_)),
            attribute: request.attribute,
            lun: request.lun,
            itt,
            expected_data_bytes: read_bytes.max(write_bytes),
            cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb,
        };
        let first = data.get(..immediate).unwrap_or_default();
        pdu::append(out, header.to_bhs(), &ahs, first, self.limits.digests);
        let rest = data.get(immediate..unsolicited).unwrap_or_default();
        self.data_pdus(
            out,
            DataRequest { itt, ttt: Ttt::NONE, offset: immediate as u32, bytes: rest.len() as u32 },
            request.lun,
            rest,
        );
        Ok(itt)
    }

    /// Answers a request for data. `data` is the complete data of the command.
    ///
    /// # Errors
    /// [`Refusal`] if the command has ended meanwhile or has less data. In that case nothing was appended.
    pub fn data_out(&self, out: &mut Vec<u8>, request: DataRequest, data: &[u8]) -> Result<(), Refusal> {
        let Some(Pending::Command { lun, .. }) = self.tasks.find(request.itt) else { return Err(Refusal::NoTask(request.itt.0)) };
        let start = request.offset as usize;
        let part = data.get(start..start.saturating_add(request.bytes as usize)).ok_or(Refusal::TooLong(data.len()))?;
        self.data_pdus(out, request, *lun, part);
        Ok(())
    }

    fn data_pdus(&self, out: &mut Vec<u8>, request: DataRequest, lun: Lun, data: &[u8]) {
        let segment = (self.parameters.send_segment_bytes_max.max(512) & !3) as usize;
        let count = data.len().div_ceil(segment);
        for (number, part) in data.chunks(segment).enumerate() {
            let header = DataOut {
                is_final: number + 1 == count,
                lun,
                itt: request.itt,
                ttt: request.ttt,
                exp_stat_sn: self.exp_stat_sn,
                data_sn: DataSn(number as u32),
                buffer_offset: request.offset + (number * segment) as u32,
            };
            pdu::append(out, header.to_bhs(), &[], part, self.limits.digests);
        }
    }

    /// Appends a task management function, for immediate delivery.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was appended.
    pub fn task_management(
        &mut self,
        out: &mut Vec<u8>,
        function: TaskFunction,
        lun: Lun,
        referenced: Option<Itt>,
    ) -> Result<Itt, Refusal> {
        self.check_phase()?;
        let itt = self.tasks.add(Pending::Management);
        let request = TaskRequest {
            immediate: true,
            function: function.0,
            lun,
            itt,
            referenced_itt: referenced.unwrap_or(Itt::NONE),
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            ref_cmd_sn: CmdSn(0),
            exp_data_sn: DataSn(0),
        };
        self.put(out, request.to_bhs(), &[]);
        Ok(itt)
    }

    /// Forgets a command that the target has aborted. No response is expected for it.
    pub fn forget(&mut self, itt: Itt) {
        self.tasks.forget(itt);
    }

    /// Appends a ping, for immediate delivery. The target returns as much of `data` as it accepts.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was appended.
    pub fn ping(&mut self, out: &mut Vec<u8>, data: &[u8]) -> Result<Itt, Refusal> {
        self.check_phase()?;
        let limit = PING_BYTES_MAX.min(self.parameters.send_segment_bytes_max as usize);
        let data = Some(data).filter(|data| data.len() <= limit).ok_or(Refusal::TooLong(data.len()))?;
        let itt = self.tasks.add(Pending::Ping);
        let (cmd_sn, exp_stat_sn) = (self.cmd_sn, self.exp_stat_sn);
        let ping = NopOut { immediate: true, lun: Lun::default(), itt, ttt: Ttt::NONE, cmd_sn, exp_stat_sn };
        self.put(out, ping.to_bhs(), data);
        Ok(itt)
    }

    /// Appends SendTargets with its value: `All`, a name or nothing (RFC 7143 appendix C).
    ///
    /// # Errors
    /// [`Refusal`]: nothing was appended.
    pub fn send_targets(&mut self, out: &mut Vec<u8>, value: &str) -> Result<Itt, Refusal> {
        let mut text = Vec::new();
        crate::text::append(&mut text, "SendTargets", value);
        if text.len() > TEXT_BYTES_MAX {
            return Err(Refusal::TooLong(text.len()));
        }
        let cmd_sn = self.number()?;
        let itt = self.tasks.add(Pending::Text);
        self.text.clear();
        self.text_request(out, itt, Ttt::NONE, cmd_sn, &text);
        Ok(itt)
    }

    /// Appends a request to end another session of this initiator with the same target ([`END_SESSION_KEY`]). The response is an
    /// [`Event::Text`](super::Event::Text).
    ///
    /// # Errors
    /// [`Refusal`]: nothing was appended.
    pub fn end_session(&mut self, out: &mut Vec<u8>, isid: Isid) -> Result<Itt, Refusal> {
        self.end_sessions(out, &crate::text::to_hexadecimal(&isid.0))
    }

    /// Appends a request to end all sessions that earlier processes left ([`END_FORMER`]).
    ///
    /// # Errors
    /// [`Refusal`]: nothing was appended.
    pub fn end_former(&mut self, out: &mut Vec<u8>) -> Result<Itt, Refusal> {
        self.end_sessions(out, END_FORMER)
    }

    fn end_sessions(&mut self, out: &mut Vec<u8>, which: &str) -> Result<Itt, Refusal> {
        let mut text = Vec::new();
        crate::text::append(&mut text, END_SESSION_KEY, which);
        let cmd_sn = self.number()?;
        let itt = self.tasks.add(Pending::Text);
        self.text.clear();
        self.text_request(out, itt, Ttt::NONE, cmd_sn, &text);
        Ok(itt)
    }

    pub(super) fn text_request(&self, out: &mut Vec<u8>, itt: Itt, ttt: Ttt, cmd_sn: CmdSn, text: &[u8]) {
        // Continuations are immediate, because the target may have closed its window meanwhile.
        let request = TextRequest {
            immediate: ttt != Ttt::NONE,
            is_final: true,
            is_continued: false,
            lun: Lun::default(),
            itt,
            ttt,
            cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.put(out, request.to_bhs(), text);
    }

    /// Appends a logout that closes the session, for immediate delivery.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was appended.
    pub fn logout(&mut self, out: &mut Vec<u8>) -> Result<Itt, Refusal> {
        self.check_phase()?;
        let itt = self.tasks.add(Pending::Logout);
        let (cmd_sn, exp_stat_sn) = (self.cmd_sn, self.exp_stat_sn);
        let request = LogoutRequest { immediate: true, reason: LogoutReason::CloseSession.0, itt, cid: 0, cmd_sn, exp_stat_sn };
        self.put(out, request.to_bhs(), &[]);
        Ok(itt)
    }
}
