//! One connection, driven by whoever waits on it: a batch of calls goes out, their replies come in, in any order.
//!
//! A single call costs one send and one receive. When the connection breaks it is closed first, then made again, and
//! every call not yet answered is sent again with the same xid.

use crate::error::{Error, ProtocolError};
use crate::limits::{RECEIVE_BYTES_MAX, SEND_BYTES_MAX, SLOTS_MAX, UNEXPECTED_REPLIES_MAX};
use crate::rpc::connection::Connection;
use crate::rpc::fault::Fault;
use crate::rpc::io_slices::{LONG, ReceiveList, SHORT, SendList};
use crate::rpc::response_timer::ResponseTimer;
use crate::rpc::retry::Backoff;
use crate::rpc::service::Service;
use crate::rpc::stream::Stream;
use crate::sys::socket::{self, Region};
use nfs_proto::nfs3::ReadOkHead;
use nfs_proto::record;
use nfs_proto::xdr::{Encode, Reader, Writer, padding};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Where the payload of a batch comes from and where its replies go.
pub(crate) trait Exchange {
    /// What is gathered behind the heads of calls with a payload.
    fn payload(&self) -> &[IoSlice<'_>] {
        &[]
    }

    /// Bytes of a READ's data that may be received straight into the caller's buffers; none for other calls.
    fn target_bytes(&self, _call: usize) -> Option<usize> {
        None
    }

    /// Buffers the data of READs is spread over.
    fn target_segments(&self) -> usize {
        0
    }

    /// Appends the buffers for these bytes of a READ's data; false when they did not all fit the list.
    fn push_target<'a, const N: usize>(&'a mut self, _call: usize, _part: Range<usize>, _list: &mut ReceiveList<'a, N>) -> bool {
        true
    }

    /// Copies the first bytes of a READ's target.
    fn copy_target(&self, _call: usize, _to: &mut [u8]) {}

    /// The data of a READ stands in its target.
    fn received(&mut self, _call: usize, _head: &ReadOkHead) {}

    /// The results of a call, from its status on.
    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault>;
}

/// One call of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) xid: u32,
    head: Range<usize>,    // in the send buffer, mark included
    payload: Range<usize>, // in the payload of the exchange
    sent: bool,            // a byte of it may have reached the server
    pub(crate) answered: bool,
}

/// A connection and the memory for what goes over it.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) connection: Connection,
    next_xid: Option<u32>,
    send: Vec<u8>, // heads of the batch; has its capacity from the start
    pub(crate) calls: [Call; SLOTS_MAX],
    pub(crate) call_count: usize,
    pub(crate) memory: Option<Region>, // received bytes
    pub(crate) pending: Range<usize>,  // of it: received, not yet looked at
    pub(crate) stray_count: u32,
}

impl Channel {
    /// A channel that is not connected yet.
    pub(crate) fn new() -> Self {
        Self {
            connection: Connection::new(),
            next_xid: None,
            send: Vec::with_capacity(SEND_BYTES_MAX),
            calls: Default::default(),
            call_count: 0,
            memory: None,
            pending: 0..0,
            stray_count: 0,
        }
    }

    /// Begins a batch.
    pub(crate) fn begin(&mut self) {
        self.send.clear();
        self.call_count = 0;
    }

    /// Adds a call whose payload is `payload` of the exchange's bytes; they are counted in the record, padding too.
    ///
    /// # Panics
    /// When the batch is full: our own bug.
    pub(crate) fn add(&mut self, service: &Service, procedure: u32, arguments: &impl Encode, payload: Range<usize>) {
        self.reset_after_fork();
        let xid = self.take_xid();
        let start = self.send.len();
        service.append_header(xid, procedure, &mut self.send);
        arguments.encode(&mut Writer::new(&mut self.send));
        let end = self.send.len();
        let body_bytes = end - start - record::MARK_BYTES + payload.len() + padding(payload.len());
        record::seal(&mut self.send, start, body_bytes);
        self.calls[self.call_count] = Call { xid, head: start..end, payload, sent: false, answered: false };
        self.call_count += 1;
    }

    /// Sends the batch and waits until every call is answered. True when a call had to be sent again.
    ///
    /// # Errors
    /// When retry_policy is at its end, or the RPC layer of the server refused a call.
    pub(crate) fn run<E: Exchange>(&mut self, service: &Service, exchange: &mut E) -> Result<bool, Error> {
        let Err(mut fault) = self.attempt(service, exchange) else {
            service.report_responding();
            return Ok(false);
        };
        let mut backoff = Backoff::new();
        let mut resent = false;
        loop {
            self.disconnect();
            backoff.wait(fault, service)?;
            let resends = self.forget_sent();
            resent |= resends > 0;
            service.resends.fetch_add(resends, Ordering::Relaxed);
            match self.attempt(service, exchange) {
                Ok(()) => {
                    service.report_responding();
                    return Ok(resent);
                }
                Err(next) => fault = next,
            }
        }
    }

    /// Closes the connection: no reply can come any more.
    pub(crate) fn disconnect(&mut self) {
        self.pending = 0..0;
        self.connection.disconnect();
    }

    /// After a fork: never touches the parent's connection again, never repeats its xids.
    pub(crate) fn reset_after_fork(&mut self) {
        if self.connection.reset_after_fork() {
            self.pending = 0..0;
            self.next_xid = None;
        }
    }

    /// The one call that is not answered yet, if it is the only one.
    pub(crate) fn alone(&self) -> Option<usize> {
        let mut open = (0..self.call_count).filter(|&index| self.calls.get(index).is_some_and(|call| !call.answered));
        let first = open.next();
        if open.next().is_some() { None } else { first }
    }

    /// The unanswered call with this xid.
    pub(crate) fn find(&self, xid: u32) -> Option<usize> {
        self.calls.iter().take(self.call_count).position(|call| call.xid == xid && !call.answered)
    }

    pub(crate) fn answered(&mut self, call: usize) {
        if let Some(call) = self.calls.get_mut(call) {
            call.answered = true;
        }
    }

    /// A reply to no call of ours: skipped, but not for ever.
    pub(crate) fn stray(&mut self) -> Result<(), Fault> {
        self.stray_count += 1;
        if self.stray_count > UNEXPECTED_REPLIES_MAX { Err(ProtocolError::UnexpectedReply.into()) } else { Ok(()) }
    }

    fn take_xid(&mut self) -> u32 {
        let xid = self.next_xid.unwrap_or_else(|| socket::random_u64() as u32);
        self.next_xid = Some(xid.wrapping_add(1));
        xid
    }

    /// Marks unanswered calls as to be sent; how many had been sent before.
    fn forget_sent(&mut self) -> u64 {
        let mut resends = 0;
        for call in self.calls.iter_mut().take(self.call_count).filter(|call| !call.answered) {
            resends += u64::from(call.sent);
            call.sent = false;
        }
        resends
    }

    fn attempt<E: Exchange>(&mut self, service: &Service, exchange: &mut E) -> Result<(), Fault> {
        self.connect(service)?;
        let mut timer = ResponseTimer::default();
        self.transmit(service, exchange.payload(), &mut timer)?;
        self.stray_count = 0;
        while self.calls.iter().take(self.call_count).any(|call| !call.answered) {
            self.receive_reply(service, exchange, &mut timer)?;
        }
        if !self.pending.is_empty() {
            return Err(ProtocolError::UnexpectedReply.into());
        }
        Ok(())
    }

    fn connect(&mut self, service: &Service) -> Result<(), Fault> {
        self.reset_after_fork();
        if self.memory.is_none() {
            let local = |source| Fault::Fatal(Error::Local { action: "map a receive buffer", source });
            self.memory = Some(Region::map(RECEIVE_BYTES_MAX).map_err(local)?);
        }
        self.connection.connect(service).map(|_| ())
    }

    fn transmit(&mut self, service: &Service, payload: &[IoSlice<'_>], timer: &mut ResponseTimer) -> Result<(), Fault> {
        let mut index = 0;
        while let Some(call) = self.calls.get(index).filter(|_| index < self.call_count) {
            if call.sent || call.answered {
                index += 1;
                continue;
            }
            // Heads of calls without payload lie side by side: one send takes a run of them.
            let mut heads = call.head.clone();
            let payload_range = call.payload.clone();
            let mut next = index + 1;
            while payload_range.is_empty()
                && let Some(follower) = self.calls.get(next).filter(|_| next < self.call_count)
                && follower.payload.is_empty()
                && !(follower.sent || follower.answered)
            {
                heads.end = follower.head.end;
                next += 1;
            }
            for call in self.calls.iter_mut().take(next).skip(index) {
                call.sent = true;
            }
            self.send_all(service, heads, payload, payload_range, timer)?;
            index = next;
        }
        Ok(())
    }

    fn send_all(
        &mut self,
        service: &Service,
        heads: Range<usize>,
        payload: &[IoSlice<'_>],
        range: Range<usize>,
        timer: &mut ResponseTimer,
    ) -> Result<(), Fault> {
        let Self { connection, send, .. } = self;
        let heads = send.get(heads).unwrap_or_default();
        let pad = &[0u8; 3][..padding(range.len())];
        let end = heads.len() + range.len() + pad.len();
        let mut position = 0;
        while position < end {
            let sent = if payload.len() + 2 <= SHORT {
                send_once::<SHORT>(&mut connection.stream()?, heads, payload, &range, pad, position)
            } else {
                send_once::<LONG>(&mut connection.stream()?, heads, payload, &range, pad, position)
            };
            position += timer.sent(sent, service)?.unwrap_or(0);
        }
        Ok(())
    }
}

/// One send of what lies behind `position` of heads, payload and padding.
fn send_once<const N: usize>(
    stream: &mut Stream<'_>,
    heads: &[u8],
    payload: &[IoSlice<'_>],
    range: &Range<usize>,
    pad: &[u8],
    position: usize,
) -> io::Result<usize> {
    let mut list = SendList::<N>::new();
    list.push(heads.get(position..).unwrap_or_default());
    let payload_from = (range.start + position.saturating_sub(heads.len())).min(range.end);
    if list.push_range(payload, payload_from..range.end) {
        list.push(pad.get(position.saturating_sub(heads.len() + range.len())..).unwrap_or_default());
    }
    stream.send(list.as_slice())
}
