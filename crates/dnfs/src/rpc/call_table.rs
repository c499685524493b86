//! The calls in flight on a channel, found by their xid.

use crate::error::ProtocolError;
use crate::limits::UNEXPECTED_REPLIES_MAX;
use crate::sys::random::random;

/// A ring of calls in flight: the call with an xid stands at the xid's low bits, so that none is searched for.
///
/// xids count up. One whose place is still taken by an older call is left out, so none is used twice before all 2^32 were.
#[derive(Debug)]
pub(super) struct CallTable {
    ring: Box<[Entry]>, // a power of two of them
    next_xid: Option<u32>,
    oldest: u32, // no call in flight has an older xid
    in_flight: usize,
    unexpected_count: u32, // replies to no call of ours since one was answered
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    xid: u32,
    call: u32,
    in_flight: bool,
    sent: bool, // a byte of it may have reached the server
}

impl CallTable {
    /// A table for `depth` calls.
    pub(super) fn new(depth: usize) -> Self {
        let ring = vec![Entry::default(); depth.next_power_of_two()].into_boxed_slice();
        Self { ring, next_xid: None, oldest: 0, in_flight: 0, unexpected_count: 0 }
    }

    /// Calls in flight.
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) const fn is_full(&self) -> bool {
        self.in_flight == self.ring.len()
    }

    /// Takes up a call: its xid.
    ///
    /// # Panics
    /// When the table is full: our own bug.
    pub(super) fn insert(&mut self, call: usize) -> u32 {
        assert!(!self.is_full(), "more calls in flight than the channel has entries");
        let mut xid = self.next_xid.unwrap_or_else(|| random() as u32);
        while self.entry(xid).in_flight {
            xid = xid.wrapping_add(1);
        }
        *self.entry(xid) = Entry { xid, call: call as u32, in_flight: true, sent: false };
        self.next_xid = Some(xid.wrapping_add(1));
        if self.in_flight == 0 {
            self.oldest = xid;
        }
        self.in_flight += 1;
        xid
    }

    /// The call in flight with this xid.
    pub(super) fn find(&self, xid: u32) -> Option<usize> {
        let entry = self.ring.get(self.place(xid))?;
        (entry.in_flight && entry.xid == xid).then_some(entry.call as usize)
    }

    /// The only call in flight and its xid; none when there are several.
    pub(super) fn only(&mut self) -> Option<(u32, usize)> {
        if self.in_flight != 1 {
            return None;
        }
        loop {
            match self.find(self.oldest) {
                Some(call) => return Some((self.oldest, call)),
                None => self.oldest = self.oldest.wrapping_add(1),
            }
        }
    }

    /// A byte of this call may reach the server from now on.
    pub(super) fn set_sent(&mut self, xid: u32) {
        self.entry(xid).sent = true;
    }

    /// The call with this xid is answered.
    pub(super) fn remove(&mut self, xid: u32) {
        if self.find(xid).is_some() {
            self.entry(xid).in_flight = false;
            self.in_flight -= 1;
            self.unexpected_count = 0;
        }
    }

    /// A reply to no call in flight: skipped, but not for ever.
    pub(super) fn skip_unexpected(&mut self) -> Result<(), ProtocolError> {
        self.unexpected_count += 1;
        if self.unexpected_count > UNEXPECTED_REPLIES_MAX { Err(ProtocolError::UnexpectedReply) } else { Ok(()) }
    }

    /// The connection is gone: every call in flight is to be sent again, in the order they were made. How many had been
    /// sent before.
    pub(super) fn resend(&mut self, mut send: impl FnMut(u32, usize)) -> u64 {
        self.unexpected_count = 0;
        let first = self.next_xid.unwrap_or(0);
        let mut resends = 0;
        for step in 0..self.ring.len() as u32 {
            let entry = self.entry(first.wrapping_add(step));
            if entry.in_flight {
                resends += u64::from(entry.sent);
                entry.sent = false;
                send(entry.xid, entry.call as usize);
            }
        }
        resends
    }

    /// Forgets calls that were given up.
    pub(super) fn clear(&mut self) {
        if self.in_flight > 0 {
            self.ring.fill(Entry::default());
            self.in_flight = 0;
        }
        self.unexpected_count = 0;
    }

    /// Forgets everything, whatever it looks like.
    pub(super) fn abandon(&mut self) {
        self.ring.fill(Entry::default());
        (self.in_flight, self.unexpected_count, self.next_xid) = (0, 0, None);
    }

    /// In a child after fork: xids are drawn anew.
    pub(super) const fn reset_after_fork(&mut self) {
        self.next_xid = None;
    }

    const fn place(&self, xid: u32) -> usize {
        xid as usize & (self.ring.len() - 1)
    }

    fn entry(&mut self, xid: u32) -> &mut Entry {
        let place = self.place(xid);
        &mut self.ring[place] // below the length, a power of two
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_xid_whose_place_is_taken_is_left_out_and_none_is_used_twice() {
        let mut table = CallTable::new(4);
        table.next_xid = Some(u32::MAX - 5);
        let slow = table.insert(0);
        let mut seen = vec![slow];
        for call in 1..100 {
            let xid = table.insert(call);
            assert!(!seen.contains(&xid) && table.find(xid) == Some(call));
            assert_eq!(table.find(slow), Some(0));
            seen.push(xid);
            table.remove(xid);
            assert_eq!(table.find(xid), None);
        }
        assert_eq!(table.only(), Some((slow, 0)));
    }

    #[test]
    fn a_lost_connection_sends_what_is_not_answered_again_and_counts_what_was_sent() {
        let mut table = CallTable::new(8);
        let xids: Vec<u32> = (0..5).map(|call| table.insert(call)).collect();
        table.set_sent(xids[1]);
        table.set_sent(xids[3]);
        table.remove(xids[1]);
        let mut again = Vec::new();
        assert_eq!(table.resend(|xid, call| again.push((xid, call))), 1);
        assert_eq!(again, [(xids[0], 0), (xids[2], 2), (xids[3], 3), (xids[4], 4)]);
    }

    #[test]
    fn unexpected_replies_are_skipped_only_so_often_in_a_row() {
        let mut table = CallTable::new(1);
        for _ in 0..3 {
            let xid = table.insert(0);
            assert!((0..UNEXPECTED_REPLIES_MAX).all(|_| table.skip_unexpected().is_ok()));
            table.remove(xid);
        }
        table.insert(0);
        assert!((0..=UNEXPECTED_REPLIES_MAX).any(|_| table.skip_unexpected().is_err()));
    }
}
