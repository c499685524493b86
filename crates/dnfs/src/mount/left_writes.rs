//! Writes of processes that were killed or stopped before they got the reply. It is unknown whether the server executed such
//! a write. If it did, other processes may have read the data. No newer data may be written over it before that is settled,
//! because a later resend would restore the old data.

use std::io::IoSliceMut;

use super::io::full;
use super::{Mount, handle_of};
use crate::error::Error;
use crate::retention::layout::CHUNK_BYTES;
use crate::retention::{Extent, Gate, Retention, State};
use crate::segment::layout::Slot;

impl Mount {
    /// Settles, at the start of a process, the writes of processes that were killed before. So a restarted program finds one
    /// state of its files, not two.
    pub(super) fn finish_left_writes(&self) -> Result<(), Error> {
        match self.retention_if_there()? {
            Some(retention) if retention.has_left_records() => self.settle(true),
            _ => Ok(()),
        }
    }

    /// Settles what processes left that died or were stopped during a write. Resends what endpoints lost that restarted since.
    /// The caller holds `gate`.
    pub(super) fn finish_writes(&self, retention: &Retention, gate: &Gate<'_>) -> Result<(), Error> {
        if !self.judge_left(retention)? {
            self.resend_lost(retention)?;
        }
        gate.free_dead();
        Ok(())
    }

    /// Keeps the records whose data the server has. Drops the others, because their calls cannot arrive any more. Returns
    /// false if the server may have lost data, or does not allow it to be read. Then the caller must resend, because other
    /// processes may have read the data.
    fn judge_left(&self, retention: &Retention) -> Result<bool, Error> {
        let verifiers = self.segment.verifiers();
        let mut buffer = [0; CHUNK_BYTES];
        for (chunk, record) in retention.records().iter().enumerate() {
            let life = record.life();
            if life.state() != State::Published {
                continue;
            }
            let (Some(extent), Some(slot)) = (record.extent(), self.segment.slot(record.file())) else {
                record.free(life);
                continue;
            };
            let Some(there) = buffer.get_mut(..(extent.length as usize).min(CHUNK_BYTES)) else { continue };
            let Ok(executed) = self.is_executed(retention, chunk, &extent, slot, there) else { return Ok(false) };
            let newest = verifiers.newest();
            let verifier = self.acting_as(extent.credentials)?.verifier(&handle_of(slot)?);
            let Ok(verifier) = verifier else { return Ok(false) };
            let epoch = verifiers.epoch_of(verifier, &newest).map_err(full)?;
            if epoch.number() > verifiers.resent_of(epoch.endpoint()) {
                return Ok(false);
            }
            let answer = executed.then(|| slot.retained_write_answered(epoch.endpoint()));
            match answer {
                _ if !retention.has_died(record) => record.settle(life, answer), // the record still belongs to the stopped writer
                Some(answer) => record.answered(life, answer),
                None => record.free(life),
            }
            slot.attr_doubt();
        }
        Ok(true)
    }

    /// Whether the server has the bytes of a record.
    fn is_executed(
        &self,
        retention: &Retention,
        chunk: usize,
        extent: &Extent,
        slot: &Slot,
        there: &mut [u8],
    ) -> Result<bool, Error> {
        let client = self.acting_as(extent.credentials)?;
        let read = client.read(&handle_of(slot)?, extent.offset, &mut [IoSliceMut::new(there)])?;
        let mut kept = [0; CHUNK_BYTES];
        retention.load(chunk, &mut kept[..there.len()]);
        Ok(read.bytes == there.len() && kept[..there.len()] == *there)
    }
}
