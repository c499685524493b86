//! One SCSI command: executed by its logical unit, answered, counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi_proto::pdu::Cdb;
use iscsi_proto::scsi::{
    Asc, Completion, Direction, Nexus, Request as ScsiRequest, SENSE_BYTES_MAX, Sense, SenseKey, Status, execute_absent,
};
use iscsi_proto::target::{Outcome, Replies, Task};

use super::attached::{Attached, Mapped};
use super::faults::{self, Fate};
use super::kinds::CommandKind;

use crate::luns::{Operation, without_waiting};
use crate::nfs::export::Export;

/// Who sends commands, and what it sees.
pub(super) struct Sender {
    pub(super) nexus: Nexus,
    pub(super) export: Arc<Export>,
    pub(super) mapped: Mapped,
    pub(super) replies: Replies,
}

/// A command with all that its execution takes, but for its data.
pub(super) struct Command {
    pub(super) sender: Arc<Sender>,
    pub(super) attached: Option<Arc<Attached>>,
    pub(super) task: Task,
    pub(super) cdb: Cdb,
    pub(super) kind: CommandKind,
    pub(super) received_at: Instant,
}

impl Command {
    /// Whether it waits for the store when nothing is modelled: its write has to be durable, or it always does.
    pub(super) fn is_slow(&self) -> bool {
        let is_battery = self.sender.export.volume().options().durability == volume::Durability::Battery;
        let is_write = self.kind.operation == Operation::Write;
        let is_durable = is_write && self.attached.as_ref().is_some_and(|attached| !attached.unit.has_write_cache());
        match self.kind.operation {
            Operation::Write if self.kind.is_plain_write => (self.kind.is_slow || is_durable) && !is_battery,
            _ => self.kind.is_slow,
        }
    }

    /// Whether it changes nothing and can be tried without waiting.
    pub(super) const fn is_read(&self) -> bool {
        matches!(self.kind.operation, Operation::Read) && !self.kind.is_slow
    }

    /// A number that stands for the commands it is best executed with: durable writes of its LUN, if they gain from sharing a flush.
    pub(super) fn group(&self) -> Option<u64> {
        let attached =
            self.attached.as_ref().filter(|_| self.kind.is_plain_write && self.sender.export.volume().shares_flushes())?;
        self.goes_in_batches().then(|| Arc::as_ptr(&attached.lun).addr() as u64)
    }

    /// Whether several may be executed and answered together: a modelled medium delays each reply for its own time, and faults
    /// affect a command and its answer, not those of a whole batch.
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
            Direction::In => expected.bytes.min(u64::from(self.task.expected_read_bytes())).min(TRANSFER_BYTES_MAX) as usize,
            _ => 0,
        }
    }

    /// Executes it with its data from the initiator; data for the initiator goes to `data_in`.
    pub(super) fn execute(&self, data: &[u8], data_in: &mut [u8]) -> Completion {
        let expected_bytes = self.task.expected_read_bytes().max(self.task.expected_write_bytes());
        let request = ScsiRequest { cdb: self.cdb.as_slice(), expected_bytes, data_out: data, directory: &self.sender.mapped };
        match &self.attached {
            Some(attached) => attached.unit.execute(&self.sender.nexus, &request, data_in),
            None => execute_absent(&self.sender.nexus, &request, data_in),
        }
    }

    /// Executes it and writes the reply; when the reply may leave, if a modelled medium has a say.
    pub(super) fn answer(self, data: &[u8], out: &mut Vec<u8>) -> Option<Instant> {
        let begun = self.sender.replies.begin(out);
        let start = out.len();
        out.resize(start + self.data_in_bytes(), 0);
        let completion = {
            let _executing = self.attached.as_ref().map(|attached| attached.lun.executing());
            self.execute(data, out.get_mut(start..).unwrap_or_default())
        };
        out.truncate(start + completion.data_in_bytes);
        self.finish(completion, begun, out)
    }

    /// The same, with an answer whose fate is decided when the command is executed: one that is lost or reset is not written.
    pub(super) fn answer_unless_lost(self, data: &[u8], out: &mut Vec<u8>, decide: impl FnOnce(Option<Instant>) -> Fate) -> Fate {
        let mark = out.len();
        let begun = self.sender.replies.begin(out);
        let start = out.len();
        out.resize(start + self.data_in_bytes(), 0);
        let completion = {
            let _executing = self.attached.as_ref().map(|attached| attached.lun.executing());
            self.execute(data, out.get_mut(start..).unwrap_or_default())
        };
        let due = self.due();
        let fate = decide(due);
        if matches!(fate, Fate::Lost | Fate::Reset) {
            self.count(&completion, completion.status == Status::Good, due);
            out.truncate(mark);
            return fate;
        }
        out.truncate(start + completion.data_in_bytes);
        self.finish(completion, begun, out);
        fate
    }

    /// The same of a read that need not wait; the command again where it would have to, with nothing written.
    pub(super) fn answer_now(self, out: &mut Vec<u8>) -> Result<Option<Instant>, Self> {
        let mark = out.len();
        let begun = self.sender.replies.begin(out);
        let start = out.len();
        out.resize(start + self.data_in_bytes(), 0);
        let completed = {
            let _executing = self.attached.as_ref().map(|attached| attached.lun.executing());
            without_waiting(|| self.execute(&[], out.get_mut(start..).unwrap_or_default()))
        };
        let Some(completion) = completed else {
            out.truncate(mark);
            return Err(self);
        };
        out.truncate(start + completion.data_in_bytes);
        Ok(self.finish(completion, begun, out))
    }

    /// Writes the reply of a command without data for the initiator that was executed before.
    pub(super) fn answer_executed(self, completion: Completion, out: &mut Vec<u8>) -> Option<Instant> {
        let begun = self.sender.replies.begin(out);
        self.finish(completion, begun, out)
    }

    fn finish(self, completion: Completion, begun: iscsi_proto::target::Begun, out: &mut Vec<u8>) -> Option<Instant> {
        let mut sense = [0; SENSE_BYTES_MAX];
        let sense_bytes = completion.sense.map_or(0, |found| found.encode(&mut sense));
        let is_good = completion.status == Status::Good;
        if !is_good {
            self.sender.export.log_poison();
        }
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
        // What passes a unit attention says nothing of whether that was told (SAM-5 5.14).
        if is_good && !matches!(self.cdb.as_slice().first(), Some(0x03 | 0x12 | 0xa0)) {
            attached.note_good(&self.sender.nexus, self.kind.operation == Operation::Write);
        }
    }
}

/// Largest buffer for data to an initiator, in bytes.
const TRANSFER_BYTES_MAX: u64 = iscsi_proto::limits::SCSI_TRANSFER_BYTES_MAX;

/// How a write ends whose flush failed behind it.
pub(super) const fn not_flushed() -> Completion {
    Completion::check(Sense::new(SenseKey::MediumError, Asc::WRITE_ERROR))
}
