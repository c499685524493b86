//! The requests of an initiator that have no response yet.

use super::event::{DataRequest, Residual, Status};
use crate::fault::Fault;
use crate::pdu::{DataIn, Itt, Lun, R2t, ScsiResponse};
use crate::serial::DataSn;
use std::collections::HashMap;

/// A request without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// A SCSI command.
    Command { lun: Lun, read_bytes: u32, write_bytes: u32, received: u32, data_sn: DataSn },
    /// A task management function.
    Management,
    /// A ping.
    Ping,
    /// A text request.
    Text,
    /// A logout.
    Logout,
}

/// The requests in progress.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pending: HashMap<u32, Pending>,
    last: u32,
}

impl Tasks {
    pub(super) fn add(&mut self, pending: Pending) -> Itt {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != Itt::NONE.0 && !self.pending.contains_key(&self.last) {
                self.pending.insert(self.last, pending);
                return Itt(self.last);
            }
        }
    }

    pub(super) fn find(&self, itt: Itt) -> Option<&Pending> {
        self.pending.get(&itt.0)
    }

    pub(super) fn count(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn forget(&mut self, itt: Itt) -> Option<Pending> {
        self.pending.remove(&itt.0)
    }

    /// Ends a request. An error if it is of another kind.
    pub(super) fn end(&mut self, itt: Itt, is_kind: impl Fn(&Pending) -> bool) -> Result<Pending, Fault> {
        match self.pending.get(&itt.0).copied() {
            Some(pending) if is_kind(&pending) => {
                self.pending.remove(&itt.0);
                Ok(pending)
            }
            _ => Err(Fault::Protocol("an answer to no request of its kind")),
        }
    }

    /// Counts received data. Returns the status if the data ends the command.
    pub(super) fn data_in(&mut self, header: &DataIn, bytes: usize) -> Result<Option<Status>, Fault> {
        let Some(Pending::Command { read_bytes, received, data_sn, .. }) = self.pending.get_mut(&header.itt.0) else {
            return Err(Fault::Protocol("data of no command"));
        };
        if header.data_sn != *data_sn {
            return Err(Fault::Number { what: "DataSN", got: header.data_sn.0, expected: data_sn.0 });
        }
        if header.buffer_offset != *received {
            return Err(Fault::Number { what: "buffer offset", got: header.buffer_offset, expected: *received });
        }
        let end = received.saturating_add(bytes as u32);
        if end > *read_bytes {
            return Err(Fault::Limit { what: "bytes read", got: end, limit: *read_bytes });
        }
        *received = end;
        *data_sn = data_sn.next();
        if !header.has_status {
            return Ok(None);
        }
        self.pending.remove(&header.itt.0);
        let residual = residual(header.overflow, header.underflow, header.residual_bytes);
        Ok(Some(Status { response: 0, status: header.status, residual }))
    }

    /// Checks a request for data.
    pub(super) fn request(&self, header: &R2t) -> Result<DataRequest, Fault> {
        let Some(Pending::Command { write_bytes, .. }) = self.pending.get(&header.itt.0) else {
            return Err(Fault::Protocol("an R2T of no command"));
        };
        let end = header.buffer_offset.saturating_add(header.desired_bytes);
        if header.desired_bytes == 0 || end > *write_bytes {
            return Err(Fault::Limit { what: "end of an R2T", got: end, limit: *write_bytes });
        }
        Ok(DataRequest { itt: header.itt, ttt: header.ttt, offset: header.buffer_offset, bytes: header.desired_bytes })
    }
}

pub(super) const fn status_of(header: &ScsiResponse) -> Status {
    let residual = residual(header.overflow, header.underflow, header.residual_bytes);
    Status { response: header.response, status: header.status, residual }
}

const fn residual(overflow: bool, underflow: bool, bytes: u32) -> Residual {
    match (overflow, underflow) {
        (true, _) => Residual::Overflow(bytes),
        (false, true) => Residual::Underflow(bytes),
        (false, false) => Residual::None,
    }
}
