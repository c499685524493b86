//! The placeholder for a secret, and what a line says about the next one.

/// The placeholder for a removed value.
pub const REDACTED: &str = "[redacted]";

/// What the lines so far say about the next line.
#[derive(Default)]
pub(super) struct State {
    /// The last line ends with a backslash, so the next line continues it.
    pub(super) is_continued: bool,
    /// The last value was removed, so a line that continues it is removed too.
    pub(super) goes: bool,
}
