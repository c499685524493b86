//! Calls that are encoded and not sent yet: several leave in one send, payloads gathered between their headers.

use super::call_table::CallTable;
use super::calls::Calls;
use super::connection::Connection;
use super::fault::Fault;
use super::io_slices::{LONG, SHORT, SendList};
use super::response_timer::ResponseTimer;
use super::service::Service;
use crate::limits::{IO_HEAD_BYTES_MAX, SEND_BYTES_MAX};
use nfs_proto::record;
use nfs_proto::xdr::{Writer, padding};
use std::io::IoSlice;
use std::ops::Range;

/// Encoded calls in the order they are to be sent. Has its memory from the start.
#[derive(Debug)]
pub(super) struct SendQueue {
    headers: Vec<u8>, // record mark, call header and arguments of each, one behind the other
    calls: Vec<QueuedCall>,
}

#[derive(Debug)]
struct QueuedCall {
    xid: u32,
    header: Range<usize>,  // in `headers`
    payload: Range<usize>, // in the payload buffers of the run
}

impl QueuedCall {
    fn bytes(&self) -> usize {
        self.header.len() + self.payload.len() + padding(self.payload.len())
    }
}

impl SendQueue {
    /// A queue of `depth` calls.
    pub(super) fn new(depth: usize) -> Self {
        let header_bytes = SEND_BYTES_MAX.max(depth * IO_HEAD_BYTES_MAX);
        Self { headers: Vec::with_capacity(header_bytes), calls: Vec::with_capacity(depth) }
    }

    pub(super) fn clear(&mut self) {
        self.headers.clear();
        self.calls.clear();
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Encodes a call.
    pub(super) fn push<C: Calls>(&mut self, service: &Service, xid: u32, call: usize, calls: &C) {
        let payload = calls.payload_range(call);
        let start = self.headers.len();
        service.append_header(xid, calls.procedure(), &mut self.headers);
        calls.encode(call, &mut Writer::new(&mut self.headers));
        let end = self.headers.len();
        let body_bytes = end - start - record::MARK_BYTES + payload.len() + padding(payload.len());
        record::write_mark(&mut self.headers, start, body_bytes);
        self.calls.push(QueuedCall { xid, header: start..end, payload });
    }

    /// Sends everything.
    pub(super) fn transmit(
        &mut self,
        connection: &mut Connection,
        payload: &[IoSlice<'_>],
        table: &mut CallTable,
        service: &Service,
        timer: &mut ResponseTimer,
    ) -> Result<(), Fault> {
        let mut first = 0; // call not wholly sent yet
        let mut skip = 0; // bytes of it that are sent
        while let Some(rest) = self.calls.get(first..).filter(|rest| !rest.is_empty()) {
            let few_segments = payload.is_empty() || rest.len() == 1 && payload.len() + 2 <= SHORT;
            let mut mark_sent = |gathered: &[QueuedCall]| gathered.iter().for_each(|call| table.set_sent(call.xid));
            // Marked before the send: after an error nobody knows how much of it went out.
            let sent = if few_segments {
                let (list, count) = gather::<SHORT>(&self.headers, rest, skip, payload);
                mark_sent(&rest[..count]);
                connection.stream()?.send(list.as_slice())
            } else {
                let (list, count) = gather::<LONG>(&self.headers, rest, skip, payload);
                mark_sent(&rest[..count]);
                connection.stream()?.send(list.as_slice())
            };
            skip += timer.sent(sent, service)?.unwrap_or(0);
            while let Some(call) = self.calls.get(first).filter(|call| skip >= call.bytes()) {
                skip -= call.bytes();
                first += 1;
            }
        }
        self.clear();
        Ok(())
    }
}

/// As much as one list holds of these calls, but for the first `skip` bytes; and how many of the calls are in it, the last
/// one perhaps in part.
fn gather<'a, const N: usize>(
    headers: &'a [u8],
    calls: &[QueuedCall],
    skip: usize,
    payload: &'a [IoSlice<'_>],
) -> (SendList<'a, N>, usize) {
    let mut list = SendList::new();
    let mut count = 0;
    let mut skip = skip;
    while let Some(call) = calls.get(count) {
        // Headers of calls without payload lie side by side: one segment takes a run of them.
        let run = calls.get(count..).unwrap_or_default().iter().take_while(|call| call.payload.is_empty());
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
        let skip_payload = skip.saturating_sub(call.header.len()).min(call.payload.len());
        let skip_padding = skip.saturating_sub(call.header.len() + call.payload.len());
        let pad = &[0u8; 3][..padding(call.payload.len())];
        let whole = list.push_range(payload, call.payload.start + skip_payload..call.payload.end)
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

    /// Calls with headers of 5 bytes and payloads of so many.
    fn calls(payloads: &[usize]) -> Vec<QueuedCall> {
        let mut start = 0;
        let call = |(index, &bytes): (usize, &usize)| {
            let payload = start..start + bytes;
            start = payload.end;
            QueuedCall { xid: index as u32, header: index * 5..index * 5 + 5, payload }
        };
        payloads.iter().enumerate().map(call).collect()
    }

    #[test]
    fn sends_of_any_length_bring_every_byte_once_and_in_order() {
        for payloads in [&[0, 0, 0][..], &[7, 0, 0, 4, 1], &[0, 9, 3], &[2; 50]] {
            let calls = calls(payloads);
            let headers: Vec<u8> = (0..calls.len() as u8 * 5).collect();
            let bytes: Vec<u8> = (100..100 + payloads.iter().sum::<usize>() as u8).collect();
            let (left, right) = bytes.split_at(bytes.len() / 3);
            let payload = [IoSlice::new(left), IoSlice::new(right)];
            let mut expected = Vec::new();
            for call in &calls {
                expected.extend_from_slice(&headers[call.header.clone()]);
                expected.extend_from_slice(&bytes[call.payload.clone()]);
                expected.resize(expected.len() + padding(call.payload.len()), 0);
            }
            for step in 1..=expected.len() {
                let (mut first, mut skip, mut sent) = (0, 0, Vec::new());
                while first < calls.len() {
                    let (list, count) = gather::<LONG>(&headers, &calls[first..], skip, &payload);
                    assert!(count > 0);
                    let gathered: Vec<u8> = list.as_slice().iter().flat_map(|part| part.to_vec()).collect();
                    let taken = step.min(gathered.len());
                    sent.extend_from_slice(&gathered[..taken]);
                    skip += taken;
                    while first < calls.len() && skip >= calls[first].bytes() {
                        skip -= calls[first].bytes();
                        first += 1;
                    }
                }
                assert_eq!(sent, expected, "{payloads:?} in sends of {step}");
            }
        }
    }
}
