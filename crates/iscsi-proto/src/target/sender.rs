//! Numbers PDUs in the order in which they leave.

use super::mark::Mark;
use super::tasks::Table;
use crate::pdu::{self, BHS_BYTES, Bhs, DIGEST_BYTES, Digests, Opcode};
use crate::serial::StatSn;
use std::sync::Arc;

/// The sending side of a connection. Only one thread uses it at a time.
#[derive(Debug)]
pub struct Sender {
    table: Arc<Table>,
    next: StatSn,
    held: Vec<u8>, // responses to task management functions that wait for aborted tasks
}

/// The action for a PDU.
enum Step {
    Send(usize),
    Remove(usize),
    Hold(usize),
}

impl Sender {
    pub(super) fn new(table: Arc<Table>) -> Self {
        Self { table, next: StatSn(1), held: Vec::new() }
    }

    /// Makes the PDUs of a buffer ready to leave now and in this order. Removes replies of aborted tasks. Takes out responses to
    /// task management functions until the tasks that they aborted have ended, and then appends them.
    pub fn stamp(&mut self, out: &mut Vec<u8>) {
        self.walk(out, true);
        if !self.held.is_empty() && !self.table.has_aborted() {
            let mut held = std::mem::take(&mut self.held);
            self.walk(&mut held, false);
            out.append(&mut held);
        }
    }

    fn walk(&mut self, out: &mut Vec<u8>, may_hold: bool) {
        let digests = self.table.digests();
        let mut at = 0;
        while let Some(step) = out.get_mut(at..).and_then(|rest| self.step(rest, digests, may_hold)) {
            match step {
                Step::Send(bytes) => at += bytes,
                Step::Remove(bytes) => drop(out.drain(at..at + bytes)),
                Step::Hold(bytes) => self.held.extend(out.drain(at..at + bytes)),
            }
        }
        assert!(at == out.len(), "{} bytes follow the last complete reply", out.len() - at);
    }

    /// The action for the first PDU of `rest`. `None` if no whole PDU is left.
    fn step(&mut self, rest: &mut [u8], digests: Digests, may_hold: bool) -> Option<Step> {
        let mut bhs = Bhs(*rest.first_chunk()?);
        // Login responses have no digests.
        let digests = if bhs.opcode() == Some(Opcode::LoginResponse) { Digests::default() } else { digests };
        let data_bytes = bhs.data_bytes();
        let data_digest = if digests.data && data_bytes > 0 { DIGEST_BYTES } else { 0 };
        let total = BHS_BYTES + digests.header_bytes() + pdu::padded(data_bytes) + data_digest;
        if rest.len() < total {
            return None;
        }
        let mark = Mark(bhs.word(24));
        if mark.waits() && may_hold && (self.table.has_aborted() || !self.held.is_empty()) {
            return Some(Step::Hold(total));
        }
        if let Some(slot) = mark.slot() {
            let goes = if mark.takes_number() { self.table.release(slot) } else { !self.table.is_aborted(slot) };
            if !goes {
                return Some(Step::Remove(total));
            }
        }
        let number = if mark.shows_number() { self.next } else { StatSn(0) };
        if mark.takes_number() {
            self.next = self.next.next();
        }
        let (expected, end) = self.table.window();
        bhs.set(24, number.0.to_be_bytes());
        bhs.set(28, expected.0.to_be_bytes());
        bhs.set(32, end.0.to_be_bytes());
        *rest.first_chunk_mut()? = bhs.0;
        if digests.header {
            *rest.get_mut(BHS_BYTES..)?.first_chunk_mut()? = pdu::crc32c(&bhs.0).to_le_bytes();
        }
        Some(Step::Send(total))
    }
}
