//! Many single calls in flight on one connection, from one thread, as of a database with many readers. Measurements use
//! this. The engine is that of [`FileProtocol::read`] and
//! [`FileProtocol::write`]: calls that are made together leave in one send,
//! and one receive brings many replies.

use crate::client::Client;
use crate::error::{Error, ProtocolError};
use crate::file::{FileHandle, FsError, Stability};
use crate::io_codec::{ReadData, Written};
use crate::limits::{PIPELINE_DEPTH_MAX, PIPELINE_SOCKET_BYTES};
use crate::protocol::FileProtocol;
use crate::rpc::calls::Calls;
use crate::rpc::channel::Channel;
use crate::rpc::fault::Fault;
use crate::rpc::io_slices::SendList;
use crate::slot_limiter::SlotPermit;
use nfs_proto::xdr::{Reader, Writer};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// What every call of a pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// READ.
    Read,
    /// WRITE with this stability.
    Write(Stability),
}

/// An answered call.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// First byte.
    pub offset: u64,
    /// The bytes that were read, where they were received; empty for a write.
    pub data: &'a [u8],
    /// Time from the first send to the receive that brought the reply. If calls in flight are limited, time since the call
    /// was made.
    pub latency: Duration,
}

/// Calls of one kind and size on one file, `depth` of them in flight.
#[derive(Debug)]
pub struct Pipeline<'c> {
    client: &'c dyn FileProtocol,
    channel: Channel,
    file: FileHandle,
    work: Work,
    payload: Vec<u8>, // of every WRITE
    io_bytes: u32,
    slots: Vec<Slot<'c>>,
}

/// Place of one call in flight.
#[derive(Debug)]
struct Slot<'c> {
    offset: u64,
    begun: Instant,
    permit: Option<SlotPermit<'c>>,
}

impl Client {
    /// A pipeline of `depth` calls of `io_bytes` each on a connection of its own. A write repeats `payload`.
    ///
    /// # Errors
    /// If the handle is not one of this protocol version.
    ///
    /// # Panics
    /// If `payload` is shorter than `io_bytes` in a writing pipeline, or the depth is 0 or over 1024.
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
        let slot = |_| Slot { offset: 0, begun: Instant::now(), permit: None };
        Ok(Pipeline {
            client: &**self,
            channel: Channel::with_depth(depth, Some(PIPELINE_SOCKET_BYTES)),
            file: Some(*file).filter(self.io_codec().takes).ok_or(Error::Fs(FsError::BadHandle))?,
            work,
            payload,
            io_bytes,
            slots: (0..depth).map(slot).collect(),
        })
    }
}

impl Pipeline<'_> {
    /// Keeps `depth` calls in flight at the offsets that `next` returns. After `next` has returned `None`, waits for
    /// the last reply.
    ///
    /// # Errors
    /// The first refusal of the server; the connection is closed then.
    pub fn run(&mut self, next: &mut dyn FnMut() -> Option<u64>, answered: &mut dyn FnMut(&Answer<'_>)) -> Result<(), Error> {
        let depth = self.slots.len();
        let mut run = Run {
            client: self.client,
            file: self.file,
            work: self.work,
            io_bytes: self.io_bytes,
            payload: &self.payload,
            slots: &mut self.slots,
            idle: (0..depth).rev().collect(),
            waiting: VecDeque::with_capacity(depth),
            unsent: Vec::with_capacity(depth),
            received: None,
            next,
            answered,
        };
        let done = self.channel.run(&self.client.state().route, &mut run);
        self.slots.iter_mut().for_each(|slot| slot.permit = None);
        done.map(|_| ())
    }
}

/// The calls of one run; a call's number is its slot.
struct Run<'r, 'c> {
    client: &'c dyn FileProtocol,
    file: FileHandle,
    work: Work,
    io_bytes: u32,
    payload: &'r [u8], // of every WRITE; empty for READs
    slots: &'r mut [Slot<'c>],
    idle: Vec<usize>,
    waiting: VecDeque<usize>,  // made, but they may not be sent yet
    unsent: Vec<usize>,        // made since the last send
    received: Option<Instant>, // when the replies of this receive arrived
    next: &'r mut dyn FnMut() -> Option<u64>,
    answered: &'r mut dyn FnMut(&Answer<'_>),
}

impl Run<'_, '_> {
    /// Makes a call for every idle slot. Without a limit on the calls in flight, each is sent at once.
    fn make_calls(&mut self) {
        while let Some(index) = self.idle.pop() {
            let Some(offset) = (self.next)() else { continue };
            let Some(slot) = self.slots.get_mut(index) else { continue };
            slot.offset = offset;
            if self.client.state().slot_limiter.is_some() {
                slot.begun = Instant::now();
            } else {
                self.unsent.push(index);
            }
            self.waiting.push_back(index);
        }
    }
}

impl Calls for Run<'_, '_> {
    fn next_call(&mut self, in_flight: usize) -> Option<usize> {
        self.received = None;
        self.make_calls();
        let index = *self.waiting.front()?;
        if let Some(limiter) = &self.client.state().slot_limiter {
            let permit = match limiter.try_acquire(1) {
                None if in_flight > 0 => return None,
                None => limiter.acquire(1),
                Some(permit) => permit,
            };
            self.slots.get_mut(index)?.permit = Some(permit);
        }
        self.waiting.pop_front();
        match self.work {
            Work::Read => self.client.state().counts.read_calls.fetch_add(1, Relaxed),
            Work::Write(_) => self.client.state().counts.write_calls.fetch_add(1, Relaxed),
        };
        Some(index)
    }

    fn procedure(&self) -> u32 {
        match self.work {
            Work::Read => self.client.io_codec().read,
            Work::Write(_) => self.client.io_codec().write,
        }
    }

    fn encode(&self, call: usize, out: &mut Writer<'_>) {
        let offset = self.slots.get(call).map_or(0, |slot| slot.offset);
        let codec = self.client.io_codec();
        match self.work {
            Work::Read => (codec.encode_read)(&self.file, offset, self.io_bytes, out),
            Work::Write(stability) => (codec.encode_write)(&self.file, offset, self.io_bytes, stability, out),
        }
    }

    fn payload_bytes(&self, _call: usize) -> usize {
        self.payload.len()
    }

    fn payload_segments(&self) -> usize {
        usize::from(!self.payload.is_empty())
    }

    fn push_payload<'a, const N: usize>(&'a self, _call: usize, part: Range<usize>, list: &mut SendList<'a, N>) -> bool {
        list.push(self.payload.get(part).unwrap_or_default())
    }

    fn sending(&mut self) {
        if !self.unsent.is_empty() {
            let now = Instant::now();
            for index in self.unsent.drain(..) {
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.begun = now;
                }
            }
        }
    }

    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault> {
        let codec = self.client.io_codec();
        let asked = u64::from(self.io_bytes);
        let data = match self.work {
            Work::Read => {
                let ReadData { data, .. } = (codec.decode_read)(results)?.map_err(|refused| Fault::Fatal(refused.into()))?;
                let sent = data.len() as u64;
                if sent > asked {
                    return Err(ProtocolError::TooMuch { sent, asked }.into());
                }
                self.client.state().counts.read_bytes.fetch_add(sent, Relaxed);
                data
            }
            Work::Write(_) => {
                let Written { count, .. } = (codec.decode_write)(results)?.map_err(|refused| Fault::Fatal(refused.into()))?;
                if count as u64 != asked {
                    return Err(ProtocolError::TooMuch { sent: count as u64, asked }.into());
                }
                self.client.state().counts.write_bytes.fetch_add(asked, Relaxed);
                &[]
            }
        };
        let Some(slot) = self.slots.get_mut(call) else { return Err(ProtocolError::UnexpectedReply.into()) };
        slot.permit = None;
        let received = *self.received.get_or_insert_with(Instant::now);
        let latency = received.saturating_duration_since(slot.begun);
        (self.answered)(&Answer { offset: slot.offset, data, latency });
        self.idle.push(call);
        Ok(())
    }
}
