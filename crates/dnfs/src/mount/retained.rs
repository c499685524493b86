//! Writes with retention: UNSTABLE data is kept in the shared area until a COMMIT covers it (docs/design/010-retention.md).
//!
//! A write may skip retention only if nothing of its file is kept while its block locks are held. Otherwise a later resend
//! would undo it.

use super::io::{full, note_attributes};
use super::{FileRef, Mount};
use crate::client::Client;
use crate::error::Error;
use crate::file::{FileHandle, Stability};
use crate::limits::{CHUNK_ROUNDS_MAX, WRITE_ROUNDS_MAX};
use crate::payload::Payload;
use crate::retention::{Claims, Extent, NoChunk, Retention, WriteGuard};
use crate::rpc::io_slices::{LONG, SendList};
use crate::segment::SegmentError;
use crate::segment::layout::Slot;
use crate::slot_limiter::begin_call;
use core::sync::atomic::Ordering::Relaxed;

/// A piece of a write and its place in the file.
pub(super) struct Piece<'p> {
    pub(super) file: FileRef,
    pub(super) slot: &'p Slot,
    pub(super) handle: &'p FileHandle,
    pub(super) offset: u64,
}

/// Result of one attempt to write a piece.
pub(super) enum Attempt {
    /// The server has this number of bytes, as stable as requested.
    Done(usize),
    /// The caller must begin again.
    Again,
    /// No chunk is free. A COMMIT of this file frees the oldest.
    Full(Option<FileRef>),
}

impl Mount {
    /// Writes the complete payload at `offset`, in pieces, and retains what is not stable. Returns the number of bytes
    /// written. It is smaller than the payload only if the server refused the rest or a later piece failed.
    pub(super) fn write_retained(
        &self,
        retention: &Retention,
        (file, slot, handle): (FileRef, &Slot, &FileHandle),
        offset: u64,
        payload: &mut Payload<'_, '_>,
        wanted: Stability,
    ) -> Result<usize, Error> {
        let piece_max = retention.piece_bytes();
        let mut written = 0;
        while written < payload.len() {
            let piece = Piece { file, slot, handle, offset: offset + written as u64 };
            let end = payload.len().min(written + piece_max);
            let (done, asked) = if written == 0 && end == payload.len() {
                (self.write_piece(retention, &piece, payload, wanted), payload.len())
            } else {
                let mut list = SendList::<LONG>::new();
                let mut part = payload.piece(written..end, &mut list);
                (self.write_piece(retention, &piece, &mut part, wanted), part.len())
            };
            match done {
                Ok(bytes) if bytes == asked => written += bytes,
                Ok(bytes) => return Ok(written + bytes),
                Err(error) if written == 0 => return Err(error),
                Err(_) => return Ok(written),
            }
        }
        Ok(written)
    }

    fn write_piece(
        &self,
        retention: &Retention,
        piece: &Piece<'_>,
        payload: &mut Payload<'_, '_>,
        wanted: Stability,
    ) -> Result<usize, Error> {
        let mut full_rounds = 0;
        for _ in 0..WRITE_ROUNDS_MAX + 2 * CHUNK_ROUNDS_MAX {
            // After too many rounds without a free chunk, the write is sent as FILE_SYNC once nothing of the file is
            // retained.
            let how = if full_rounds < CHUNK_ROUNDS_MAX { wanted } else { Stability::FileSync };
            match self.attempt(retention, piece, payload, how)? {
                Attempt::Done(bytes) => return Ok(bytes),
                Attempt::Again => {}
                Attempt::Full(oldest) => {
                    if retention.wait_for_commit() {
                        continue;
                    }
                    full_rounds += 1;
                    self.make_space(if full_rounds < CHUNK_ROUNDS_MAX { oldest } else { Some(piece.file) })?;
                }
            }
        }
        Err(SegmentError::Retained.into())
    }

    fn attempt(
        &self,
        retention: &Retention,
        piece: &Piece<'_>,
        payload: &mut Payload<'_, '_>,
        wanted: Stability,
    ) -> Result<Attempt, Error> {
        let (slot, length) = (piece.slot, payload.len());
        let guard = loop {
            let lease = retention.lease().ok_or(SegmentError::Retained)?;
            let Some(guard) = retention.locks().lock(lease, piece.file, piece.offset, length) else {
                self.settle(true)?; // completes the write or truncation of a process that died or was stopped
                return Ok(Attempt::Again);
            };
            // The blocks are locked, so writes to them that are coalesced from here on are sent after this write.
            if !slot.has_unsent() {
                break guard;
            }
            drop(guard);
            self.send_before_write(piece.file, slot)?;
        };
        if wanted != Stability::Unstable && !slot.has_retained() && !self.is_append(slot) {
            let moment = slot.attr_moment();
            let done = self.client.write_payload(piece.handle, piece.offset, payload, wanted, &mut |_, _| ());
            let done = match done {
                Err(Error::TakenOver) => return self.after_loss(guard, None, length),
                Ok(_) if !guard.is_held() => return self.after_loss(guard, None, length),
                other => other?,
            };
            note_attributes(piece.file, slot, done.attr.as_ref(), moment);
            if done.committed >= wanted {
                return Ok(Attempt::Done(done.bytes));
            }
            // A server must not return less stability than requested (RFC 1813 3.3.7); some do. The data is then kept.
        }
        let Some(credentials) = self.note_writer(slot) else { return Ok(Attempt::Full(Some(piece.file))) };
        let how = if slot.has_retained() { Stability::Unstable } else { wanted };
        let attempt = self.write_locked(retention, piece, payload, (&self.client, credentials), how, guard, || ())?;
        if matches!(attempt, Attempt::Done(_)) && wanted != Stability::Unstable && how == Stability::Unstable {
            self.make_stable(piece.file, slot)?;
        }
        Ok(attempt)
    }

    /// Whether the write is part of an append. If another process takes it over, this call must find out afterwards whether
    /// the server executed it.
    fn is_append(&self, slot: &Slot) -> bool {
        self.segment.members().is_of_this_call(slot.writer.load(Relaxed))
    }

    /// Retains the piece, writes it by `client`, and calls `ended` before it releases the block locks. The caller holds them
    /// in `guard`.
    #[expect(clippy::too_many_arguments, reason = "what a write is made of")]
    pub(super) fn write_locked(
        &self,
        retention: &Retention,
        piece: &Piece<'_>,
        payload: &mut Payload<'_, '_>,
        (client, credentials): (&Client, u32),
        how: Stability,
        guard: WriteGuard<'_>,
        ended: impl FnOnce(),
    ) -> Result<Attempt, Error> {
        let (slot, length) = (piece.slot, payload.len());
        let verifiers = self.segment.verifiers();
        let (sent, moment) = (verifiers.newest(), slot.attr_moment());
        let extent = Extent { file: piece.file, offset: piece.offset, length: length as u32, order: 0, credentials };
        slot.retained_write_starts(); // before the records are published: a truncation must see it
        let mut claims = match retention.claim_piece(&self.segment, extent) {
            Ok(claims) => claims,
            Err(NoChunk(oldest)) => return Ok(Attempt::Full(oldest)),
        };
        // A child of a fork inside this call must not fill records: they belong to its parent, or to another process by then.
        let mut keep = |payload: &Payload<'_, '_>, end: usize| {
            if guard.is_of_this_process() {
                claims.publish(payload, end);
            }
        };
        let done = client.write_payload(piece.handle, piece.offset, payload, how, &mut keep);
        if !guard.is_of_this_process() {
            return Ok(Attempt::Again); // this is a child of a fork: locks and records belong to the parent
        }
        let done = match done {
            Err(Error::TakenOver) => return self.after_loss(guard, Some(claims), length),
            Ok(_) if !self.segment.members().may_send() => return self.after_loss(guard, Some(claims), length),
            other => other.inspect_err(|_| claims.drop_all())?,
        };
        note_attributes(piece.file, slot, done.attr.as_ref(), moment);
        if how != Stability::Unstable && done.committed >= how {
            claims.drop_all();
            ended();
            return Ok(Attempt::Done(done.bytes));
        }
        let epoch = verifiers.epoch_of(done.verifier, &sent).map_err(full).inspect_err(|_| claims.drop_all())?;
        let resent = verifiers.resent_by(epoch);
        if done.verifier_changed || epoch.number() < resent {
            // The server restarted meanwhile and may have lost the data. The caller still has the
            // bytes and writes again.
            claims.drop_all();
            return Ok(Attempt::Again);
        }
        let due = claims.commit_due;
        claims.answered(done.bytes, slot.retained_write_answered(epoch.endpoint()));
        ended();
        drop(guard);
        // The write is done even if these calls fail. The next read or sync completes them.
        if epoch.number() > resent {
            let _ = self.settle(false);
        }
        if let Some(due) = due
            && !retention.ask_for_commit(due)
        {
            let _ = self.make_space(Some(due));
        }
        Ok(Attempt::Done(done.bytes))
    }

    /// Called after another process took over the block locks of a write, or another lock of this call. By now the server has
    /// what was sent, or will never get it. The write begins again unless the server has the data.
    fn after_loss(&self, guard: WriteGuard<'_>, claims: Option<Claims<'_>>, length: usize) -> Result<Attempt, Error> {
        drop(guard);
        let done = match claims {
            Some(claims) => {
                let call = begin_call(); // a new call, which holds no revoked lease
                self.settle(true)?;
                drop(call);
                claims.pass()
            }
            None => 0,
        };
        if done == length {
            return Ok(Attempt::Done(done));
        }
        match (self.segment.members().may_send(), done) {
            (true, _) => Ok(Attempt::Again),
            (false, 0) => Err(Error::TakenOver),
            // This was an append, and other processes have appended after it.
            (false, _) => Ok(Attempt::Done(done)),
        }
    }

    /// Frees chunks: commits `file`, or without a file completes what killed writers left.
    pub(super) fn make_space(&self, file: Option<FileRef>) -> Result<(), Error> {
        let Some(file) = file else { return self.settle(true) };
        // The file may not be open here: the pin keeps its slot from being reused.
        let Some(_pinned) = self.segment.pin(file)? else { return Ok(()) };
        let Some(slot) = self.segment.slot(file) else { return Ok(()) };
        let _ = self.commit_writes(file, slot); // the file's next fsync reports the error
        Ok(())
    }
}
