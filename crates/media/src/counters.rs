//! The counters of the model. The filer reads them from its state, and the laboratory from the file that the
//! processes of a local medium share.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::mix;

/// First word of every state, which identifies its layout.
pub(crate) const LAYOUT: u64 = u64::from_le_bytes(*b"mrmedia1");

/// The index of each word in the head of a state.
pub(crate) mod at {
    pub(crate) const LAYOUT: usize = 0;
    pub(crate) const DRAWS: usize = 1;
    pub(crate) const READS: usize = 2;
    pub(crate) const WRITES: usize = 3;
    pub(crate) const FLUSHES: usize = 4;
    pub(crate) const CACHE_HITS: usize = 5;
    pub(crate) const BUSY_NS: usize = 6;
    pub(crate) const WAITING_MAX: usize = 7;
    pub(crate) const QUEUED_NS: usize = 8;
    pub(crate) const READ_NS: usize = 9;
    pub(crate) const WRITE_NS: usize = 10;
    pub(crate) const FLUSH_NS: usize = 11;
    pub(crate) const NVRAM_FULL: usize = 12;
    pub(crate) const NVRAM_EMPTY_AT: usize = 13;
    /// The words of files and spindles begin here, at a multiple of a cache line.
    pub(crate) const BODY: usize = 16;
}

/// Counters since a state began. All are totals, except `waiting_max`, which is a maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes, both stable ones and those acknowledged earlier.
    pub writes: u64,
    /// Flushes and changes of names or attributes.
    pub flushes: u64,
    /// Those of the reads that the medium's cache served.
    pub cache_hits: u64,
    /// Time that spindles were busy, summed over all spindles, in nanoseconds.
    pub busy_ns: u64,
    /// Largest number of operations that an operation found in the queue of its spindle: its wait
    /// divided by the mean time of one.
    pub waiting_max: u64,
    /// Time that operations waited for their spindle, in nanoseconds.
    pub queued_ns: u64,
    /// Sum of the times of reads, in nanoseconds.
    pub read_ns: u64,
    /// Sum of the times until writes were acknowledged, in nanoseconds.
    pub write_ns: u64,
    /// Sum of the times of flushes and of changes of names or attributes, in nanoseconds.
    pub flush_ns: u64,
    /// Writes that waited because the NVRAM was full.
    pub nvram_full: u64,
}

impl Counters {
    /// The counters of a state. Words that it lacks count as zero.
    #[must_use]
    pub fn of(state: &[AtomicU64]) -> Self {
        Self::by_word(|index| state.get(index).map_or(0, |word| word.load(Ordering::Relaxed)))
    }

    /// The counters of a state in a file, whose words are in the host's byte order. `None` if it is not a state.
    #[must_use]
    pub fn of_bytes(state: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let bytes = state.get(index * 8..index * 8 + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        (word(at::LAYOUT) == LAYOUT).then(|| Self::by_word(word))
    }

    fn by_word(word: impl Fn(usize) -> u64) -> Self {
        Self {
            reads: word(at::READS),
            writes: word(at::WRITES),
            flushes: word(at::FLUSHES),
            cache_hits: word(at::CACHE_HITS),
            busy_ns: word(at::BUSY_NS),
            waiting_max: word(at::WAITING_MAX),
            queued_ns: word(at::QUEUED_NS),
            read_ns: word(at::READ_NS),
            write_ns: word(at::WRITE_NS),
            flush_ns: word(at::FLUSH_NS),
            nvram_full: word(at::NVRAM_FULL),
        }
    }
}

/// The name of the file with which processes share the state of a directory's medium. It depends on the bytes of the
/// directory, which has no slash at its end, and on the text of the medium.
#[must_use]
pub fn state_file_name(directory: &[u8], medium: &str) -> String {
    let hash = |bytes: &[u8]| bytes.iter().fold(LAYOUT, |hash, byte| mix(hash ^ u64::from(*byte)));
    format!("medium-{:016x}-{:016x}", hash(directory), hash(medium.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_in_a_file_has_the_same_counters_and_another_file_has_none() {
        let words: Vec<u64> = [LAYOUT].into_iter().chain(1..20).collect();
        let state: Vec<AtomicU64> = words.iter().map(|word| AtomicU64::new(*word)).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let counters = Counters::of_bytes(&bytes).unwrap();
        assert_eq!(counters, Counters::of(&state));
        assert_eq!((counters.reads, counters.busy_ns, counters.nvram_full), (2, 6, 12));
        assert_eq!(Counters::of_bytes(&bytes[8..]), None);
        assert_eq!(Counters::of_bytes(b""), None);
    }

    #[test]
    fn file_names_differ_by_directory_and_by_medium() {
        let names = [state_file_name(b"/a", "sata"), state_file_name(b"/b", "sata"), state_file_name(b"/a", "nvme")];
        assert!(names[0] != names[1] && names[0] != names[2] && names[1] != names[2]);
        assert_eq!(names[0], state_file_name(b"/a", "sata"));
    }
}
