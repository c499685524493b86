//! Replies: whole records in the channel's memory, or the data of a READ straight into the caller's buffers.

use crate::error::{Error, ProtocolError};
use crate::limits::RECEIVE_BYTES_MAX;
use crate::rpc::channel::{Channel, Exchange};
use crate::rpc::fault::Fault;
use crate::rpc::io_slices::{LONG, ReceiveList, SHORT};
use crate::rpc::response_timer::ResponseTimer;
use crate::rpc::service::Service;
use crate::rpc::stream::Stream;
use nfs_proto::limits::RECORD_BYTES_MAX;
use nfs_proto::nfs3::{ReadHeadResult, ReadOkHead};
use nfs_proto::record::{self, Framed, LAST_FRAGMENT};
use nfs_proto::rpc::{ReplyHeader, ReplyStatus};
use nfs_proto::xdr::{Decode, Reader, padding};
use std::io;
use std::ops::Range;

/// The head every server sends before the data of a READ: mark, reply header with an empty verifier, status, attributes
/// that follow, count, end of file, length (RFC 5531 9, RFC 1813 3.3.6). In bytes.
pub(crate) const READ_HEAD_BYTES: usize = 4 + 24 + 4 + 4 + 84 + 12;
/// Room behind the data for its padding, and for a reply laid out in another way, in bytes.
const SPILL_BYTES: usize = 4096;

/// A READ reply whose head is as expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    pub(crate) xid: u32,
    pub(crate) head: ReadOkHead,
    rest_bytes: usize, // data and padding
}

impl Channel {
    /// Receives until one more call is answered, or a reply to no call was skipped.
    pub(crate) fn receive_reply<E: Exchange>(
        &mut self,
        service: &Service,
        exchange: &mut E,
        timer: &mut ResponseTimer,
    ) -> Result<(), Fault> {
        if self.pending.is_empty() {
            let alone = self.alone();
            let first =
                alone.or_else(|| (0..self.call_count).find(|&index| self.calls.get(index).is_some_and(|call| !call.answered)));
            if first.is_some_and(|call| exchange.target_bytes(call).is_some()) {
                let answered = match alone {
                    Some(call) => self.receive_into_target(call, service, exchange, timer)?,
                    None => self.receive_head(service, exchange, timer)?,
                };
                if answered {
                    return Ok(());
                }
            }
        }
        self.receive_record(service, exchange, timer)
    }

    /// Head, data and padding of the only open READ in one receive. False when the reply was laid out otherwise: all of
    /// it that came is then pending.
    fn receive_into_target<E: Exchange>(
        &mut self,
        call: usize,
        service: &Service,
        exchange: &mut E,
        timer: &mut ResponseTimer,
    ) -> Result<bool, Fault> {
        let mut stream = self.connection.stream()?;
        let (Some(memory), Some(target_bytes)) = (self.memory.as_mut(), exchange.target_bytes(call)) else { return Ok(false) };
        let Some((head, spill)) = memory.split_at_mut_checked(READ_HEAD_BYTES) else { return Ok(false) };
        let received = loop {
            let received = if exchange.target_segments() + 2 <= SHORT {
                receive_around::<E, SHORT>(&mut stream, head, exchange, call, target_bytes, spill)
            } else {
                receive_around::<E, LONG>(&mut stream, head, exchange, call, target_bytes, spill)
            };
            if let Some(bytes) = timer.received(received, service)? {
                break bytes;
            }
        };
        let expected = self.calls.get(call).map(|call| call.xid);
        if received >= READ_HEAD_BYTES
            && let Some(direct) = parse(head, target_bytes).filter(|direct| Some(direct.xid) == expected)
            && received <= READ_HEAD_BYTES + direct.rest_bytes
        {
            self.receive_rest(call, &direct, received - READ_HEAD_BYTES, service, exchange, timer)?;
            return Ok(true);
        }
        // Put everything in one piece: what went into the caller's buffers lies between head and spill.
        let in_target = received.saturating_sub(READ_HEAD_BYTES).min(target_bytes);
        let spilled = received.saturating_sub(READ_HEAD_BYTES + in_target);
        spill.copy_within(..spilled, in_target);
        if let Some(to) = spill.get_mut(..in_target) {
            exchange.copy_target(call, to);
        }
        self.pending = 0..received;
        Ok(false)
    }

    /// The head of one of several open READs, then its data. False as above.
    fn receive_head<E: Exchange>(
        &mut self,
        service: &Service,
        exchange: &mut E,
        timer: &mut ResponseTimer,
    ) -> Result<bool, Fault> {
        let mut stream = self.connection.stream()?;
        let Some(head) = self.memory.as_mut().and_then(|memory| memory.get_mut(..READ_HEAD_BYTES)) else { return Ok(false) };
        let received = loop {
            if let Some(bytes) = timer.received(stream.receive(head), service)? {
                break bytes;
            }
        };
        if received == READ_HEAD_BYTES
            && let Some(direct) = parse(head, usize::MAX)
            && let Some(call) = self.find(direct.xid)
            && exchange.target_bytes(call).is_some_and(|room| direct.head.data_bytes as usize <= room)
        {
            self.receive_rest(call, &direct, 0, service, exchange, timer)?;
            return Ok(true);
        }
        self.pending = 0..received;
        Ok(false)
    }

    /// Receives what is missing of a READ's data, of which `have` bytes (padding included) are there.
    fn receive_rest<E: Exchange>(
        &mut self,
        call: usize,
        direct: &Direct,
        mut have: usize,
        service: &Service,
        exchange: &mut E,
        timer: &mut ResponseTimer,
    ) -> Result<(), Fault> {
        let data = direct.head.data_bytes as usize;
        while have < direct.rest_bytes {
            let mut pad = [0; 4];
            let mut stream = self.connection.stream()?;
            let mut list = ReceiveList::<LONG>::new();
            if exchange.push_target(call, have.min(data)..data, &mut list) {
                let pad_bytes = direct.rest_bytes - have.max(data);
                list.push(pad.get_mut(..pad_bytes).unwrap_or_default());
            }
            have += timer.received(stream.receive_scattered(list.as_mut_slice()), service)?.unwrap_or(0);
        }
        exchange.received(call, &direct.head);
        self.answered(call);
        Ok(())
    }

    /// One whole record, from the pending bytes and the socket.
    fn receive_record<E: Exchange>(
        &mut self,
        service: &Service,
        exchange: &mut E,
        timer: &mut ResponseTimer,
    ) -> Result<(), Fault> {
        let (body, next) = self.whole_record(service, timer)?;
        let end = self.pending.end;
        // Taken out for the borrow only; a fault closes the connection, which forgets pending bytes anyway.
        let memory = self.memory.take();
        let outcome = memory.as_deref().and_then(|memory| memory.get(body)).map_or(Ok(None), |bytes| {
            let mut input = Reader::new(bytes);
            let header = ReplyHeader::decode(&mut input)?;
            let Some(call) = self.find(header.xid.0) else { return Ok(None) };
            check_status(header.status, service)?;
            exchange.reply(call, &mut input)?;
            Ok(Some(call))
        });
        self.memory = memory;
        self.pending = if next == end { 0..0 } else { next..end };
        match outcome {
            Ok(Some(call)) => {
                self.answered(call);
                Ok(())
            }
            Ok(None) => self.stray(),
            Err(fault) => Err(fault),
        }
    }

    /// Receives until a record is whole: where its body stands, and where the bytes behind it begin.
    fn whole_record(&mut self, service: &Service, timer: &mut ResponseTimer) -> Result<(Range<usize>, usize), Fault> {
        loop {
            let Some(memory) = self.memory.as_deref_mut() else { return Err(Fault::Forked) };
            let start = self.pending.start;
            let framed = match memory.get_mut(self.pending.clone()) {
                Some(bytes) => record::frame(bytes, RECORD_BYTES_MAX).map_err(ProtocolError::from)?,
                None => return Err(ProtocolError::UnexpectedReply.into()),
            };
            let needed = match framed {
                Framed::Record { body, consumed } => return Ok((start + body.start..start + body.end, start + consumed)),
                Framed::Incomplete { bytes_needed } => bytes_needed,
            };
            if start + needed > RECEIVE_BYTES_MAX {
                if start == 0 {
                    return Err(ProtocolError::UnexpectedReply.into());
                }
                memory.copy_within(self.pending.clone(), 0);
                self.pending = 0..self.pending.len();
            }
            let mut stream = self.connection.stream()?;
            let room = memory.get_mut(self.pending.end..).unwrap_or_default();
            if let Some(bytes) = timer.received(stream.receive(room), service)? {
                self.pending.end += bytes;
            }
        }
    }
}

/// One receive into head, target and spill.
fn receive_around<E: Exchange, const N: usize>(
    stream: &mut Stream<'_>,
    head: &mut [u8],
    exchange: &mut E,
    call: usize,
    target_bytes: usize,
    spill: &mut [u8],
) -> io::Result<usize> {
    let mut list = ReceiveList::<N>::new();
    list.push(head);
    let whole = exchange.push_target(call, 0..target_bytes, &mut list);
    // Behind a target that did not fit the list, anything would land in the wrong place.
    if whole && let Some(spill) = spill.get_mut(..SPILL_BYTES) {
        list.push(spill);
    }
    stream.receive_scattered(list.as_mut_slice())
}

fn check_status(status: ReplyStatus, service: &Service) -> Result<(), Fault> {
    match status {
        ReplyStatus::Success => Ok(()),
        status => Err(Fault::Fatal(Error::Refused { server: service.server, status })),
    }
}

/// Reads the head of a READ reply that is laid out as expected and whose data fits `room`.
pub(crate) fn parse(head: &[u8], room: usize) -> Option<Direct> {
    let mut input = Reader::new(head);
    let mark = u32::decode(&mut input).ok()?;
    let header = ReplyHeader::decode(&mut input).ok().filter(|header| header.status == ReplyStatus::Success)?;
    let head = ReadHeadResult::decode(&mut input).ok()?.ok()?;
    let data = head.data_bytes as usize;
    let rest_bytes = data + padding(data);
    let whole = mark == LAST_FRAGMENT | (READ_HEAD_BYTES - record::MARK_BYTES + rest_bytes) as u32;
    let fits = input.position() == READ_HEAD_BYTES && head.count == head.data_bytes && data <= room;
    (whole && fits).then_some(Direct { xid: header.xid.0, head, rest_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_proto::nfs3::{Data, Failure, Fattr, FileType, NfsStatus, NfsTime, ReadOk, ReadResult, SpecData};
    use nfs_proto::rpc::{Xid, encode_reply};

    fn attributes() -> Fattr {
        let time = NfsTime::default();
        let (rdev, kind) = (SpecData::default(), FileType::Regular);
        Fattr {
            kind,
            mode: 0,
            nlink: 1,
            uid: 0,
            gid: 0,
            size: 9,
            used: 9,
            rdev,
            fsid: 1,
            fileid: 2,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn reply(attributes: Option<Fattr>, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let header = ReplyHeader { xid: Xid(7), status: ReplyStatus::Success };
        let results: ReadResult<'_> = Ok(ReadOk { attributes, count: data.len() as u32, eof: true, data: Data(data) });
        encode_reply(&header, &results, &mut out);
        out
    }

    #[test]
    fn the_usual_head_is_recognised_with_the_bytes_that_follow() {
        let bytes = reply(Some(attributes()), b"hello");
        let direct = parse(&bytes[..READ_HEAD_BYTES], 5).unwrap();
        assert_eq!((direct.xid, direct.head.data_bytes, direct.rest_bytes), (7, 5, 8));
        assert_eq!(bytes.len(), READ_HEAD_BYTES + direct.rest_bytes);
    }

    #[test]
    fn other_layouts_and_too_much_data_are_left_to_the_general_way() {
        let without = reply(None, &[1; 100]);
        assert!(parse(&without[..READ_HEAD_BYTES], 100).is_none());
        assert!(parse(&reply(Some(attributes()), b"hello")[..READ_HEAD_BYTES], 4).is_none());
        let mut out = Vec::new();
        let refused: ReadResult<'_> = Err(Failure { status: NfsStatus::Stale, body: Some(attributes()) });
        encode_reply(&ReplyHeader { xid: Xid(7), status: ReplyStatus::Success }, &refused, &mut out);
        out.resize(READ_HEAD_BYTES, 0);
        assert!(parse(&out, 100).is_none());
    }
}
