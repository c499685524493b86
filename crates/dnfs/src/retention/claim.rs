//! Finds chunks for a write, fills them and records the result. The caller holds the write's block locks all the while.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::layout::CHUNK_BYTES;
use super::record::{Extent, Life, State};
use super::{PIECE_BLOCKS_MAX, Retained, Retention};
use crate::limits::LAZY_STEP_BYTES;
use crate::payload::Payload;
use crate::segment::{Answer, FileRef, Segment};
use crate::slot_limiter::Owner;

/// Chunks tried before more memory is asked for.
const TRIES: u32 = 64;

// A piece that is read ahead of a write ends at a chunk's end, so that each chunk is filled once.
const _: () = assert!(LAZY_STEP_BYTES.is_multiple_of(CHUNK_BYTES));

/// The records of one piece of a write.
pub(crate) struct Claims<'r> {
    retention: &'r Retention,
    /// Place of the piece in its file; order number of its first record.
    piece: Extent,
    chunks: [(u32, Life); PIECE_BLOCKS_MAX],
    count: usize,
    /// Number of published records.
    published: usize,
    /// The file of the chunk half the area ahead, if that chunk is still in use. A COMMIT of the file is due.
    pub(crate) commit_due: Option<FileRef>,
}

/// Every chunk is in use. Contains the file whose COMMIT frees the oldest one, if there is one.
pub(crate) struct NoChunk(pub(crate) Option<FileRef>);

impl Retention {
    /// Claims the chunks of a piece, and draws its order numbers.
    pub(crate) fn claim_piece(&self, segment: &Segment, piece: Extent) -> Result<Claims<'_>, NoChunk> {
        let owner = self.members.owner().ok_or(NoChunk(None))?;
        let chunks = [(0, Life::FREE); PIECE_BLOCKS_MAX];
        let mut claims = Claims { retention: self, piece, chunks, count: 0, published: 0, commit_due: None };
        let records = (piece.length as usize).div_ceil(CHUNK_BYTES);
        for place in claims.chunks.iter_mut().take(records) {
            match self.claim(segment, owner, &mut claims.commit_due) {
                Ok(claimed) => *place = claimed,
                Err(full) => {
                    claims.drop_all();
                    return Err(full);
                }
            }
            claims.count += 1;
        }
        claims.piece.order = self.next_order(records as u64);
        Ok(claims)
    }

    /// Takes a chunk that is free or no longer needed.
    pub(super) fn claim(&self, segment: &Segment, owner: Owner, due: &mut Option<FileRef>) -> Result<(u32, Life), NoChunk> {
        let process = (owner >> 32) as u32;
        let next = self.run_next.load(Relaxed);
        if let Some(life) = self.try_claim(segment, next, process, false) {
            self.run_next.store(next + 1, Relaxed);
            self.look_ahead(segment, next, due);
            return Ok((next, life));
        }
        loop {
            let count = self.records().len() as u32;
            for _ in 0..TRIES.min(count) {
                if let Some(found) = self.claim_at_hand(segment, process, false, due) {
                    return Ok(found);
                }
            }
            if self.grow() {
                continue;
            }
            // Searches the whole area once, with the chunks of killed writers.
            for _ in 0..count {
                if let Some(found) = self.claim_at_hand(segment, process, true, due) {
                    return Ok(found);
                }
            }
            return Err(NoChunk(self.oldest()));
        }
    }

    fn claim_at_hand(&self, segment: &Segment, process: u32, dead_too: bool, due: &mut Option<FileRef>) -> Option<(u32, Life)> {
        let records = self.records();
        let count = records.len() as u64;
        let hand = self.header().hand.fetch_add(1, AcqRel);
        let chunk = (hand % count) as u32;
        let life = self.try_claim(segment, chunk, process, dead_too)?;
        self.run_first.store(chunk, Relaxed);
        self.run_next.store(chunk + 1, Relaxed);
        self.look_ahead(segment, chunk, due);
        Some((chunk, life))
    }

    /// Sets `due` to the file whose COMMIT is due, if the chunk half the area ahead is still in use.
    fn look_ahead(&self, segment: &Segment, chunk: u32, due: &mut Option<FileRef>) {
        let records = self.records();
        let ahead = (chunk as usize + records.len() / 2) % records.len().max(1);
        if self.header().is_full.load(Relaxed) != 0
            && let Some(ahead) = records.get(ahead)
            && ahead.life().state() == State::Answered
            && !self.holds_nothing(segment, ahead, false)
        {
            *due = Some(ahead.file());
        }
    }

    fn try_claim(&self, segment: &Segment, chunk: u32, process: u32, dead_too: bool) -> Option<Life> {
        let record = self.records().get(chunk as usize)?;
        let seen = record.life();
        if !self.holds_nothing(segment, record, dead_too) {
            return None;
        }
        record.claim(seen, process)
    }

    /// Whether the record is no longer needed. `dead_too`: also asks the kernel whether an unfinished writer has died.
    pub(crate) fn holds_nothing(&self, segment: &Segment, record: &super::layout::Record, dead_too: bool) -> bool {
        match record.life().state() {
            State::Free => true,
            State::Answered => self.is_committed(segment, record),
            State::Claimed => dead_too && self.has_died(record),
            // The record is needed even if its writer was killed: another client may have read the part that the server
            // has.
            State::Published | State::Unsent => false,
            // The record is not reused while its writer lives.
            State::Kept => dead_too && self.has_died(record) && self.is_committed(segment, record),
            State::Void => dead_too && self.has_died(record),
        }
    }

    /// Whether a COMMIT covers the record, or its file is gone.
    fn is_committed(&self, segment: &Segment, record: &super::layout::Record) -> bool {
        segment.slot(record.file()).is_none_or(|slot| slot.clean.load(Acquire) >= record.answer.load(Relaxed))
    }

    /// Whether the record's writer has died.
    pub(crate) fn has_died(&self, record: &super::layout::Record) -> bool {
        self.members.has_died(u64::from(record.life().process()) << 32)
    }

    /// Whether a record must be resent: it is answered and not committed, or a killed writer left it, and the server may have
    /// executed its WRITE and another client may have read the data. The caller holds the gate.
    pub(crate) fn is_to_be_sent(&self, segment: &Segment, record: &super::layout::Record) -> bool {
        match record.life().state() {
            State::Free | State::Claimed | State::Unsent | State::Void => false,
            State::Answered | State::Kept => !self.is_committed(segment, record),
            State::Published => segment.slot(record.file()).is_some(),
        }
    }

    /// Number of bytes kept, and the maximum.
    pub(crate) fn usage(&self, segment: &Segment) -> Retained {
        let bytes = self.kept(segment).map(|(_, bytes)| bytes).sum();
        Retained { bytes, bytes_max: u64::from(self.header().chunk_max.load(Relaxed)) * CHUNK_BYTES as u64 }
    }

    /// The kept records' bytes, each with its file.
    pub(crate) fn kept(&self, segment: &Segment) -> impl Iterator<Item = (FileRef, u64)> {
        let records = self.records().iter().filter(|record| self.is_to_be_sent(segment, record));
        records.map(|record| (record.file(), u64::from(record.length.load(Relaxed)))).chain(self.unsent(segment))
    }

    /// Whether a killed writer left a published record, so that it is unknown whether the server has its data.
    pub(crate) fn has_left_records(&self) -> bool {
        self.records().iter().any(|record| record.life().state() == State::Published && self.has_died(record))
    }

    /// The file of the answered record with the lowest order number.
    fn oldest(&self) -> Option<FileRef> {
        let answered = self.records().iter().filter(|record| record.life().state() == State::Answered);
        answered.min_by_key(|record| record.order.load(Relaxed)).map(super::layout::Record::file)
    }
}

impl Claims<'_> {
    /// Stores and publishes the piece's bytes up to `end` at least. The caller sends them afterwards.
    pub(crate) fn publish(&mut self, payload: &Payload<'_, '_>, end: usize) {
        let piece_bytes = payload.available().min(self.piece.length as usize);
        while self.published < self.count && self.published * CHUNK_BYTES < end {
            let Some((chunk, life)) = self.chunks.get(self.published) else { return };
            let at = self.published * CHUNK_BYTES;
            let length = CHUNK_BYTES.min(piece_bytes.saturating_sub(at));
            payload.each(at..at + length, |place, bytes| self.retention.store(*chunk as usize, place, bytes));
            if let Some(record) = self.retention.records().get(*chunk as usize) {
                let (offset, order) = (self.piece.offset + at as u64, self.piece.order + self.published as u64);
                record.publish(*life, &Extent { offset, length: length as u32, order, ..self.piece });
            }
            self.published += 1;
        }
    }

    /// Notes that the server wrote the first `written` bytes of the piece and refused the rest.
    pub(crate) fn answered(self, written: usize, answer: Answer) {
        let mut left = written;
        for (number, (chunk, life)) in self.chunks.iter().take(self.count).enumerate() {
            let Some(record) = self.retention.records().get(*chunk as usize) else { continue };
            if number >= self.published {
                record.free(*life);
                continue;
            }
            let Some(extent) = record.extent() else { continue };
            let length = left.min(extent.length as usize);
            left -= length;
            if length == 0 {
                record.free(*life);
                continue;
            }
            if length < extent.length as usize {
                record.shorten(length as u32);
            }
            record.answered(*life, answer);
        }
    }

    /// Frees all records: the server wrote nothing of the piece.
    pub(crate) fn drop_all(&self) {
        for (chunk, life) in self.chunks.iter().take(self.count) {
            if let Some(record) = self.retention.records().get(*chunk as usize) {
                record.free(*life);
            }
        }
    }

    /// Ends the claims after another process took the write over and settled its records. Returns how many of the first bytes
    /// the server has.
    pub(crate) fn pass(self) -> usize {
        let mut bytes = 0;
        let mut is_whole = true;
        for (number, (chunk, life)) in self.chunks.iter().take(self.count).enumerate() {
            let Some(record) = self.retention.records().get(*chunk as usize) else { continue };
            let length = if number < self.published { record.length.load(Relaxed) as usize } else { 0 };
            is_whole &= record.pass(*life) && length > 0;
            bytes += if is_whole { length } else { 0 };
        }
        bytes
    }
}
