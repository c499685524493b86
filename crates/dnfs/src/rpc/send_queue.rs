//! Calls that are encoded and not sent yet. One send carries several of them, each payload after its header.

use super::call_table::CallTable;
use super::calls::Calls;
use super::connection::Connection;
use super::fault::Fault;
use super::io_slices::{LONG, SHORT, SendList};
use super::response_timer::ResponseTimer;
use super::route::Route;
use super::unanswered;
use crate::limits::{IO_HEAD_BYTES_MAX, SEND_BYTES_MAX};
use crate::sys::region::Region;
use nfs_proto::record;
use nfs_proto::xdr::{Writer, padding};
use std::io;
use std::ops::Range;

/// Encoded calls in the order of sending. A process has 64 channels and usually uses few, so large buffers are mapped on first
/// use, without the allocator.
#[derive(Debug)]
pub(super) struct SendQueue {
    encoded: Vec<u8>,        // one call's header before it is queued; room for that of any READ, WRITE and COMMIT
    headers: Option<Region>, // record mark, call header and arguments of each call, in sequence
    headers_end: usize,
    header_bytes_max: usize,
    calls: Vec<QueuedCall>, // has its capacity from the start
}

#[derive(Debug)]
struct QueuedCall {
    xid: u32,
    call: usize,          // its number in the run, which has the payload
    header: Range<usize>, // in `headers`
    payload_bytes: usize,
}

impl QueuedCall {
    fn bytes(&self) -> usize {
        self.header.len() + self.payload_bytes + padding(self.payload_bytes)
    }
}

impl SendQueue {
    /// A queue of `depth` calls.
    pub(super) fn new(depth: usize) -> Self {
        Self {
            encoded: Vec::with_capacity(IO_HEAD_BYTES_MAX),
            headers: None,
            headers_end: 0,
            header_bytes_max: SEND_BYTES_MAX.max(depth * IO_HEAD_BYTES_MAX),
            calls: Vec::with_capacity(depth),
        }
    }

    /// Maps its memory.
    ///
    /// # Errors
    /// The kernel's error, usually `ENOMEM`.
    pub(super) fn map(&mut self) -> io::Result<()> {
        if self.headers.is_none() {
            self.headers = Some(Region::map(self.header_bytes_max)?);
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.headers_end = 0;
        self.calls.clear();
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Encodes a call.
    ///
    /// # Panics
    /// If its memory is not mapped, or the headers of all calls in flight need more than that: a bug of this library.
    pub(super) fn push<C: Calls>(&mut self, route: &Route, xid: u32, call: usize, calls: &C) {
        let payload_bytes = calls.payload_bytes(call);
        self.encoded.clear();
        route.header.append(xid, calls.procedure(), &mut self.encoded);
        calls.encode(call, &mut Writer::new(&mut self.encoded));
        let body_bytes = self.encoded.len() - record::MARK_BYTES + payload_bytes + padding(payload_bytes);
        record::write_mark(&mut self.encoded, 0, body_bytes);
        let (start, end) = (self.headers_end, self.headers_end + self.encoded.len());
        let place = self.headers.as_deref_mut().and_then(|headers| headers.get_mut(start..end));
        place.expect("memory for the headers of all calls in flight").copy_from_slice(&self.encoded);
        self.headers_end = end;
        self.calls.push(QueuedCall { xid, call, header: start..end, payload_bytes });
    }

    /// Sends all queued calls.
    pub(super) fn transmit<C: Calls>(
        &mut self,
        connection: &mut Connection,
        calls: &C,
        table: &mut CallTable,
        route: &Route,
        timer: &mut ResponseTimer,
    ) -> Result<(), Fault> {
        let headers = self.headers.as_deref().unwrap_or_default();
        let mut first = 0; // first call that is not completely sent
        let mut skip = 0; // bytes of it that are sent
        while let Some(rest) = self.calls.get(first..).filter(|rest| !rest.is_empty()) {
            let segments = calls.payload_segments();
            let few_segments = segments == 0 || rest.len() == 1 && segments + 2 <= SHORT;
            let mut mark_sent = |gathered: &[QueuedCall]| gathered.iter().for_each(|call| table.set_sent(call.xid));
            // The calls are marked before the send: after an error it is unknown how much was sent.
            let sent = if few_segments {
                let (list, count) = gather::<C, SHORT>(headers, rest, skip, calls);
                mark_sent(&rest[..count]);
                connection.stream()?.send(list.as_slice())
            } else {
                let (list, count) = gather::<C, LONG>(headers, rest, skip, calls);
                mark_sent(&rest[..count]);
                connection.stream()?.send(list.as_slice())
            };
            skip += unanswered::checked(timer.sent(sent, route), table, calls, route)?.unwrap_or(0);
            while let Some(call) = self.calls.get(first).filter(|call| skip >= call.bytes()) {
                skip -= call.bytes();
                first += 1;
            }
        }
        self.clear();
        Ok(())
    }
}

/// Lists as much of these calls as fits, without the first `skip` bytes. Returns how many calls are in the list; the last one
/// may be incomplete.
fn gather<'a, C: Calls, const N: usize>(
    headers: &'a [u8],
    queued: &[QueuedCall],
    skip: usize,
    calls: &'a C,
) -> (SendList<'a, N>, usize) {
    let mut list = SendList::new();
    let mut count = 0;
    let mut skip = skip;
    while let Some(call) = queued.get(count) {
        // Headers of calls without payload are adjacent: one segment covers a sequence of them.
        let run = queued.get(count..).unwrap_or_default().iter().take_while(|call| call.payload_bytes == 0);
        let (run_count, run_end) = run.fold((0, call.header.end), |(count, _), call| (count + 1, call.header.end));
        let header = call.header.start + skip.min(call.header.len())..run_end;
        if !list.push(headers.get(header).unwrap_or_default()) {
            break;
        }
        if run_count > 0 {
            (count, skip) = (count + run_count, 0);
            continue;
        }
        count += 1;
        let skip_payload = skip.saturating_sub(call.header.len()).min(call.payload_bytes);
        let skip_padding = skip.saturating_sub(call.header.len() + call.payload_bytes);
        let pad = &[0u8; 3][..padding(call.payload_bytes)];
        let whole = calls.push_payload(call.call, skip_payload..call.payload_bytes, &mut list)
            && list.push(pad.get(skip_padding..).unwrap_or_default());
        if !whole {
            break;
        }
        skip = 0;
    }
    (list, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_proto::xdr::Reader;
    use std::io::IoSlice;

    /// Calls whose payloads are these ranges of the buffers.
    struct Payloads<'p>(Vec<Range<usize>>, [IoSlice<'p>; 2]);

    impl Calls for Payloads<'_> {
        fn next_call(&mut self, _in_flight: usize) -> Option<usize> {
            None
        }

        fn procedure(&self) -> u32 {
            7
        }

        fn encode(&self, _call: usize, _out: &mut Writer<'_>) {}

        fn push_payload<'a, const N: usize>(&'a self, call: usize, part: Range<usize>, list: &mut SendList<'a, N>) -> bool {
            let start = self.0[call].start;
            list.push_range(&self.1, start + part.start..start + part.end)
        }

        fn reply(&mut self, _call: usize, _results: &mut Reader<'_>) -> Result<(), Fault> {
            Ok(())
        }
    }

    fn ranges(payloads: &[usize]) -> Vec<Range<usize>> {
        let mut start = 0;
        let range = |bytes: &usize| {
            start += bytes;
            start - bytes..start
        };
        payloads.iter().map(range).collect()
    }

    /// Calls with headers of 5 bytes and payloads of these sizes.
    fn queued(payloads: &[usize]) -> Vec<QueuedCall> {
        let call = |(index, &payload_bytes): (usize, &usize)| QueuedCall {
            xid: index as u32,
            call: index,
            header: index * 5..index * 5 + 5,
            payload_bytes,
        };
        payloads.iter().enumerate().map(call).collect()
    }

    #[test]
    fn sends_of_any_length_bring_every_byte_once_and_in_order() {
        for payloads in [&[0, 0, 0][..], &[7, 0, 0, 4, 1], &[0, 9, 3], &[2; 50]] {
            let queued = queued(payloads);
            let headers: Vec<u8> = (0..queued.len() as u8 * 5).collect();
            let bytes: Vec<u8> = (100..100 + payloads.iter().sum::<usize>() as u8).collect();
            let (left, right) = bytes.split_at(bytes.len() / 3);
            let calls = Payloads(ranges(payloads), [IoSlice::new(left), IoSlice::new(right)]);
            let mut expected = Vec::new();
            for call in &queued {
                expected.extend_from_slice(&headers[call.header.clone()]);
                expected.extend_from_slice(&bytes[calls.0[call.call].clone()]);
                expected.resize(expected.len() + padding(call.payload_bytes), 0);
            }
            for step in 1..=expected.len() {
                let (mut first, mut skip, mut sent) = (0, 0, Vec::new());
                while first < queued.len() {
                    let (list, count) = gather::<_, LONG>(&headers, &queued[first..], skip, &calls);
                    assert!(count > 0);
                    let gathered: Vec<u8> = list.as_slice().iter().flat_map(|part| part.to_vec()).collect();
                    let taken = step.min(gathered.len());
                    sent.extend_from_slice(&gathered[..taken]);
                    skip += taken;
                    while first < queued.len() && skip >= queued[first].bytes() {
                        skip -= queued[first].bytes();
                        first += 1;
                    }
                }
                assert_eq!(sent, expected, "{payloads:?} in sends of {step}");
            }
        }
    }
}
