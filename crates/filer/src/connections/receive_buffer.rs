//! Bytes of one connection in, whole call records out. No socket here: the driver receives into [`Session::room`].

use nfs_proto::limits::RECORD_BYTES_MAX;
use nfs_proto::record::{self, Framed, RecordError};

use crate::limits::{RECEIVE_BYTES_BUSY, RECEIVE_BYTES_MAX, RECEIVE_BYTES_RESTING, RECEIVE_BYTES_START};

/// The receive side of a connection: one buffer, in which calls are parsed in place.
///
/// The buffer starts small, doubles while the socket fills it, grows at once for an announced larger record, and is
/// given back when it was not needed for a while.
#[derive(Debug)]
pub struct Session {
    buffer: Vec<u8>, // all of it initialised; its length is its size
    start: usize,    // first byte not yet taken
    end: usize,      // behind the last byte received
    needed: usize,   // bytes from `start` that the record under way takes, as far as known
    wanted: usize,   // size the buffer should have, because the socket filled it
    small_turns: u32,
    records: u64, // taken so far
}

/// A record of which a part has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Which one of the connection it is.
    pub number: u64,
    /// Bytes it takes, as far as is known.
    pub bytes: usize,
}

/// A received call.
#[derive(Debug)]
pub struct Record<'a> {
    /// The call, without record mark.
    pub bytes: &'a [u8],
    /// More bytes were received behind it.
    pub more: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self { buffer: vec![0; RECEIVE_BYTES_START], start: 0, end: 0, needed: 0, wanted: 0, small_turns: 0, records: 0 }
    }
}

impl Session {
    /// Where to receive to; never empty. Call when [`Session::next_record`] had no further record.
    pub fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let size = self.needed.max(self.wanted).min(RECEIVE_BYTES_MAX);
        if self.buffer.len() < size {
            self.resize(size);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Takes note of `bytes` received into [`Session::room`].
    pub fn received(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
        if self.end == self.buffer.len() && self.buffer.len() < RECEIVE_BYTES_BUSY {
            // More is waiting in the socket than the buffer holds: fewer, larger receives from now on.
            self.wanted = (self.buffer.len() * 2).min(RECEIVE_BYTES_BUSY);
        }
        self.small_turns = if self.end > RECEIVE_BYTES_START { 0 } else { self.small_turns.saturating_add(1) };
    }

    /// Takes the next whole record, if there is one.
    ///
    /// # Errors
    /// [`RecordError`] when the bytes are not record-marked RPC: the connection has to be closed.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, RecordError> {
        let unread = self.buffer.get_mut(self.start..self.end).unwrap_or_default();
        let unread_bytes = unread.len();
        match record::frame(unread, RECORD_BYTES_MAX)? {
            Framed::Incomplete { bytes_needed } => {
                self.needed = self.needed.max(bytes_needed);
                Ok(None)
            }
            Framed::Record { body, consumed } => {
                let from = self.start + body.start;
                let to = self.start + body.end;
                self.start += consumed;
                self.needed = 0;
                self.records += 1;
                let bytes = self.buffer.get(from..to).unwrap_or_default();
                Ok(Some(Record { bytes, more: unread_bytes > consumed }))
            }
        }
    }

    /// The record under way: begun, not whole.
    #[must_use]
    pub fn partial(&self) -> Option<Partial> {
        (self.start != self.end).then_some(Partial { number: self.records, bytes: self.needed })
    }

    /// Turns in a row that a small buffer would have done.
    #[must_use]
    pub const fn small_turns(&self) -> u32 {
        self.small_turns
    }

    /// Size of the buffer, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the buffer is larger than a quiet connection's and empty.
    #[must_use]
    pub fn holds_spare(&self) -> bool {
        self.buffer.len() > RECEIVE_BYTES_START && self.start == self.end
    }

    /// Gives a large buffer back.
    pub fn shrink(&mut self) {
        if self.holds_spare() {
            self.make_empty(RECEIVE_BYTES_START);
        }
    }

    /// After a silence: keeps room for a call or two only.
    pub fn rest(&mut self) {
        if self.buffer.len() > RECEIVE_BYTES_RESTING && self.start == self.end {
            self.make_empty(RECEIVE_BYTES_RESTING);
        }
    }

    fn make_empty(&mut self, size: usize) {
        (self.start, self.end, self.needed, self.wanted) = (0, 0, 0, 0);
        self.resize(size);
    }

    fn resize(&mut self, size: usize) {
        // A fresh allocation rather than a realloc: large blocks are mapped apart and go back to the system at once.
        let mut buffer = vec![0; size];
        let kept = self.end.min(size);
        if let (Some(to), Some(from)) = (buffer.get_mut(..kept), self.buffer.get(..kept)) {
            to.copy_from_slice(from);
        }
        self.buffer = buffer;
        self.small_turns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_proto::record::LAST_FRAGMENT;

    fn record(body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32 | LAST_FRAGMENT).to_be_bytes(), body].concat()
    }

    /// Feeds `bytes` in pieces of `piece` and collects the records.
    fn feed(session: &mut Session, bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let mut left = bytes;
        while !left.is_empty() {
            let room = session.room();
            let take = left.len().min(piece).min(room.len());
            room[..take].copy_from_slice(&left[..take]);
            session.received(take);
            left = &left[take..];
            while let Some(record) = session.next_record().unwrap() {
                records.push(record.bytes.to_vec());
            }
        }
        records
    }

    #[test]
    fn records_come_out_whole_however_the_bytes_are_cut() {
        let bodies: Vec<Vec<u8>> = [40usize, 4, 70_000, 0, 1 << 20, 44].iter().map(|&n| vec![n as u8; n]).collect();
        let stream: Vec<u8> = bodies.iter().flat_map(|body| record(body)).collect();
        for piece in [1 << 20, 65_536, 8191, 997] {
            assert_eq!(feed(&mut Session::default(), &stream, piece), bodies, "pieces of {piece}");
        }
    }

    #[test]
    fn a_full_socket_makes_the_buffer_grow_and_quiet_turns_are_counted() {
        let mut session = Session::default();
        let stream: Vec<u8> = (0..200).flat_map(|_| record(&[7; 8300])).collect();
        feed(&mut session, &stream, usize::MAX);
        assert_eq!(session.size(), RECEIVE_BYTES_BUSY);
        for _ in 0..64 {
            feed(&mut session, &record(&[1; 100]), usize::MAX);
        }
        assert!(session.small_turns() >= 64 && session.holds_spare());
        session.shrink();
        assert_eq!((session.size(), session.small_turns()), (RECEIVE_BYTES_START, 0));
    }

    #[test]
    fn a_record_over_the_limit_is_refused_before_its_buffer_is_made() {
        let mut session = Session::default();
        let room = session.room();
        room[..4].copy_from_slice(&0xffff_ffffu32.to_be_bytes());
        session.received(4);
        assert!(session.next_record().is_err());
        assert_eq!(session.buffer.len(), RECEIVE_BYTES_START);
    }

    #[test]
    fn more_tells_whether_bytes_wait_behind_a_record() {
        let mut session = Session::default();
        let two = [record(&[1; 8]), record(&[2; 8])].concat();
        session.room()[..two.len()].copy_from_slice(&two);
        session.received(two.len());
        assert!(session.next_record().unwrap().unwrap().more);
        assert!(!session.next_record().unwrap().unwrap().more);
    }
}
