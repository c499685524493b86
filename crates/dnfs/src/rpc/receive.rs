//! Receives replies: the data of a READ directly into the caller's buffers, or whole records into the channel's memory, as many
//! as one receive brings.

use super::call_table::CallTable;
use super::calls::{Calls, ReadHead};
use super::connection::Connection;
use super::fault::Fault;
use super::io_slices::{LONG, ReceiveList, SHORT};
use super::receive_buffer::ReceiveBuffer;
use super::response_timer::ResponseTimer;
use super::route::Route;
use super::stream::Stream;
use super::unanswered;
use crate::error::Error;
use nfs_proto::rpc::{ReplyHeader, ReplyStatus};
use nfs_proto::xdr::{Decode, Reader};
use std::io;
use std::ops::Range;

/// Bytes received after the data of a READ: its padding, or other contents if the reply has another layout.
const SPILL_BYTES: usize = 4096;

/// One receive of a run.
pub(super) struct Receiver<'r, C> {
    pub(super) connection: &'r mut Connection,
    pub(super) table: &'r mut CallTable,
    pub(super) buffer: &'r mut ReceiveBuffer,
    pub(super) calls: &'r mut C,
    pub(super) route: &'r Route,
    pub(super) timer: &'r mut ResponseTimer,
}

impl<C: Calls> Receiver<'_, C> {
    /// Receives until a call is answered or an unexpected reply was skipped.
    pub(super) fn receive_replies(&mut self) -> Result<(), Fault> {
        if self.calls.read_head_bytes() > 0 && self.buffer.is_empty() {
            let answered = match self.table.only() {
                Some((xid, call)) => self.receive_into_target(xid, call)?,
                None => self.receive_head()?,
            };
            if answered {
                return Ok(());
            }
        }
        self.receive_records()
    }

    /// Receives head, data and padding of the only READ in flight at once. False if the reply has another layout: all received
    /// bytes are then pending.
    fn receive_into_target(&mut self, xid: u32, call: usize) -> Result<bool, Fault> {
        let (target_bytes, head_bytes) = (self.calls.target_bytes(call), self.calls.read_head_bytes());
        let Some((head, spill)) = self.buffer.memory().split_at_mut_checked(head_bytes) else { return Ok(false) };
        let received = loop {
            // The stream is checked each time, because this may be the child of a signal handler's
            // fork.
            let mut stream = self.connection.stream()?;
            let received = if self.calls.target_segments() + 2 <= SHORT {
                receive_around::<C, SHORT>(&mut stream, head, self.calls, call, target_bytes, spill)
            } else {
                receive_around::<C, LONG>(&mut stream, head, self.calls, call, target_bytes, spill)
            };
            let moved = self.timer.received(received, self.route);
            if let Some(bytes) = unanswered::checked(moved, self.table, self.calls, self.route)? {
                break bytes;
            }
        };
        if received >= head_bytes
            && let Some(reply) = self.calls.read_head(head, target_bytes).filter(|reply| reply.xid == xid)
            && received <= head_bytes + reply.rest_bytes
        {
            self.receive_rest(call, &reply, received - head_bytes)?;
            return Ok(true);
        }
        // Joins the pieces: the bytes in the caller's buffers belong between head and spill.
        let in_target = received.saturating_sub(head_bytes).min(target_bytes);
        let spilled = received.saturating_sub(head_bytes + in_target);
        spill.copy_within(..spilled, in_target);
        if let Some(to) = spill.get_mut(..in_target) {
            self.calls.copy_target(call, to);
        }
        self.buffer.set_pending(received);
        Ok(false)
    }

    /// Receives the head of one of several READs in flight, then its data. False as in [`Self::receive_into_target`].
    fn receive_head(&mut self) -> Result<bool, Fault> {
        let head_bytes = self.calls.read_head_bytes();
        let Some(head) = self.buffer.memory().get_mut(..head_bytes) else { return Ok(false) };
        let received = loop {
            let received = self.connection.stream()?.receive(head);
            let moved = self.timer.received(received, self.route);
            if let Some(bytes) = unanswered::checked(moved, self.table, self.calls, self.route)? {
                break bytes;
            }
        };
        if received == head_bytes
            && let Some(reply) = self.calls.read_head(head, usize::MAX)
            && let Some(call) = self.table.find(reply.xid)
            && reply.data_bytes <= self.calls.target_bytes(call)
        {
            self.receive_rest(call, &reply, 0)?;
            return Ok(true);
        }
        self.buffer.set_pending(received);
        Ok(false)
    }

    /// Receives what is missing of a READ's data, of which `have` bytes (padding included) are there.
    fn receive_rest(&mut self, call: usize, reply: &ReadHead, mut have: usize) -> Result<(), Fault> {
        let data = reply.data_bytes;
        while have < reply.rest_bytes {
            let mut pad = [0; 4];
            let mut stream = self.connection.stream()?;
            let mut list = ReceiveList::<LONG>::new();
            if self.calls.push_target(call, have.min(data)..data, &mut list) {
                let pad_bytes = reply.rest_bytes - have.max(data);
                list.push(pad.get_mut(..pad_bytes).unwrap_or_default());
            }
            let received = stream.receive_scattered(list.as_mut_slice());
            have += self.moved(received)?.unwrap_or(0);
        }
        self.calls.received(call, reply);
        self.table.remove(reply.xid);
        Ok(())
    }

    /// Receives until at least one record is complete, and takes all complete records.
    fn receive_records(&mut self) -> Result<(), Fault> {
        while !self.take_records()? {
            let received = self.connection.stream()?.receive(self.buffer.free());
            let bytes = self.moved(received)?.unwrap_or(0);
            self.buffer.received(bytes);
        }
        Ok(())
    }

    /// The result of one receive. If nothing arrived within the socket's timeout, checks the calls
    /// in flight.
    #[inline]
    fn moved(&mut self, received: io::Result<usize>) -> Result<Option<usize>, Fault> {
        let moved = self.timer.received(received, self.route);
        unanswered::checked(moved, self.table, self.calls, self.route)
    }

    /// Receives once without waiting and takes all complete records. False if there was nothing to receive.
    pub(super) fn receive_there(&mut self) -> Result<bool, Fault> {
        let received = self.connection.stream()?.receive(self.buffer.free());
        if received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return Ok(false);
        }
        let bytes = self.timer.received(received, self.route)?.unwrap_or(0);
        self.buffer.received(bytes);
        self.take_records()?;
        Ok(true)
    }

    /// Takes all complete records. Returns whether there was one.
    fn take_records(&mut self) -> Result<bool, Fault> {
        let mut taken = false;
        while let Some(body) = self.buffer.next_record()? {
            self.take_record(body)?;
            taken = true;
        }
        Ok(taken)
    }

    fn take_record(&mut self, body: Range<usize>) -> Result<(), Fault> {
        let mut input = Reader::new(self.buffer.bytes(body));
        let header = ReplyHeader::decode(&mut input)?;
        let Some(call) = self.table.find(header.xid.0) else { return Ok(self.table.skip_unexpected()?) };
        if header.status != ReplyStatus::Success {
            return Err(Fault::Fatal(Error::Refused { server: self.route.server(), status: header.status }));
        }
        self.calls.reply(call, &mut input)?;
        self.table.remove(header.xid.0);
        Ok(())
    }
}

/// One receive into head, target and spill.
fn receive_around<C: Calls, const N: usize>(
    stream: &mut Stream<'_>,
    head: &mut [u8],
    calls: &mut C,
    call: usize,
    target_bytes: usize,
    spill: &mut [u8],
) -> io::Result<usize> {
    let mut list = ReceiveList::<N>::new();
    list.push(head);
    let whole = calls.push_target(call, 0..target_bytes, &mut list);
    // If the target did not fit into the list, the spill would receive its bytes.
    if whole && let Some(spill) = spill.get_mut(..SPILL_BYTES) {
        list.push(spill);
    }
    stream.receive_scattered(list.as_mut_slice())
}
