//! The calls in flight on a channel, found by their xid.

use crate::error::ProtocolError;
use crate::limits::{IO_HEAD_BYTES_MAX, RENEW_MS_MAX, RENEW_MS_MIN, UNEXPECTED_REPLIES_MAX};
use crate::sys::clock::coarse_ms;
use crate::sys::random::random;
use std::time::Duration;

/// Shortest time between two checks of the ages of all calls in flight, in ms.
const LOOK_EVERY_MS: u32 = 1000;

/// A ring of calls in flight. The low bits of an xid are the call's place, so that a lookup searches nothing.
///
/// xids count up. An xid whose place an older call still has is skipped, so that no xid is reused before all 2^32 were used.
#[derive(Debug)]
pub(super) struct CallTable {
    ring: Box<[Entry]>, // its length is a power of two
    next_xid: Option<u32>,
    oldest: u32, // no call in flight has an older xid
    in_flight: usize,
    unexpected_count: u32, // unexpected replies since the last expected one
    looked_ms: u32,        // when the ages were last checked
    scratch: Vec<u8>,      // room for the arguments of any READ, WRITE and COMMIT
}

/// A call that has waited for longer than a server needs to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdue {
    pub(super) xid: u32,
    pub(super) call: usize,
    /// Time since it was first sent.
    pub(super) age: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    xid: u32,
    call: u32,
    in_flight: bool,
    sent: bool, // a byte of it may have reached the server
    waits: u8,  // how often it was overdue
    // In ms of the monotonic clock, which wrap: when the call was made, when it got this xid, when it was last sent.
    made_ms: u32,
    xid_ms: u32,
    sent_ms: u32,
}

impl Entry {
    /// The age under one xid at which it is overdue.
    const fn wait_ms(&self) -> u64 {
        let wait_ms = RENEW_MS_MIN << if self.waits < 8 { self.waits } else { 8 };
        if wait_ms < RENEW_MS_MAX { wait_ms } else { RENEW_MS_MAX }
    }
}

impl CallTable {
    /// A table for `depth` calls.
    pub(super) fn new(depth: usize) -> Self {
        let ring = vec![Entry::default(); depth.next_power_of_two()].into_boxed_slice();
        let scratch = Vec::with_capacity(IO_HEAD_BYTES_MAX);
        Self { ring, next_xid: None, oldest: 0, in_flight: 0, unexpected_count: 0, looked_ms: now(), scratch }
    }

    /// Calls in flight.
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) const fn is_full(&self) -> bool {
        self.in_flight == self.ring.len()
    }

    /// Adds a call at this time ([`now`]). Returns its xid.
    ///
    /// # Panics
    /// If the table is full: a bug of this library.
    pub(super) fn insert(&mut self, call: usize, now_ms: u32) -> u32 {
        assert!(!self.is_full(), "more calls in flight than the channel has entries");
        let mut xid = self.next_xid.unwrap_or_else(|| random() as u32);
        while self.entry(xid).in_flight {
            xid = xid.wrapping_add(1);
        }
        let (call, made_ms) = (call as u32, now_ms);
        *self.entry(xid) =
            Entry { xid, call, in_flight: true, sent: false, waits: 0, made_ms, xid_ms: made_ms, sent_ms: made_ms };
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

    /// The only call in flight and its xid. `None` if there are several.
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

    /// Notes that a byte of this call may reach the server from now on.
    pub(super) fn set_sent(&mut self, xid: u32) {
        self.entry(xid).sent = true;
    }

    /// Removes an answered call.
    pub(super) fn remove(&mut self, xid: u32) {
        if self.find(xid).is_some() {
            self.entry(xid).in_flight = false;
            self.in_flight -= 1;
            self.unexpected_count = 0;
        }
    }

    /// Skips a reply that belongs to no call in flight. Returns an error after too many of them.
    pub(super) fn skip_unexpected(&mut self) -> Result<(), ProtocolError> {
        self.unexpected_count += 1;
        if self.unexpected_count > UNEXPECTED_REPLIES_MAX { Err(ProtocolError::UnexpectedReply) } else { Ok(()) }
    }

    /// Resends every call in flight, in the order in which they were made, after the connection was closed. Returns how many
    /// had been sent before.
    pub(super) fn resend(&mut self, mut send: impl FnMut(u32, usize)) -> u64 {
        self.unexpected_count = 0;
        let first = self.next_xid.unwrap_or(0);
        let (mut resends, now_ms) = (0, now());
        for step in 0..self.ring.len() as u32 {
            let entry = self.entry(first.wrapping_add(step));
            if entry.in_flight {
                resends += u64::from(entry.sent);
                entry.sent = false;
                entry.sent_ms = now_ms;
                send(entry.xid, entry.call as usize);
            }
        }
        resends
    }

    /// Gives every call in flight another xid with the same place. As with [`Self::insert`], no xid is reused.
    pub(super) fn renew(&mut self) {
        let (now_ms, mask) = (now(), self.ring.len() as u32 - 1);
        let Some(first) = self.next_xid else { return };
        for entry in self.ring.iter_mut().filter(|entry| entry.in_flight) {
            entry.xid = first.wrapping_add(entry.xid.wrapping_sub(first) & mask);
            entry.xid_ms = now_ms;
        }
        self.oldest = first;
        self.next_xid = Some(first.wrapping_add(self.ring.len() as u32));
    }

    /// Whether the last check of the ages was a second ago or earlier.
    #[inline]
    pub(super) fn is_look_due(&self, now_ms: u32) -> bool {
        self.in_flight > 0 && now_ms.wrapping_sub(self.looked_ms) >= LOOK_EVERY_MS
    }

    /// The oldest overdue call in flight. A call that was just resent on another connection, as after `resend_after`, gets that
    /// time again before it is overdue.
    pub(super) fn overdue(&mut self, resend_after: Duration) -> Option<Overdue> {
        let now_ms = now();
        self.looked_ms = now_ms;
        let resend_ms = u64::try_from(resend_after.as_millis()).unwrap_or(u64::MAX);
        let waited = |since_ms: u32| u64::from(now_ms.wrapping_sub(since_ms));
        let is_over = |entry: &&Entry| {
            let wait_ms = entry.wait_ms();
            entry.in_flight && waited(entry.xid_ms) >= wait_ms && waited(entry.sent_ms) >= wait_ms.min(resend_ms)
        };
        let first = self.ring.iter().filter(is_over).max_by_key(|entry| waited(entry.made_ms))?;
        let age = Duration::from_millis(waited(first.made_ms));
        Some(Overdue { xid: first.xid, call: first.call as usize, age })
    }

    /// Doubles the age at which this call is overdue, counted from now.
    pub(super) fn wait_longer(&mut self, xid: u32) {
        if self.find(xid).is_some() {
            let entry = self.entry(xid);
            entry.waits = entry.waits.saturating_add(1);
            entry.xid_ms = now();
        }
    }

    /// Restarts the time after which the calls in flight are overdue.
    pub(super) fn restart_waits(&mut self) {
        let now_ms = now();
        self.ring.iter_mut().filter(|entry| entry.in_flight).for_each(|entry| entry.xid_ms = now_ms);
    }

    /// Memory for the arguments of a call, which are encoded again to name it in the log.
    pub(super) const fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// Removes all calls: the client has given up on them.
    pub(super) fn clear(&mut self) {
        if self.in_flight > 0 {
            self.ring.fill(Entry::default());
            self.in_flight = 0;
        }
        self.unexpected_count = 0;
    }

    /// Removes all calls, even if the table is inconsistent.
    pub(super) fn abandon(&mut self) {
        self.ring.fill(Entry::default());
        (self.in_flight, self.unexpected_count, self.next_xid) = (0, 0, None);
    }

    /// In a child after fork: chooses new random xids.
    pub(super) const fn reset_after_fork(&mut self) {
        self.next_xid = None;
    }

    const fn place(&self, xid: u32) -> usize {
        xid as usize & (self.ring.len() - 1)
    }

    fn entry(&mut self, xid: u32) -> &mut Entry {
        let place = self.place(xid);
        &mut self.ring[place] // the mask keeps it below the length
    }
}

/// The time as entries store it.
pub(super) fn now() -> u32 {
    coarse_ms() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_xid_whose_place_is_taken_is_left_out_and_none_is_used_twice() {
        let mut table = CallTable::new(4);
        table.next_xid = Some(u32::MAX - 5);
        let slow = table.insert(0, 0);
        let mut seen = vec![slow];
        for call in 1..100 {
            let xid = table.insert(call, 0);
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
        let xids: Vec<u32> = (0..5).map(|call| table.insert(call, 0)).collect();
        table.set_sent(xids[1]);
        table.set_sent(xids[3]);
        table.remove(xids[1]);
        let mut again = Vec::new();
        assert_eq!(table.resend(|xid, call| again.push((xid, call))), 1);
        assert_eq!(again, [(xids[0], 0), (xids[2], 2), (xids[3], 3), (xids[4], 4)]);
    }

    #[test]
    fn renewed_calls_keep_their_places_and_get_xids_that_none_had_before() {
        let mut table = CallTable::new(8);
        table.next_xid = Some(u32::MAX - 20);
        let slow = table.insert(0, 0);
        let mut seen = vec![slow];
        for call in 1..20 {
            let xid = table.insert(call, 0);
            seen.push(xid);
            if call < 17 {
                table.remove(xid);
            }
        }
        for _ in 0..3 {
            table.renew();
            let mut again = Vec::new();
            table.resend(|xid, call| again.push((xid, call)));
            let calls: std::collections::BTreeSet<_> = again.iter().map(|(_, call)| *call).collect();
            assert_eq!(calls, [0, 17, 18, 19].into());
            for (xid, call) in again {
                assert!(!seen.contains(&xid) && table.find(xid) == Some(call));
                seen.push(xid);
            }
            let next = table.insert(99, 0);
            assert!(!seen.contains(&next));
            seen.push(next);
            table.remove(next);
        }
        assert_eq!(seen.iter().filter(|xid| table.find(**xid).is_some()).count(), 4);
    }

    #[test]
    fn a_call_is_overdue_after_5_s_and_then_after_10_20_40_and_60() {
        let mut table = CallTable::new(2);
        let long = Duration::from_secs(3600);
        let mut xid = table.insert(7, now());
        assert_eq!(table.overdue(long), None);
        for wait_s in [5, 10, 20, 40, 60, 60, 60] {
            let entry = table.entry(xid);
            (entry.xid_ms, entry.sent_ms) = (now() - wait_s * 1000 + 500, now() - 100_000);
            assert_eq!(table.overdue(long), None, "{wait_s} s");
            table.entry(xid).xid_ms -= 500;
            assert_eq!(table.overdue(long).map(|overdue| (overdue.xid, overdue.call)), Some((xid, 7)), "{wait_s} s");
            table.wait_longer(xid);
            table.renew();
            table.resend(|renewed, _| xid = renewed);
        }
    }

    #[test]
    fn time_in_which_the_server_was_silent_makes_no_call_overdue() {
        let mut table = CallTable::new(1);
        let long = Duration::from_secs(3600);
        let xid = table.insert(0, now());
        table.entry(xid).xid_ms = now() - 100_000;
        table.entry(xid).sent_ms = now() - 100_000;
        assert!(table.overdue(long).is_some());
        table.restart_waits();
        assert_eq!(table.overdue(long), None);
        table.entry(xid).xid_ms -= 5000;
        assert!(table.overdue(long).is_some());
    }

    #[test]
    fn unexpected_replies_are_skipped_only_so_often_in_a_row() {
        let mut table = CallTable::new(1);
        for _ in 0..3 {
            let xid = table.insert(0, 0);
            assert!((0..UNEXPECTED_REPLIES_MAX).all(|_| table.skip_unexpected().is_ok()));
            table.remove(xid);
        }
        table.insert(0, 0);
        assert!((0..=UNEXPECTED_REPLIES_MAX).any(|_| table.skip_unexpected().is_err()));
    }
}
