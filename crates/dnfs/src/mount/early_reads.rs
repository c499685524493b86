//! READs sent ahead of the program, and their data: one table for a mount in a process.

use std::collections::VecDeque;
use std::ops::Range;

use nfs_proto::xdr::{Reader, Writer};

use super::FileRef;
use super::io::Changes;
use crate::file::FileHandle;
use crate::io_codec::{IoCodec, ReadData, check_count};
use crate::limits::{EARLY_AGE_MS, EARLY_LARGE_BYTES, EARLY_LARGE_COUNT, EARLY_SMALL_BYTES, EARLY_SMALL_COUNT, UNRESPONSIVE_MS};
use crate::rpc::calls::{Calls, ReadHead};
use crate::rpc::fault::Fault;
use crate::rpc::io_slices::ReceiveList;
use crate::sys::region::Region;

const COUNT: usize = EARLY_SMALL_COUNT + EARLY_LARGE_COUNT;
const SMALL_BYTES: usize = EARLY_SMALL_COUNT * EARLY_SMALL_BYTES;
const MEMORY_BYTES: usize = SMALL_BYTES + EARLY_LARGE_COUNT * EARLY_LARGE_BYTES;

/// The reader of a READ, and the state of the file for which its data is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The reader: an open of a descriptor.
    pub(super) reader: u64,
    pub(super) file: FileRef,
    pub(super) changes: Changes,
    pub(super) loss_epoch: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Sent, or queued.
    Flying,
    /// As `Flying`, but no reader needs it any more.
    Unwanted,
    Here,
}

/// A READ and its place in memory.
#[derive(Clone, Copy, Debug)]
struct Early {
    state: State,
    key: Key,
    handle: Option<FileHandle>,
    offset: u64,
    asked: usize,
    count: usize, // bytes received
    eof: bool,
    given: usize, // bytes of `count` that the program has read
    sent_ns: u64,
}

/// What the table has at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    /// The table has nothing.
    Nothing,
    /// A READ without a reply yet, sent at this time.
    Flying { sent_ns: u64 },
    /// All requested bytes, or all up to the end of the file.
    All,
}

/// The table.
#[derive(Debug)]
pub(super) struct EarlyReads {
    codec: &'static IoCodec,
    reads: Box<[Early]>,
    memory: Option<Region>,
    unsent: VecDeque<usize>, // has its capacity from the start
    last: usize,             // the READ whose data was last given
    /// Sizes of the replies received since they were last counted.
    pub(super) answered: Vec<usize>,
}

impl EarlyReads {
    pub(super) fn new(codec: &'static IoCodec) -> Self {
        let key = Key { reader: 0, file: FileRef { slot: 0, generation: 0 }, changes: Changes::default(), loss_epoch: 0 };
        let free =
            Early { state: State::Free, key, handle: None, offset: 0, asked: 0, count: 0, eof: false, given: 0, sent_ns: 0 };
        Self {
            codec,
            reads: vec![free; COUNT].into_boxed_slice(),
            memory: None,
            unsent: VecDeque::with_capacity(COUNT),
            last: 0,
            answered: Vec::with_capacity(COUNT),
        }
    }

    /// Maximum number of calls in flight.
    pub(super) const DEPTH: usize = COUNT;

    /// Maps the table's memory. Returns false if that failed.
    pub(super) fn map(&mut self) -> bool {
        if self.memory.is_none() {
            self.memory = Region::map(MEMORY_BYTES).ok();
        }
        self.memory.is_some()
    }

    /// Whether READs are waiting to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Number of READs that are not free.
    pub(super) fn in_use(&self) -> usize {
        self.reads.iter().filter(|read| read.state != State::Free).count()
    }

    /// Whether a READ in flight is no longer needed, so that its reply is only received and discarded.
    pub(super) fn has_unwanted(&self, now_ns: u64) -> bool {
        self.reads.iter().any(|read| read.state == State::Unwanted || read.state == State::Flying && read.is_old(now_ns))
    }

    /// Whether a READ in flight is so old that the server probably will not answer it.
    pub(super) fn has_unanswered(&self, now_ns: u64) -> bool {
        let is_unanswered = |read: &Early| now_ns >= read.sent_ns + UNRESPONSIVE_MS * 1_000_000;
        self.reads.iter().any(|read| matches!(read.state, State::Flying | State::Unwanted) && is_unanswered(read))
    }

    /// End of the bytes from an offset on that are received or requested; the offset itself if there are no such bytes.
    pub(super) fn end_of(&self, key: &Key, mut offset: u64, now_ns: u64) -> u64 {
        while let Some(read) = self.reads.iter().find(|read| read.is_for(key, now_ns) && read.range().contains(&offset)) {
            offset = read.range().end;
        }
        offset
    }

    /// Adds a READ of up to `bytes` bytes and returns how many it requests. `None` if the table has no free place.
    pub(super) fn add(
        &mut self,
        key: Key,
        handle: FileHandle,
        offset: u64,
        bytes: usize,
        (is_large, bytes_max): (bool, usize),
        now_ns: u64,
    ) -> Option<usize> {
        let (places, place_bytes) =
            if is_large { (EARLY_SMALL_COUNT..COUNT, EARLY_LARGE_BYTES) } else { (0..EARLY_SMALL_COUNT, EARLY_SMALL_BYTES) };
        let place = places.into_iter().find(|place| self.reads.get(*place).is_some_and(|read| read.is_over(&key, now_ns)))?;
        let asked = bytes.min(place_bytes).min(bytes_max);
        let handle = Some(handle);
        self.reads[place] =
            Early { state: State::Flying, key, handle, offset, asked, count: 0, eof: false, given: 0, sent_ns: now_ns };
        self.unsent.push_back(place);
        Some(asked)
    }

    /// What the table has of the `bytes` bytes from `offset` on.
    pub(super) fn there(&self, key: &Key, offset: u64, bytes: usize, now_ns: u64) -> There {
        let (mut at, end) = (offset, offset + bytes as u64);
        while at < end {
            let Some(read) = self.at(key, at, now_ns) else { return There::Nothing };
            if read.state == State::Flying {
                return There::Flying { sent_ns: read.sent_ns };
            }
            at = read.offset + read.count as u64;
            if read.eof {
                break;
            }
        }
        There::All
    }

    /// Copies received bytes to a buffer and returns how many. Frees READs of which all bytes were read.
    pub(super) fn give(&mut self, key: &Key, offset: u64, mut to: &mut [u8], now_ns: u64) -> usize {
        let wanted = to.len();
        let mut at = offset;
        while !to.is_empty() {
            let Some(place) = self.place_at(key, at, now_ns) else { break };
            let memory = self.memory.as_deref().unwrap_or_default();
            let Some(read) = self.reads.get_mut(place).filter(|read| read.state == State::Here) else { break };
            let from = (at - read.offset) as usize;
            let count = to.len().min(read.count - from);
            let start = start_of(place) + from;
            let (now, rest) = to.split_at_mut(count);
            now.copy_from_slice(&memory[start..start + count]);
            (to, at) = (rest, at + count as u64);
            read.given += count;
            if read.given >= read.count {
                read.state = State::Free;
            }
            self.last = place;
        }
        wanted - to.len()
    }

    /// Discards READs that begin in a range of a file.
    pub(super) fn forget(&mut self, file: FileRef, reader: Option<u64>, range: &Range<u64>) {
        let is_it = |read: &&mut Early| {
            read.key.file == file && reader.is_none_or(|reader| reader == read.key.reader) && range.contains(&read.offset)
        };
        self.reads.iter_mut().filter(is_it).for_each(Early::drop);
    }

    /// Frees received READs that are too old.
    pub(super) fn free_old(&mut self, now_ns: u64) {
        self.reads.iter_mut().filter(|read| read.state == State::Here && read.is_old(now_ns)).for_each(Early::drop);
    }

    /// Discards all READs in flight: no reply will arrive.
    pub(super) fn broken(&mut self) {
        self.unsent.clear();
        let flying = |read: &&mut Early| matches!(read.state, State::Flying | State::Unwanted);
        self.reads.iter_mut().filter(flying).for_each(|read| read.state = State::Free);
    }

    /// Discards everything.
    pub(super) fn clear(&mut self) {
        self.broken();
        self.reads.iter_mut().for_each(|read| read.state = State::Free);
    }

    fn at(&self, key: &Key, offset: u64, now_ns: u64) -> Option<&Early> {
        self.place_at(key, offset, now_ns).and_then(|place| self.reads.get(place))
    }

    fn place_at(&self, key: &Key, offset: u64, now_ns: u64) -> Option<usize> {
        let holds = |read: &Early| read.is_for(key, now_ns) && read.range().contains(&offset);
        if self.reads.get(self.last).is_some_and(holds) {
            return Some(self.last);
        }
        self.reads.iter().position(holds)
    }

    fn target(&mut self, call: usize, part: Range<usize>) -> Option<&mut [u8]> {
        let start = start_of(call);
        self.memory.as_deref_mut()?.get_mut(start + part.start..start + part.end)
    }

    fn came(&mut self, call: usize, count: usize, eof: bool) {
        self.answered.push(count);
        if let Some(read) = self.reads.get_mut(call) {
            (read.count, read.eof) = (count, eof);
            read.state = if read.state == State::Flying && count > 0 { State::Here } else { State::Free };
        }
    }
}

impl Early {
    fn is_old(&self, now_ns: u64) -> bool {
        now_ns >= self.sent_ns + EARLY_AGE_MS * 1_000_000
    }

    /// Whether this READ may be used for a read with this key.
    fn is_for(&self, key: &Key, now_ns: u64) -> bool {
        matches!(self.state, State::Flying | State::Here) && self.key == *key && !self.is_old(now_ns)
    }

    /// Whether the place of this READ may be reused for the reader of this key.
    fn is_over(&self, key: &Key, now_ns: u64) -> bool {
        let is_void = self.key.file == key.file && self.key.reader == key.reader && self.key != *key;
        self.state == State::Free || self.state == State::Here && (self.is_old(now_ns) || is_void)
    }

    /// The range in the file: as received, or as requested before the reply.
    const fn range(&self) -> Range<u64> {
        let bytes = if matches!(self.state, State::Here) { self.count } else { self.asked };
        self.offset..self.offset + bytes as u64
    }

    fn drop(&mut self) {
        self.state = match self.state {
            State::Flying | State::Unwanted => State::Unwanted,
            State::Free | State::Here => State::Free,
        };
    }
}

/// Where the memory of a READ begins.
const fn start_of(place: usize) -> usize {
    if place < EARLY_SMALL_COUNT {
        place * EARLY_SMALL_BYTES
    } else {
        SMALL_BYTES + (place - EARLY_SMALL_COUNT) * EARLY_LARGE_BYTES
    }
}

impl Calls for EarlyReads {
    fn read_head_bytes(&self) -> usize {
        self.codec.read_head_bytes
    }

    fn next_call(&mut self, _in_flight: usize) -> Option<usize> {
        self.unsent.pop_front()
    }

    fn procedure(&self) -> u32 {
        self.codec.read
    }

    fn encode(&self, call: usize, out: &mut Writer<'_>) {
        let Some(Early { handle: Some(file), offset, asked, .. }) = self.reads.get(call) else { return };
        (self.codec.encode_read)(file, *offset, *asked as u32, out);
    }

    fn target_bytes(&self, call: usize) -> usize {
        self.reads.get(call).map_or(0, |read| read.asked)
    }

    fn target_segments(&self) -> usize {
        1
    }

    fn push_target<'a, const N: usize>(&'a mut self, call: usize, part: Range<usize>, list: &mut ReceiveList<'a, N>) -> bool {
        self.target(call, part).is_none_or(|bytes| list.push(bytes))
    }

    fn copy_target(&self, call: usize, to: &mut [u8]) {
        let start = start_of(call);
        if let Some(from) = self.memory.as_deref().and_then(|memory| memory.get(start..start + to.len())) {
            to.copy_from_slice(from);
        }
    }

    fn read_head(&self, bytes: &[u8], data_bytes_max: usize) -> Option<ReadHead> {
        (self.codec.read_head)(bytes, data_bytes_max)
    }

    fn received(&mut self, call: usize, head: &ReadHead) {
        self.came(call, head.data_bytes, head.eof);
    }

    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault> {
        match (self.codec.decode_read)(results)? {
            Ok(ReadData { data, eof }) => {
                check_count(data.len(), self.target_bytes(call))?;
                if let Some(to) = self.target(call, 0..data.len()) {
                    to.copy_from_slice(data);
                }
                self.came(call, data.len(), eof);
            }
            Err(_) => self.came(call, 0, false), // the reader gets the error from its own call
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn key(reader: u64, loss_epoch: u32) -> Key {
        Key { reader, file: FileRef { slot: 1, generation: 1 }, changes: Changes::default(), loss_epoch }
    }

    fn table() -> EarlyReads {
        let mut reads = EarlyReads::new(crate::nfs3::io_codec());
        assert!(reads.map());
        reads
    }

    /// Adds a READ of this size and returns its place.
    fn add(reads: &mut EarlyReads, key: Key, offset: u64, bytes: usize) -> Option<usize> {
        let file = FileHandle::new(&[1; 8]).unwrap();
        assert!(reads.add(key, file, offset, bytes, (false, 1 << 20), 0)? <= bytes);
        reads.next_call(0)
    }

    fn arrive(reads: &mut EarlyReads, place: usize, count: usize, byte: u8, eof: bool) {
        reads.target(place, 0..count).unwrap().fill(byte);
        reads.came(place, count, eof);
    }

    #[test]
    fn bytes_of_reads_side_by_side_are_given_together_and_their_places_are_free_again() {
        let mut reads = table();
        let (one, two) = (add(&mut reads, key(1, 0), 0, 100).unwrap(), add(&mut reads, key(1, 0), 100, 100).unwrap());
        assert_eq!(reads.there(&key(1, 0), 50, 100, 0), There::Flying { sent_ns: 0 });
        arrive(&mut reads, two, 100, 2, false);
        assert_eq!(reads.there(&key(1, 0), 50, 100, 0), There::Flying { sent_ns: 0 });
        arrive(&mut reads, one, 100, 1, false);
        assert_eq!(reads.there(&key(1, 0), 0, 200, 0), There::All);
        assert_eq!(reads.there(&key(1, 0), 150, 100, 0), There::Nothing, "50 bytes are not");
        let mut to = [0; 200];
        assert_eq!(reads.give(&key(1, 0), 0, &mut to, 0), 200);
        assert!(to[..100] == [1; 100] && to[100..] == [2; 100]);
        assert_eq!(reads.in_use(), 0);
    }

    #[test]
    fn at_the_end_of_a_file_fewer_bytes_are_all() {
        let mut reads = table();
        let place = add(&mut reads, key(1, 0), 0, 100).unwrap();
        arrive(&mut reads, place, 30, 1, true);
        assert_eq!(reads.there(&key(1, 0), 10, 100, 0), There::All);
        assert_eq!(reads.give(&key(1, 0), 10, &mut [0; 100], 0), 20);
        let place = add(&mut reads, key(1, 0), 200, 100).unwrap();
        arrive(&mut reads, place, 30, 1, false);
        assert_eq!(reads.there(&key(1, 0), 200, 100, 0), There::Nothing, "a short answer that is not the end");
    }

    #[test]
    fn nothing_is_given_to_another_reader_nor_after_a_change_nor_after_a_second() {
        let mut reads = table();
        let place = add(&mut reads, key(1, 0), 0, 100).unwrap();
        arrive(&mut reads, place, 100, 1, false);
        assert_eq!(reads.there(&key(1, 0), 0, 100, SECOND_NS - 1), There::All);
        assert_eq!(reads.there(&key(1, 0), 0, 100, SECOND_NS), There::Nothing);
        for other in [key(2, 0), key(1, 1)] {
            assert_eq!(reads.there(&other, 0, 100, 0), There::Nothing);
        }
        reads.free_old(SECOND_NS);
        assert_eq!(reads.in_use(), 0);
    }

    #[test]
    fn a_full_table_takes_no_more_and_one_that_is_forgotten_in_flight_keeps_its_place_until_its_reply() {
        let mut reads = table();
        let places: Vec<_> = (0..EARLY_SMALL_COUNT as u64).map(|n| add(&mut reads, key(1, 0), n * 100, 100).unwrap()).collect();
        assert_eq!(add(&mut reads, key(1, 0), 1 << 30, 100), None);
        reads.forget(key(1, 0).file, None, &(0..150));
        assert!(reads.has_unwanted(0));
        assert_eq!(add(&mut reads, key(1, 0), 1 << 30, 100), None);
        arrive(&mut reads, places[0], 100, 1, false);
        assert_eq!(reads.there(&key(1, 0), 0, 100, 0), There::Nothing);
        assert_eq!(add(&mut reads, key(1, 0), 1 << 30, 100), Some(places[0]));
        reads.broken();
        assert_eq!(reads.in_use(), 0);
    }

    #[test]
    fn a_read_in_flight_for_5_s_is_unanswered() {
        let mut reads = table();
        let place = add(&mut reads, key(1, 0), 0, 100).unwrap();
        assert!(!reads.has_unanswered(5 * SECOND_NS - 1) && reads.has_unanswered(5 * SECOND_NS));
        reads.forget(key(1, 0).file, None, &(0..1));
        assert!(reads.has_unanswered(5 * SECOND_NS), "though nobody wants it");
        arrive(&mut reads, place, 100, 1, false);
        assert!(!reads.has_unanswered(5 * SECOND_NS));
    }
}
