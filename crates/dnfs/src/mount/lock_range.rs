//! Ranges of a file that are locked, and conflicts between locks.

/// How a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared: F_RDLCK.
    Shared,
    /// Exclusive: F_WRLCK.
    Exclusive,
}

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// Its first byte.
    pub start: i64,
    /// Length in bytes; 0: to the end of the file, also when it grows.
    pub length: i64,
}

/// A lock of another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockConflict {
    /// How it is locked.
    pub kind: LockKind,
    /// What is locked.
    pub range: LockRange,
    /// The process; 0 if it is not known, or the lock belongs to an open file description.
    pub pid: u32,
}
