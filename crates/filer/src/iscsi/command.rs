//! One SCSI command: executed by its logical unit, answered, counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi_proto::pdu::Cdb;
use iscsi_proto::scsi::{
    Asc, Completion, Direction, Nexus, Request as ScsiRequest, SENSE_BYTES_MAX, Sense, SenseKey, Status, execute_absent,
};
use iscsi_proto::target::{Begun, Outcome, Replies, Task};

use super::attached::{Attached, Mapped};
use super::faults::{self, Fate};
use super::kinds::CommandKind;

use crate::luns::{Operation, without_waiting};
use crate::nfs::export::Export;

/// The sender of commands: its nexus, and the LUNs that it sees.
pub(super) struct Sender {
    pub(super) nexus: Nexus,
    pub(super) export: Arc<Export>,
    pub(super) mapped: Mapped,
    pub(super) replies: Replies,
}

/// A command, without its data.
pub(super) struct Command {
    pub(super) sender: Arc<Sender>,
    pub(super) attached: Option<Arc<Attached>>,
    pub(super) task: Task,
    pub(super) cdb: Cdb,
    pub(super) kind: CommandKind,
    pub(super) received_at: Instant,
}

impl Command {
    /// Whether it waits for the store (without a modelled medium): its write must be durable, or it always waits.
    pub(super) fn is_slow(&self) -> bool {
        let is_battery = self.sender.export.volume().options().durability == volume::Durability::Battery;
        let is_write = self.kind.operation == Operation::Write;
        let is_durable = is_write && self.attached.as_ref().is_some_and(|attached| !attached.unit.has_write_cache());
        match self.kind.operation {
            Operation::Write if self.kind.is_plain_write => (self.kind.is_slow || is_durable) && !is_battery,
            _ => self.kind.is_slow,
        }
    }

    /// Whether it only reads and can be tried without waiting.
    pub(super) const fn is_read(&self) -> bool {
        matches!(self.kind.operation, Operation::Read) && !self.kind.is_slow
    }

    /// The number of its group: durable writes of one LUN, if they gain from sharing a flush.
    pub(super) fn group(&self) -> Option<u64> {
        let attached =
            self.attached.as_ref().filter(|_| self.kind.is_plain_write && self.sender.export.volume().shares_flushes())?;
        self.goes_in_batches().then(|| Arc::as_ptr(&attached.lun).addr() as u64)
    }

    /// Whether several commands may be executed and answered together. A modelled medium delays each reply by its own time, and an injected
    /// fault affects a single command, so with these each command runs alone.
    fn goes_in_batches(&self) -> bool {
        self.sender.export.medium().is_none() && !self.has_faults()
    }

    /// Whether faults of commands and answers are set.
    pub(super) fn has_faults(&self) -> bool {
        self.sender.export.volume().faults().any(faults::WIRE)
    }

    /// Bytes for data to the initiator.
    pub(super) fn data_in_bytes(&self) -> usize {
        let expected = match &self.attached {
            Some(attached) => attached.unit.expected_data(self.cdb.as_slice()),
            None => iscsi_proto::scsi::expected_data(self.cdb.as_slice(), 512),
        };
        match expected.direction {
            Direction::In => {
                let most = if self.kind.operation == Operation::Read { TRANSFER_BYTES_MAX } else { PARAMETER_BYTES_MAX };
                expected.bytes.min(u64::from(self.task.expected_read_bytes())).min(most) as usize
            }
            _ => 0,
        }
    }

    /// Called before the command is executed. Returns false if it was aborted.
    pub(super) fn begin(&mut self) -> bool {
        if self.kind.changes_nothing { !self.task.is_aborted() } else { self.task.begin() }
    }

    /// Answers TASK SET FULL because no memory is free. The initiator then resends the command.
    pub(super) fn refuse(self, out: &mut Vec<u8>) {
        let begun = self.sender.replies.begin(out);
        self.finish(Completion::status(Status::TaskSetFull), begun, out);
    }

    /// Executes the command with the initiator's `data`. Puts data for the initiator into `data_in`.
    pub(super) fn execute(&self, data: &[u8], data_in: &mut [u8]) -> Completion {
        let expected_bytes = self.task.expected_read_bytes().max(self.task.expected_write_bytes());
        let request = ScsiRequest { cdb: self.cdb.as_slice(), expected_bytes, data_out: data, directory: &self.sender.mapped };
        match &self.attached {
            Some(attached) => attached.unit.execute(&self.sender.nexus, &request, data_in),
            None => execute_absent(&self.sender.nexus, &request, data_in),
        }
    }

    /// Executes the command and writes the reply. With a modelled medium, returns the time at which the reply may leave.
    pub(super) fn answer(self, data: &[u8], out: &mut Vec<u8>) -> Option<Instant> {
        let (begun, completion) = self.execute_into(data, out);
        self.finish(completion, begun, out)
    }

    /// As [`Self::answer`]. After the execution, `decide` returns whether the reply is written, lost, or replaced by a reset.
    pub(super) fn answer_unless_lost(self, data: &[u8], out: &mut Vec<u8>, decide: impl FnOnce(Option<Instant>) -> Fate) -> Fate {
        let mark = out.len();
        let (begun, completion) = self.execute_into(data, out);
        let due = self.due();
        let fate = decide(due);
        if matches!(fate, Fate::Lost | Fate::Reset) {
            self.count(&completion, completion.status == Status::Good, due);
            out.truncate(mark);
            return fate;
        }
        self.finish(completion, begun, out);
        fate
    }

    /// As [`Self::answer`] for a read that may not wait. Returns the command, with nothing written, if it would wait.
    pub(super) fn answer_now(self, out: &mut Vec<u8>) -> Result<Option<Instant>, Self> {
        let mark = out.len();
        let Some((begun, completion)) = without_waiting(|| self.execute_into(&[], out)) else {
            out.truncate(mark);
            return Err(self);
        };
        Ok(self.finish(completion, begun, out))
    }

    /// Executes the command. Begins its reply in `out`, and appends the data for the initiator.
    fn execute_into(&self, data: &[u8], out: &mut Vec<u8>) -> (Begun, Completion) {
        let begun = self.sender.replies.begin(out);
        let start = out.len();
        out.resize(start + self.data_in_bytes(), 0);
        let _executing = self.attached.as_ref().map(|attached| attached.lun.executing());
        let completion = self.execute(data, out.get_mut(start..).unwrap_or_default());
        out.truncate(start + completion.data_in_bytes);
        (begun, completion)
    }

    /// Writes the reply of an executed command that has no data for the initiator.
    pub(super) fn answer_executed(self, completion: Completion, out: &mut Vec<u8>) -> Option<Instant> {
        let begun = self.sender.replies.begin(out);
        self.finish(completion, begun, out)
    }

    fn finish(self, completion: Completion, begun: Begun, out: &mut Vec<u8>) -> Option<Instant> {
        let mut sense = [0; SENSE_BYTES_MAX];
        let sense_bytes = completion.sense.map_or(0, |found| found.encode(&mut sense));
        let is_good = completion.status == Status::Good;
        let due = self.due();
        self.count(&completion, is_good, due);
        let outcome = Outcome {
            status: completion.status.code(),
            sense: sense.get(..sense_bytes).unwrap_or_default(),
            transfer_bytes: completion.transfer_bytes,
        };
        self.sender.replies.finish(out, begun, self.task, &outcome);
        due
    }

    fn due(&self) -> Option<Instant> {
        let attached = self.attached.as_ref().filter(|_| self.sender.export.medium().is_some())?;
        let device = attached.lun.device();
        let (kind, offset, bytes) = self.kind.on_medium(attached.unit.has_write_cache(), device.block_bytes())?;
        self.sender.export.due(self.received_at, device.operation(kind, offset, bytes)).filter(|due| *due > self.received_at)
    }

    fn count(&self, completion: &Completion, is_good: bool, due: Option<Instant>) {
        let Some(attached) = &self.attached else { return };
        let bytes = match self.kind.operation {
            Operation::Read => completion.data_in_bytes as u64,
            Operation::Write if is_good => completion.transfer_bytes,
            _ => 0,
        };
        let modelled = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(self.received_at));
        let took = self.received_at.elapsed().max(modelled);
        attached.lun.stats().count(&attached.stats, self.kind.operation, is_good, bytes, took);
        // Some commands succeed while a unit attention waits (SAM-5 5.14), so their success does not prove that it was reported.
        if is_good && !matches!(self.cdb.as_slice().first(), Some(0x03 | 0x12 | 0xa0)) {
            attached.note_good(&self.sender.nexus, self.kind.operation == Operation::Write);
        }
    }
}

/// Largest buffer for data to an initiator, in bytes.
const TRANSFER_BYTES_MAX: u64 = iscsi_proto::limits::SCSI_TRANSFER_BYTES_MAX;
/// Largest buffer for a command that reads no blocks, whatever its allocation length, in bytes. READ FULL STATUS of 256 registrations
/// has 70 KiB.
const PARAMETER_BYTES_MAX: u64 = 128 << 10;

/// The status of a write whose data was written and whose flush failed.
pub(super) const fn not_flushed() -> Completion {
    Completion::check(Sense::new(SenseKey::MediumError, Asc::WRITE_ERROR))
}
