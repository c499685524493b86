//! How a file is called among the processes of a segment.

/// A file known to the segment, open or not: a slot and which use of it. Plain numbers, meaningful to every process that
/// attached the same segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileRef {
    /// Index of the slot.
    pub slot: u32,
    /// Use of the slot; odd.
    pub generation: u32,
}
