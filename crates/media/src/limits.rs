//! Bounds of the model, each with its reason.

/// Most spindles of a medium. The largest array of the reports has 104; a state of so many is 80 KiB.
pub const SPINDLES_MAX: usize = 4096;
/// Files distinguished when a flush waits for what is still on its way to the medium; files that share a place wait for each
/// other, which delays and never loses. A database of a few hundred relations fits.
pub const FILES_MAX: usize = 1024;
/// Longest text of a medium, in bytes: all keys twice over.
pub const SPEC_BYTES_MAX: usize = 1024;
/// Furthest a queue may reach into the future, in nanoseconds (60 s): whatever a state holds, by a spoilt file or a
/// clock that began again, no operation waits for longer because of it.
pub const BACKLOG_NS_MAX: u64 = 60_000_000_000;
/// Longest time a key may name, in milliseconds.
pub const TIME_MS_MAX: f64 = 10_000.0;
/// Bytes of a change of names or attributes, as it is logged before the answer: a block of a journal.
pub const RECORD_BYTES: u64 = 4096;

const _: () = assert!(BACKLOG_NS_MAX as f64 >= TIME_MS_MAX * 1e6);
const _: () = assert!(FILES_MAX.is_power_of_two());
