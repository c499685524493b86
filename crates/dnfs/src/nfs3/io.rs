//! READ and WRITE, directly into and from the caller's buffers. Large ones are cut, and their parts are in flight together.

use crate::address::EndpointIndex;
use crate::error::Error;
use crate::file::{Attributes, FileHandle, Stability, WriteVerifier};
use crate::io_codec::check_count;
use crate::limits::{PROTOCOL_ERRORS_MAX, SLOTS_MAX};
use crate::nfs3::client::{Jukebox, Nfs3, Refusals};
use crate::nfs3::read_reply::{self, READ_HEAD_BYTES};
use crate::nfs3::types::{attributes_of, handle, refusal, stability_of, stable_how, verifier_of};
use crate::payload::Payload;
use crate::protocol::{ReadDone, WriteDone};
use crate::rpc::calls::{Calls, ReadHead};
use crate::rpc::fault::Fault;
use crate::rpc::io_slices::{ReceiveList, SendList, copy_in, copy_out, total};
use crate::slot_limiter::SlotPermit;
use nfs_proto::nfs3::{self, NfsStatus, Procedure, ReadArgs, ReadResult, WriteArgsHead, WriteResult};
use nfs_proto::xdr::{Decode, Encode, Reader, Writer};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// One call of a batch and its result.
#[derive(Clone, Debug)]
struct Part<T> {
    range: Range<usize>, // of the caller's bytes
    outcome: Option<Result<T, NfsStatus>>,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    count: usize,
    committed: Stability,
    verifier: WriteVerifier,
    attributes: Option<Attributes>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    count: usize,
    eof: bool,
    attributes: Option<Attributes>,
}

impl Nfs3 {
    pub(super) fn read(&self, file: &FileHandle, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<ReadDone, Error> {
        let wanted = total(bufs);
        // A read of one call, such as a page, needs no table of calls.
        if wanted <= self.parts.rtmax as usize {
            self.read_by::<1>(file, offset, bufs, wanted)
        } else {
            self.read_by::<SLOTS_MAX>(file, offset, bufs, wanted)
        }
    }

    fn read_by<const N: usize>(
        &self,
        file: &FileHandle,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
        wanted: usize,
    ) -> Result<ReadDone, Error> {
        let file = handle(file)?;
        let mut done = ReadDone { bytes: 0, eof: false, attr: None };
        let (mut pause, mut refusals) = (Jukebox::new(), Refusals::default());
        let mut idle_rounds = 0;
        loop {
            let permit = self.admit(call_count(done.bytes..wanted, self.parts.rtmax));
            let count_max = permit.as_ref().map_or(SLOTS_MAX, SlotPermit::count);
            let batch = Batch::<Read, N>::new(done.bytes..wanted, self.parts.rtmax, count_max);
            let count = batch.count;
            let mut calls = Reads { file, offset, bufs: &mut *bufs, batch };
            self.counts.read_calls.fetch_add(count as u64, Ordering::Relaxed);
            self.pool.with(|channel| channel.run(&self.route, &mut calls))?;
            drop(permit);
            let before = done.bytes;
            let mut refused = None;
            for part in calls.batch.parts() {
                match part.outcome {
                    Some(Ok(read)) => {
                        done.bytes += read.count;
                        done.eof = read.eof;
                        done.attr = read.attributes.or(done.attr);
                        if read.count < part.range.len() {
                            break;
                        }
                    }
                    Some(Err(status)) => {
                        refused = Some(status);
                        break;
                    }
                    None => return Err(self.incomplete("results")),
                }
            }
            self.counts.read_bytes.fetch_add((done.bytes - before) as u64, Ordering::Relaxed);
            match refused {
                Some(NfsStatus::JukeBox) => pause.wait(&self.route),
                Some(status) if self.is_to_repeat(status, &mut refusals)? => {}
                Some(status) if done.bytes == 0 => return Err(refusal(status)),
                Some(_) => return Ok(done),
                None if done.eof || done.bytes == wanted => return Ok(done),
                None if done.bytes == before => self.idle(&mut idle_rounds)?,
                None => {}
            }
        }
    }

    pub(super) fn write_payload(
        &self,
        file: &FileHandle,
        offset: u64,
        payload: &mut Payload<'_, '_>,
        how: Stability,
        keep: &mut dyn FnMut(&Payload<'_, '_>, usize),
    ) -> Result<WriteDone, Error> {
        let call_bytes = payload.call_bytes(self.parts.wtmax);
        if payload.len() <= call_bytes as usize {
            self.write_by::<1>(file, offset, (payload, call_bytes), how, keep)
        } else {
            self.write_by::<SLOTS_MAX>(file, offset, (payload, call_bytes), how, keep)
        }
    }

    pub(super) fn write_gathered(&self, file: &FileHandle, offset: u64, bytes: &[u8]) -> Result<WriteDone, Error> {
        let (list, call_bytes) = ([IoSlice::new(bytes)], self.gathered_bytes);
        let (mut payload, how) = (Payload::Given(&list), Stability::Unstable);
        if bytes.len() <= call_bytes as usize {
            self.write_by::<1>(file, offset, (&mut payload, call_bytes), how, &mut |_, _| ())
        } else {
            self.write_by::<SLOTS_MAX>(file, offset, (&mut payload, call_bytes), how, &mut |_, _| ())
        }
    }

    fn write_by<const N: usize>(
        &self,
        file: &FileHandle,
        offset: u64,
        (payload, call_bytes): (&mut Payload<'_, '_>, u32),
        how: Stability,
        keep: &mut dyn FnMut(&Payload<'_, '_>, usize),
    ) -> Result<WriteDone, Error> {
        let (file, stable) = (handle(file)?, stable_how(if self.always_stable { Stability::FileSync } else { how }));
        let mut all: Option<WriteDone> = None;
        let (mut pause, mut refusals) = (Jukebox::new(), Refusals::default());
        let mut idle_rounds = 0;
        loop {
            let left = all.map_or(0, |done| done.bytes)..payload.len();
            let before = left.start;
            let permit = self.admit(call_count(left.clone(), call_bytes));
            let count_max = permit.as_ref().map_or(SLOTS_MAX, SlotPermit::count);
            let batch = Batch::<Written, N>::new(left, call_bytes, count_max);
            let endpoint = self.route.endpoints.index;
            let mut calls = Writes { file, offset, stable, payload: &mut *payload, keep: &mut *keep, batch, endpoint };
            let ran = self.pool.with(|channel| channel.run(&self.route, &mut calls));
            self.counts.write_calls.fetch_add(calls.batch.count as u64, Ordering::Relaxed);
            ran?;
            drop(permit);
            let mut refused = None;
            for part in calls.batch.parts() {
                match part.outcome {
                    Some(Ok(written)) => {
                        all = Some(add_written(all, &written));
                        if written.count < part.range.len() {
                            break;
                        }
                    }
                    Some(Err(status)) => {
                        refused = Some(status);
                        break;
                    }
                    None => return Err(self.incomplete("results")),
                }
            }
            let after = all.map_or(0, |done| done.bytes);
            self.counts.write_bytes.fetch_add((after - before) as u64, Ordering::Relaxed);
            match (refused, all) {
                (Some(NfsStatus::JukeBox), _) => pause.wait(&self.route),
                (Some(status), _) if self.is_to_repeat(status, &mut refusals)? => {}
                (Some(status), None) => return Err(refusal(status)),
                (Some(_), Some(done)) => return Ok(done),
                (None, Some(done)) if done.bytes == payload.len() => return Ok(done),
                (None, _) if after == before => self.idle(&mut idle_rounds)?,
                (None, _) => {}
            }
        }
    }

    /// Counts a READ reply that has no data and is not the end of the file. Returns an error after
    /// [`PROTOCOL_ERRORS_MAX`] of them.
    fn idle(&self, rounds: &mut u32) -> Result<(), Error> {
        *rounds += 1;
        if *rounds >= PROTOCOL_ERRORS_MAX { Err(self.incomplete("data")) } else { Ok(()) }
    }
}

fn add_written(all: Option<WriteDone>, written: &Written) -> WriteDone {
    let Written { count, committed, verifier, attributes } = *written;
    match all {
        None => WriteDone { bytes: count, committed, verifier, verifier_changed: false, attr: attributes },
        Some(done) => WriteDone {
            bytes: done.bytes + count,
            committed: committed.min(done.committed),
            verifier,
            verifier_changed: done.verifier_changed || done.verifier != verifier,
            attr: done.attr.and(attributes),
        },
    }
}

/// Number of calls for a range; an empty range takes one.
fn call_count(range: Range<usize>, bytes_max: u32) -> usize {
    range.len().div_ceil(bytes_max as usize).max(1)
}

/// The calls into which a part of one read or write is cut.
struct Batch<T, const N: usize> {
    parts: [Part<T>; N],
    count: usize,
    made: usize,
}

impl<T, const N: usize> Batch<T, N> {
    /// Cuts a range into at most `count_max` calls of at most `bytes_max`. An empty range is one call.
    fn new(range: Range<usize>, bytes_max: u32, count_max: usize) -> Self {
        let mut parts = std::array::from_fn(|_| Part { range: 0..0, outcome: None });
        let mut start = range.start;
        let mut count = 0;
        for part in parts.iter_mut().take(count_max.clamp(1, SLOTS_MAX)) {
            let end = range.end.min(start + bytes_max as usize);
            part.range = start..end;
            count += 1;
            start = end;
            if start == range.end {
                break;
            }
        }
        Self { parts, count, made: 0 }
    }

    fn parts(&self) -> impl Iterator<Item = &Part<T>> {
        self.parts.iter().take(self.count)
    }

    /// The next call that was not made yet.
    fn next_call(&mut self) -> Option<usize> {
        let call = self.made;
        self.made += usize::from(call < self.count);
        (call < self.count).then_some(call)
    }

    /// Notes that the data ends after `bytes` bytes of this call.
    fn end_in(&mut self, call: usize, bytes: usize) {
        if let Some(part) = self.parts.get_mut(call) {
            part.range.end = part.range.start + bytes;
        }
        self.count = call + usize::from(bytes > 0);
        self.made = self.count;
    }

    fn range(&self, call: usize) -> Range<usize> {
        self.parts.get(call).map_or(0..0, |part| part.range.clone())
    }

    fn set(&mut self, call: usize, outcome: Result<T, NfsStatus>) {
        if let Some(part) = self.parts.get_mut(call) {
            part.outcome = Some(outcome);
        }
    }
}

/// READs in flight.
struct Reads<'b, 'c, const N: usize> {
    file: nfs3::FileHandle,
    offset: u64,
    bufs: &'b mut [IoSliceMut<'c>],
    batch: Batch<Read, N>,
}

impl<const N: usize> Calls for Reads<'_, '_, N> {
    fn read_head_bytes(&self) -> usize {
        READ_HEAD_BYTES
    }

    fn next_call(&mut self, _in_flight: usize) -> Option<usize> {
        self.batch.next_call()
    }

    fn procedure(&self) -> u32 {
        Procedure::Read.number()
    }

    fn encode(&self, call: usize, out: &mut Writer<'_>) {
        let range = self.batch.range(call);
        let offset = self.offset.saturating_add(range.start as u64);
        ReadArgs { file: self.file, offset, count: range.len() as u32 }.encode(out);
    }

    fn target_bytes(&self, call: usize) -> usize {
        self.batch.range(call).len()
    }

    fn target_segments(&self) -> usize {
        self.bufs.len()
    }

    fn push_target<'a, const L: usize>(&'a mut self, call: usize, part: Range<usize>, list: &mut ReceiveList<'a, L>) -> bool {
        let start = self.batch.range(call).start;
        list.push_range(self.bufs, start + part.start..start + part.end)
    }

    fn copy_target(&self, call: usize, to: &mut [u8]) {
        copy_out(self.bufs, self.batch.range(call).start, to);
    }

    fn read_head(&self, bytes: &[u8], data_bytes_max: usize) -> Option<ReadHead> {
        read_reply::parse(bytes, data_bytes_max)
    }

    fn received(&mut self, call: usize, head: &ReadHead) {
        self.batch.set(call, Ok(Read { count: head.data_bytes, eof: head.eof, attributes: head.attributes }));
    }

    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault> {
        let range = self.batch.range(call);
        let outcome = match ReadResult::decode(results)? {
            Ok(ok) => {
                let count = ok.data.0.len();
                check_count(count, range.len())?;
                copy_in(self.bufs, range.start, ok.data.0);
                Ok(Read { count, eof: ok.eof, attributes: ok.attributes.as_ref().map(attributes_of) })
            }
            Err(failure) => Err(failure.status),
        };
        self.batch.set(call, outcome);
        Ok(())
    }
}

/// WRITEs in flight.
struct Writes<'b, 'c, 'd, const N: usize> {
    file: nfs3::FileHandle,
    offset: u64,
    stable: nfs3::StableHow,
    payload: &'b mut Payload<'c, 'd>,
    keep: &'b mut dyn FnMut(&Payload<'_, '_>, usize),
    batch: Batch<Written, N>,
    endpoint: EndpointIndex,
}

impl<const N: usize> Calls for Writes<'_, '_, '_, N> {
    // Large ones: the server starts with the first while the client prepares the next.
    const ONE_BY_ONE: bool = N > 1;

    fn next_call(&mut self, _in_flight: usize) -> Option<usize> {
        let call = self.batch.next_call()?;
        let range = self.batch.range(call);
        let there = self.payload.prepare(&range);
        if there < range.len() {
            self.batch.end_in(call, there);
            if there == 0 {
                return None;
            }
        }
        (self.keep)(self.payload, range.start + there);
        Some(call)
    }

    fn procedure(&self) -> u32 {
        Procedure::Write.number()
    }

    fn encode(&self, call: usize, out: &mut Writer<'_>) {
        let range = self.batch.range(call);
        let offset = self.offset.saturating_add(range.start as u64);
        let count = range.len() as u32;
        WriteArgsHead { file: self.file, offset, count, stable: self.stable, data_bytes: count }.encode(out);
    }

    fn payload_bytes(&self, call: usize) -> usize {
        self.batch.range(call).len()
    }

    fn payload_segments(&self) -> usize {
        self.payload.segments()
    }

    fn push_payload<'a, const L: usize>(&'a self, call: usize, part: Range<usize>, list: &mut SendList<'a, L>) -> bool {
        let start = self.batch.range(call).start;
        self.payload.push(start + part.start..start + part.end, list)
    }

    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault> {
        let outcome = match WriteResult::decode(results)? {
            Ok(ok) => {
                let count = ok.count as usize;
                check_count(count, self.batch.range(call).len())?;
                let attributes = ok.wcc.after.as_ref().map(attributes_of);
                Ok(Written {
                    count,
                    committed: stability_of(ok.committed),
                    verifier: verifier_of(ok.verifier, self.endpoint),
                    attributes,
                })
            }
            Err(failure) => Err(failure.status),
        };
        self.batch.set(call, outcome);
        Ok(())
    }
}
