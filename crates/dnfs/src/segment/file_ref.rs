//! Identifies a file among the processes of a segment.

/// A file known to the segment, open or not: a slot and which use of it. Plain numbers, meaningful to every process that
/// attached the same segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileRef {
    /// Index of the slot.
    pub slot: u32,
    /// Use of the slot; odd.
    pub generation: u32,
}

impl FileRef {
    /// The file as one word, never 0.
    pub(crate) const fn word(self) -> u64 {
        (self.slot as u64) << 32 | self.generation as u64
    }

    /// The file of a word.
    pub(crate) const fn of_word(word: u64) -> Self {
        Self { slot: (word >> 32) as u32, generation: word as u32 }
    }
}
