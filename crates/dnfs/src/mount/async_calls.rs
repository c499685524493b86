//! The calls of [`super::async_io`]: READs or WRITEs of many files on one connection.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use nfs_proto::xdr::{Reader, Writer};

use crate::error::ProtocolError;
use crate::file::{Attributes, FileHandle, Stability};
use crate::io_codec::{IoCodec, ReadData, Refused, Written, check_count};
use crate::mount::io_request::{IoRequest, IoWork};
use crate::retention::WriteGuard;
use crate::rpc::calls;
use crate::rpc::fault::Fault;
use crate::rpc::io_slices::{LONG, SendList, copy_in};
use crate::segment::layout::Slot;
use crate::segment::{AttrMoment, SizeMoment};
use crate::slot_limiter::SlotPermit;

/// A request in flight.
pub(crate) struct Entry<'m> {
    pub(crate) request: IoRequest<'m>,
    pub(crate) slot: &'m Slot,
    pub(crate) file: FileHandle,
    pub(crate) bytes: usize,
    pub(crate) begun: Instant,
    pub(crate) moment: AttrMoment,
    pub(crate) permit: Option<SlotPermit<'m>>,
    pub(crate) held: Held<'m>,
    pub(crate) found: Option<Result<Found, Refused>>,
}

/// The locks of a request, and the state when it was sent.
pub(crate) enum Held<'m> {
    Read { resends: u32 },
    Write { _guard: Option<WriteGuard<'m>>, size_moment: SizeMoment, stable: Stability, wanted: Stability },
}

/// The result in a reply.
pub(crate) enum Found {
    Read { count: usize, eof: bool },
    Write { count: usize, committed: Stability, attributes: Option<Attributes> },
}

/// The calls of one connection, all of one procedure. A call's number is its place.
pub(crate) struct Calls<'m> {
    codec: &'static IoCodec,
    procedure: u32,
    entries: Vec<Option<Entry<'m>>>,
    free: Vec<usize>,
    unsent: VecDeque<usize>,
    answered: VecDeque<usize>,
}

impl core::fmt::Debug for Calls<'_> {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "procedure {}: {} in flight", self.procedure, self.in_flight())
    }
}

impl<'m> Calls<'m> {
    /// READs, at most `depth` in flight.
    pub(crate) fn reads(codec: &'static IoCodec, depth: usize) -> Self {
        Self::new(codec, codec.read, depth)
    }

    /// WRITEs, at most `depth` in flight.
    pub(crate) fn writes(codec: &'static IoCodec, depth: usize) -> Self {
        Self::new(codec, codec.write, depth)
    }

    fn new(codec: &'static IoCodec, procedure: u32, depth: usize) -> Self {
        let entries = (0..depth).map(|_| None).collect();
        Self { codec, procedure, entries, free: (0..depth).rev().collect(), unsent: VecDeque::new(), answered: VecDeque::new() }
    }

    pub(crate) const fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Adds a request.
    ///
    /// # Panics
    /// If all places are in use, which is a bug of this library.
    pub(crate) fn insert(&mut self, entry: Entry<'m>) {
        let place = self.free.pop().expect("a free place, asked for before");
        self.entries[place] = Some(entry);
        self.unsent.push_back(place);
    }

    pub(crate) fn next_answered(&mut self) -> Option<Entry<'m>> {
        let place = self.answered.pop_front()?;
        self.free.push(place);
        self.entries[place].take()
    }

    /// Removes all requests, finished or not.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Entry<'m>> {
        self.unsent.clear();
        self.answered.clear();
        self.free = (0..self.entries.len()).rev().collect();
        self.entries.iter_mut().filter_map(Option::take)
    }

    fn entry(&self, call: usize) -> Option<&Entry<'m>> {
        self.entries.get(call)?.as_ref()
    }
}

impl calls::Calls for Calls<'_> {
    fn next_call(&mut self, _in_flight: usize) -> Option<usize> {
        self.unsent.pop_front()
    }

    fn procedure(&self) -> u32 {
        self.procedure
    }

    fn encode(&self, call: usize, out: &mut Writer<'_>) {
        let Some(Entry { request, file, bytes, held, .. }) = self.entry(call) else { return };
        let (offset, count) = (request.offset, *bytes as u32);
        match held {
            Held::Read { .. } => (self.codec.encode_read)(file, offset, count, out),
            Held::Write { stable, .. } => (self.codec.encode_write)(file, offset, count, *stable, out),
        }
    }

    fn payload_bytes(&self, call: usize) -> usize {
        match self.entry(call) {
            Some(Entry { held: Held::Write { .. }, bytes, .. }) => *bytes,
            _ => 0,
        }
    }

    fn payload_segments(&self) -> usize {
        if self.procedure == self.codec.write { LONG } else { 0 }
    }

    fn push_payload<'a, const N: usize>(&'a self, call: usize, part: Range<usize>, list: &mut SendList<'a, N>) -> bool {
        match self.entry(call).map(|entry| &entry.request.work) {
            Some(IoWork::Write(bufs, _)) => list.push_range(bufs, part),
            _ => true,
        }
    }

    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault> {
        let Some(entry) = self.entries.get_mut(call).and_then(Option::as_mut) else {
            return Err(ProtocolError::UnexpectedReply.into());
        };
        let found = match &mut entry.request.work {
            IoWork::Read(bufs) => match (self.codec.decode_read)(results)? {
                Ok(ReadData { data, eof }) => {
                    check_count(data.len(), entry.bytes)?;
                    copy_in(bufs, 0, data);
                    Ok(Found::Read { count: data.len(), eof })
                }
                Err(refused) => Err(refused),
            },
            IoWork::Write(..) => match (self.codec.decode_write)(results)? {
                Ok(Written { count, committed, attributes }) => {
                    check_count(count, entry.bytes)?;
                    Ok(Found::Write { count, committed, attributes })
                }
                Err(refused) => Err(refused),
            },
        };
        entry.found = Some(found);
        self.answered.push_back(call);
        Ok(())
    }
}
