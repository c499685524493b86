//! Maps the placeholder of an open or working directory to the directory of the server.
//!
//! A program's descriptor of a directory refers to a placeholder: a removed directory in memory, which has no name. The process
//! that opened it remembers the server's directory. Other processes, which got the descriptor over exec or a socket, find it
//! here by the placeholder's inode number and modification time. Inode numbers of tmpfs have 32 bits and are reused; the pair
//! is not.
//!
//! There are two rings of records, one for opens and one for directories that children inherit. The oldest record of a ring is
//! overwritten. So a program that opens any number of directories takes no more memory, and overwrites nothing that a child
//! needs. The rings need no lock: a writer takes a place by counting, and a record that two processes wrote at once fails its
//! checksum.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::fence;

use super::Segment;
use super::layout::{
    DIRECTORY_COUNT, DIRECTORY_RECORD_BYTES, DirectoryRecord, DirectoryTable, INHERITED_DIRECTORY_COUNT, REMOVED_DIRECTORY_COUNT,
    load_bytes, store_bytes,
};
use super::table::hash;

/// Identifies a placeholder of a directory by what fstat(2) returns for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryPlaceholder {
    inode: u64,
    made: u64,
}

/// Why a directory is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryKept {
    /// It was opened.
    Opened,
    /// A child is about to inherit it.
    Inherited,
}

impl DirectoryPlaceholder {
    /// Takes the placeholder's inode number and modification time, which do not change after it is created.
    #[must_use]
    pub const fn new(inode: u64, seconds: i64, nanoseconds: i64) -> Self {
        Self { inode, made: (seconds as u64) << 30 | nanoseconds as u64 }
    }

    /// The hash by which a part of its record is found; never 0.
    const fn key(self, part: u64) -> u64 {
        let mixed = (self.inode ^ self.made.rotate_left(32) ^ part << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if mixed == 0 { 1 } else { mixed }
    }
}

impl DirectoryKept {
    /// First place of the ring, and their number.
    const fn ring(self) -> (usize, usize) {
        match self {
            Self::Inherited => (0, INHERITED_DIRECTORY_COUNT),
            Self::Opened => (INHERITED_DIRECTORY_COUNT, DIRECTORY_COUNT - INHERITED_DIRECTORY_COUNT),
        }
    }
}

impl Segment {
    /// Stores what a placeholder represents. Does not store an inherited directory again if that was done recently.
    pub(crate) fn keep_directory(&self, placeholder: DirectoryPlaceholder, kept: DirectoryKept, bytes: &[u8]) {
        let table = self.directory_table();
        let (first, count) = kept.ring();
        if kept == DirectoryKept::Inherited && table.is_late(placeholder, kept) {
            return;
        }
        for (part, piece) in bytes.chunks(DIRECTORY_RECORD_BYTES).enumerate() {
            let number = table.written[kept as usize].fetch_add(1, Relaxed);
            let place = first + (number % count as u64) as usize;
            table.keys[place].store(0, Release);
            table.records[place].fill(placeholder, (part as u64) << 32 | bytes.len() as u64, piece);
            table.keys[place].store(placeholder.key(part as u64), Release);
        }
    }

    /// What a placeholder represents.
    pub(crate) fn kept_directory(&self, placeholder: DirectoryPlaceholder) -> Option<Vec<u8>> {
        let table = self.directory_table();
        let (mut bytes, length) = table.find(placeholder, 0)?;
        for part in 1..length.div_ceil(DIRECTORY_RECORD_BYTES) {
            let (more, _) = table.find(placeholder, part as u64).filter(|(_, total)| *total == length)?;
            bytes.extend_from_slice(&more);
        }
        bytes.truncate(length);
        (bytes.len() == length).then_some(bytes)
    }

    /// Notes that a directory of this handle was removed through this mount.
    pub(crate) fn directory_removed(&self, handle: &[u8]) {
        let table = self.directory_table();
        let number = table.removed_count.fetch_add(1, Relaxed);
        table.removed[(number % REMOVED_DIRECTORY_COUNT as u64) as usize].store(removed_hash(handle), Release);
    }

    /// Whether a directory of this handle is among those that were last removed through this mount.
    pub(crate) fn is_removed_directory(&self, handle: &[u8]) -> bool {
        let wanted = removed_hash(handle);
        self.directory_table().removed.iter().any(|removed| removed.load(Acquire) == wanted)
    }
}

fn removed_hash(handle: &[u8]) -> u64 {
    u64::from(hash(handle)) << 32 | handle.iter().fold(1u64, |sum, byte| (sum * 31 + u64::from(*byte)) % 0xffff_fffb)
}

impl DirectoryTable {
    /// The places of a ring, newest first.
    fn places(&self, kept: DirectoryKept) -> impl Iterator<Item = usize> {
        let (first, count) = kept.ring();
        let next = self.written[kept as usize].load(Acquire);
        (1..=count as u64).map(move |age| first + (next.wrapping_sub(age) % count as u64) as usize)
    }

    /// Whether a directory's record is in the newer half of its ring.
    fn is_late(&self, placeholder: DirectoryPlaceholder, kept: DirectoryKept) -> bool {
        let (_, count) = kept.ring();
        self.places(kept).take(count / 2).any(|place| self.keys[place].load(Acquire) == placeholder.key(0))
    }

    /// A part of what a placeholder represents, with zeros after its end, and the length of all parts.
    fn find(&self, placeholder: DirectoryPlaceholder, part: u64) -> Option<(Vec<u8>, usize)> {
        let key = placeholder.key(part);
        let places = self.places(DirectoryKept::Inherited).chain(self.places(DirectoryKept::Opened));
        places.filter(|place| self.keys[*place].load(Acquire) == key).find_map(|place| {
            let (found, shape, bytes) = self.records[place].read()?;
            fence(Acquire);
            let holds = self.keys[place].load(Relaxed) == key && found == placeholder && shape >> 32 == part;
            holds.then(|| (bytes.to_vec(), shape as u32 as usize))
        })
    }
}

impl DirectoryRecord {
    fn fill(&self, placeholder: DirectoryPlaceholder, shape: u64, piece: &[u8]) {
        let head = [placeholder.inode, placeholder.made, shape];
        for (word, value) in [&self.inode, &self.made, &self.shape].into_iter().zip(head) {
            word.store(value, Relaxed);
        }
        store_bytes(&self.bytes, piece);
        let mut padded = [0; DIRECTORY_RECORD_BYTES];
        padded[..piece.len()].copy_from_slice(piece);
        self.sum.store(checksum(head, &padded), Relaxed);
    }

    /// Placeholder, shape and bytes; `None` if the record is torn.
    fn read(&self) -> Option<(DirectoryPlaceholder, u64, [u8; DIRECTORY_RECORD_BYTES])> {
        let head = [&self.inode, &self.made, &self.shape].map(|word| word.load(Relaxed));
        let bytes = load_bytes::<DIRECTORY_RECORD_BYTES>(&self.bytes);
        let [inode, made, shape] = head;
        (self.sum.load(Relaxed) == checksum(head, &bytes)).then_some((DirectoryPlaceholder { inode, made }, shape, bytes))
    }
}

fn checksum(head: [u64; 3], bytes: &[u8; DIRECTORY_RECORD_BYTES]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29);
    head.into_iter().chain(words).fold(0x9e37_79b9_7f4a_7c15, mix)
}

#[cfg(test)]
mod tests {
    use super::super::tests::fresh_segment;
    use super::*;

    fn placeholder(number: u64) -> DirectoryPlaceholder {
        DirectoryPlaceholder::new(number, 1_800_000_000, 5)
    }

    #[test]
    fn a_directory_is_found_by_inode_and_time_together() {
        let (_place, segment) = fresh_segment();
        let long: Vec<u8> = (0..4_200u32).map(|at| at as u8).collect();
        segment.keep_directory(placeholder(7), DirectoryKept::Opened, &long);
        segment.keep_directory(DirectoryPlaceholder::new(7, 1_800_000_000, 6), DirectoryKept::Opened, b"later");
        assert_eq!(segment.kept_directory(placeholder(7)).unwrap(), long);
        assert_eq!(segment.kept_directory(DirectoryPlaceholder::new(7, 1_800_000_000, 6)).unwrap(), b"later");
        assert!(segment.kept_directory(placeholder(8)).is_none());
    }

    #[test]
    fn what_a_child_inherits_outlives_any_number_of_opens() {
        let (_place, segment) = fresh_segment();
        segment.keep_directory(placeholder(1), DirectoryKept::Inherited, b"archive");
        segment.keep_directory(placeholder(2), DirectoryKept::Opened, b"first");
        for number in 3..3 + 2 * DIRECTORY_COUNT as u64 {
            segment.keep_directory(placeholder(number), DirectoryKept::Opened, b"one of many");
        }
        assert_eq!(segment.kept_directory(placeholder(1)).unwrap(), b"archive");
        assert!(segment.kept_directory(placeholder(2)).is_none(), "the oldest give way");
    }

    #[test]
    fn the_same_directory_inherited_again_and_again_takes_one_place() {
        let (_place, segment) = fresh_segment();
        segment.keep_directory(placeholder(1), DirectoryKept::Inherited, b"one");
        for _ in 0..2 * DIRECTORY_COUNT {
            segment.keep_directory(placeholder(2), DirectoryKept::Inherited, b"two");
        }
        assert_eq!(segment.kept_directory(placeholder(1)).unwrap(), b"one");
    }

    #[test]
    fn a_record_that_a_writer_left_torn_is_not_believed() {
        let (_place, segment) = fresh_segment();
        segment.keep_directory(placeholder(1), DirectoryKept::Opened, b"whole");
        let (first, _) = DirectoryKept::Opened.ring();
        segment.directory_table().records[first].bytes[0].fetch_xor(1, Relaxed);
        assert!(segment.kept_directory(placeholder(1)).is_none());
    }

    #[test]
    fn a_removed_directory_is_known_for_a_while() {
        let (_place, segment) = fresh_segment();
        segment.directory_removed(b"gone");
        assert!(segment.is_removed_directory(b"gone") && !segment.is_removed_directory(b"here"));
    }
}
