//! Many single calls in flight on one connection, from one thread: what a database with many readers asks of it, and the
//! way to measure it. Requests made in one turn leave in one send; one receive brings many replies.

use crate::client::Client;
use crate::error::{Error, ProtocolError};
use crate::file::{FileHandle, Stability};
use crate::limits::{PIPELINE_BYTES_MIN, PIPELINE_DEPTH_MAX, UNEXPECTED_REPLIES_MAX};
use crate::nfs3_types::{handle, refusal, stable_how};
use crate::rpc::connection::Connection;
use crate::rpc::fault::Fault;
use crate::rpc::io_slices::{LONG, SendList};
use crate::rpc::receive::{READ_HEAD_BYTES, parse};
use crate::rpc::response_timer::ResponseTimer;
use crate::rpc::retry::Backoff;
use crate::slot_limiter::SlotPermit;
use crate::sys::socket::{self, Region};
use nfs_proto::limits::RECORD_BYTES_MAX;
use nfs_proto::nfs3::{self, Procedure, ReadArgs, ReadResult, WriteArgsHead, WriteResult};
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{ReplyHeader, ReplyStatus};
use nfs_proto::xdr::{Decode, Encode, Reader, Writer, padding};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What every call of a pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// READ.
    Read,
    /// WRITE, with this promise.
    Write(Stability),
}

/// An answered call.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// First byte.
    pub offset: u64,
    /// What was read, where it was received; empty for a write.
    pub data: &'a [u8],
    /// From the send to the receive that brought the reply; where calls outstanding are limited, from when it was made.
    pub latency: Duration,
}

/// Bits of an xid that name the slot; the others count.
const SLOT_BITS: u32 = 10;
const _: () = assert!(PIPELINE_DEPTH_MAX == 1 << SLOT_BITS);

#[derive(Debug)]
struct Slot<'c> {
    xid: u32,
    offset: u64,
    sent: Instant, // or made, where a call may have to wait before it is sent
    open: bool,
    held: Option<SlotPermit<'c>>,
}

/// Calls of one kind and size on one file, `depth` of them in flight.
#[derive(Debug)]
pub struct Pipeline<'c> {
    client: &'c Client,
    connection: Connection,
    file: nfs3::FileHandle,
    work: Work,
    payload: Vec<u8>, // of every WRITE
    io_bytes: u32,
    slots: Vec<Slot<'c>>,
    waiting: VecDeque<usize>, // slots whose call has no leave to be sent yet
    heads: Vec<u8>,           // of the calls to be sent, one behind the other
    head_bytes: usize,
    received: Region,
    pending: std::ops::Range<usize>, // of it
    stray_count: u32,
}

impl Client {
    /// A pipeline of `depth` calls of `io_bytes` each on a connection of its own. A write repeats `payload`.
    ///
    /// # Errors
    /// When there is no memory for it.
    ///
    /// # Panics
    /// When `payload` is shorter than `io_bytes` in a writing pipeline, or the depth is 0 or over 1024.
    pub fn pipeline(
        &self,
        file: &FileHandle,
        work: Work,
        io_bytes: u32,
        depth: usize,
        payload: &[u8],
    ) -> Result<Pipeline<'_>, Error> {
        assert!((1..=PIPELINE_DEPTH_MAX).contains(&depth), "depth {depth}");
        let payload = match work {
            Work::Read => Vec::new(),
            Work::Write(_) => payload[..io_bytes as usize].to_vec(),
        };
        let bytes = PIPELINE_BYTES_MIN.max(2 * RECORD_BYTES_MAX);
        let received = Region::map(bytes).map_err(|source| Error::Local { action: "map a receive buffer", source })?;
        let idle = |_| Slot { xid: 0, offset: 0, sent: Instant::now(), open: false, held: None };
        Ok(Pipeline {
            client: self,
            connection: Connection::new(),
            file: handle(file)?,
            work,
            payload,
            io_bytes,
            slots: (0..depth).map(idle).collect(),
            waiting: VecDeque::new(),
            heads: Vec::new(),
            head_bytes: 0,
            received,
            pending: 0..0,
            stray_count: 0,
        })
    }
}

impl Pipeline<'_> {
    /// Keeps `depth` calls in flight at the offsets `next` gives until it gives none, then waits for the last reply.
    ///
    /// # Errors
    /// The first refusal of the server; the connection is closed then.
    pub fn run(&mut self, next: &mut dyn FnMut() -> Option<u64>, answered: &mut dyn FnMut(&Answer<'_>)) -> Result<(), Error> {
        let mut backoff = Backoff::new();
        for index in 0..self.slots.len() {
            self.open(index, next);
        }
        while let Err(fault) = self.turns(next, answered) {
            self.connection.disconnect();
            self.pending = 0..0;
            backoff.wait(fault, &self.client.service)?;
            self.reopen();
        }
        self.client.service.report_responding();
        Ok(())
    }

    /// Turns until nothing is in flight: send what was made, receive what came, make the next calls.
    fn turns(&mut self, next: &mut dyn FnMut() -> Option<u64>, answered: &mut dyn FnMut(&Answer<'_>)) -> Result<(), Fault> {
        if self.connection.connect(&self.client.service)? {
            self.connection.socket()?.grow_receive_buffer(PIPELINE_BYTES_MIN as i32);
        }
        let mut timer = ResponseTimer::default();
        loop {
            self.admit();
            self.send(&mut timer)?;
            if !self.slots.iter().any(|slot| slot.open) {
                return Ok(());
            }
            self.receive_some(&mut timer)?;
            let now = Instant::now();
            self.heads.clear();
            while let Some(index) = self.take_reply(now, answered)? {
                self.open(index, next);
            }
        }
    }

    /// Makes the next call of a slot.
    fn open(&mut self, index: usize, next: &mut dyn FnMut() -> Option<u64>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Some(offset) = next() else {
            slot.open = false;
            return;
        };
        let count = if slot.xid == 0 { socket::random_u64() as u32 } else { slot.xid.wrapping_add(1 << SLOT_BITS) };
        slot.xid = count & !((1 << SLOT_BITS) - 1) | index as u32;
        slot.offset = offset;
        slot.open = true;
        let counts = &self.client.counts;
        match self.work {
            Work::Read => counts.read_calls.fetch_add(1, Ordering::Relaxed),
            Work::Write(_) => counts.write_calls.fetch_add(1, Ordering::Relaxed),
        };
        let (xid, offset) = (slot.xid, slot.offset);
        if self.client.slot_limiter.is_none() {
            self.append(xid, offset);
        } else {
            slot.sent = Instant::now();
            self.waiting.push_back(index);
        }
    }

    /// Lets calls that wait go out as far as the mount's limit allows; waits only when nothing is in flight.
    fn admit(&mut self) {
        let Some(slot_limiter) = &self.client.slot_limiter else { return };
        while let Some(&index) = self.waiting.front() {
            let held = match slot_limiter.try_acquire(1) {
                None if self.slots.iter().any(|slot| slot.held.is_some()) => return,
                None => slot_limiter.acquire(1),
                Some(held) => held,
            };
            self.waiting.pop_front();
            if let Some(slot) = self.slots.get_mut(index) {
                slot.held = Some(held);
                let (xid, offset) = (slot.xid, slot.offset);
                self.append(xid, offset);
            }
        }
    }

    /// After a lost connection: every call in flight is to be sent again.
    fn reopen(&mut self) {
        self.heads.clear();
        let sent = |slot: &&Slot<'_>| slot.open && (self.client.slot_limiter.is_none() || slot.held.is_some());
        let open: Vec<(u32, u64)> = self.slots.iter().filter(sent).map(|slot| (slot.xid, slot.offset)).collect();
        self.client.service.resends.fetch_add(open.len() as u64, Ordering::Relaxed);
        for (xid, offset) in open {
            self.append(xid, offset);
        }
    }

    fn append(&mut self, xid: u32, offset: u64) {
        let start = self.heads.len();
        let (file, count) = (self.file, self.io_bytes);
        match self.work {
            Work::Read => {
                self.client.service.append_header(xid, Procedure::Read.number(), &mut self.heads);
                ReadArgs { file, offset, count }.encode(&mut Writer::new(&mut self.heads));
            }
            Work::Write(stability) => {
                self.client.service.append_header(xid, Procedure::Write.number(), &mut self.heads);
                WriteArgsHead { file, offset, count, stable: stable_how(stability), data_bytes: count }
                    .encode(&mut Writer::new(&mut self.heads));
            }
        }
        self.head_bytes = self.heads.len() - start;
        let payload_bytes = self.payload.len() + padding(self.payload.len());
        record::seal(&mut self.heads, start, self.head_bytes - record::MARK_BYTES + payload_bytes);
    }

    /// Sends the calls made, payloads gathered between their heads.
    fn send(&mut self, timer: &mut ResponseTimer) -> Result<(), Fault> {
        if self.heads.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let mask = (1 << SLOT_BITS) - 1;
        for head in self.heads.chunks_exact(self.head_bytes) {
            let xid = head.get(4..8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes));
            if let Some(slot) = self.slots.get_mut((xid & mask) as usize).filter(|slot| slot.held.is_none()) {
                slot.sent = now;
            }
        }
        let pad = &[0u8; 3][..padding(self.payload.len())];
        let call_bytes = self.head_bytes + self.payload.len() + pad.len();
        let end = self.heads.len() / self.head_bytes * call_bytes;
        let mut position = 0;
        while position < end {
            let mut list = SendList::<LONG>::new();
            if self.payload.is_empty() {
                list.push(self.heads.get(position..).unwrap_or_default());
            } else {
                let (mut call, mut skip) = (position / call_bytes, position % call_bytes);
                while let Some(head) = self.heads.get(call * self.head_bytes..(call + 1) * self.head_bytes) {
                    let whole = [head, &self.payload, pad].into_iter().all(|part| {
                        let from = skip.min(part.len());
                        skip -= from;
                        list.push(part.get(from..).unwrap_or_default())
                    });
                    if !whole {
                        break;
                    }
                    call += 1;
                }
            }
            let sent = self.connection.stream()?.send(list.as_slice());
            position += timer.sent(sent, &self.client.service)?.unwrap_or(0);
        }
        Ok(())
    }

    /// Waits for more bytes.
    fn receive_some(&mut self, timer: &mut ResponseTimer) -> Result<(), Fault> {
        if self.pending.start > 0 {
            self.received.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        let room = self.received.get_mut(self.pending.end..).unwrap_or_default();
        loop {
            if let Some(bytes) = timer.received(self.connection.stream()?.receive(room), &self.client.service)? {
                self.pending.end += bytes;
                return Ok(());
            }
        }
    }

    /// Takes one whole reply off the received bytes: the slot it was for, or none when no reply is whole.
    fn take_reply(&mut self, now: Instant, answered: &mut dyn FnMut(&Answer<'_>)) -> Result<Option<usize>, Fault> {
        loop {
            let start = self.pending.start;
            let Some(bytes) = self.received.get_mut(self.pending.clone()) else { return Ok(None) };
            let (body, consumed) = match record::frame(bytes, RECORD_BYTES_MAX).map_err(ProtocolError::from)? {
                Framed::Record { body, consumed } => (start + body.start..start + body.end, consumed),
                Framed::Incomplete { .. } => return Ok(None),
            };
            self.pending.start += consumed;
            let Some(record) = self.received.get(body.start - record::MARK_BYTES..body.end) else { return Ok(None) };
            let (xid, data) = look(self.work, record, self.io_bytes, self.client)?;
            let index = (xid & ((1 << SLOT_BITS) - 1)) as usize;
            let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.open && slot.xid == xid) else {
                self.stray_count += 1;
                if self.stray_count > UNEXPECTED_REPLIES_MAX {
                    return Err(ProtocolError::UnexpectedReply.into());
                }
                continue;
            };
            slot.open = false;
            slot.held = None;
            let counts = &self.client.counts;
            match self.work {
                Work::Read => counts.read_bytes.fetch_add(data.len() as u64, Ordering::Relaxed),
                Work::Write(_) => counts.write_bytes.fetch_add(u64::from(self.io_bytes), Ordering::Relaxed),
            };
            answered(&Answer { offset: slot.offset, data, latency: now.saturating_duration_since(slot.sent) });
            return Ok(Some(index));
        }
    }
}

/// Reads one reply record, mark included: its xid and the data of a READ.
fn look<'a>(work: Work, record: &'a [u8], io_bytes: u32, client: &Client) -> Result<(u32, &'a [u8]), Fault> {
    let (head, rest) = record.split_at(record.len().min(READ_HEAD_BYTES));
    if work == Work::Read
        && let Some(direct) = parse(head, io_bytes as usize)
    {
        return Ok((direct.xid, rest.get(..direct.head.data_bytes as usize).unwrap_or_default()));
    }
    let mut input = Reader::new(record.get(record::MARK_BYTES..).unwrap_or_default());
    let header = ReplyHeader::decode(&mut input)?;
    if header.status != ReplyStatus::Success {
        return Err(Fault::Fatal(Error::Refused { server: client.service.server, status: header.status }));
    }
    let refused = |status| Fault::Fatal(refusal(status));
    match work {
        Work::Read => {
            let ok = ReadResult::decode(&mut input)?.map_err(|failure| refused(failure.status))?;
            Ok((header.xid.0, ok.data.0))
        }
        Work::Write(_) => {
            let ok = WriteResult::decode(&mut input)?.map_err(|failure| refused(failure.status))?;
            if ok.count != io_bytes {
                return Err(ProtocolError::TooMuch { sent: u64::from(ok.count), asked: u64::from(io_bytes) }.into());
            }
            Ok((header.xid.0, &[]))
        }
    }
}
