//! Limits of the model, each with its reason.

/// The largest number of spindles of a medium. The largest profile has 160. The state of a medium
/// with 4,096 spindles has 72 KiB.
pub const SPINDLES_MAX: usize = 4096;
/// Words for files, with which a flush waits for earlier writes to its file. Files that share a word also wait for each other's
/// writes. This is enough for a database of a few hundred relations.
pub const FILES_MAX: usize = 1024;
/// Longest text of a medium, in bytes: enough for all keys twice.
pub const SPEC_BYTES_MAX: usize = 1024;
/// Longest queue, in nanoseconds (60 s). Even if a state is damaged, or the clock has restarted, no operation waits longer
/// for its queue.
pub const BACKLOG_NS_MAX: u64 = 60_000_000_000;
/// Longest time that a key can set, in milliseconds.
pub const TIME_MS_MAX: f64 = 10_000.0;
/// Bytes that a change of names or attributes writes to the log: a block of a journal.
pub const RECORD_BYTES: u64 = 4096;

const _: () = assert!(BACKLOG_NS_MAX as f64 >= TIME_MS_MAX * 1e6);
const _: () = assert!(FILES_MAX.is_power_of_two());
