//! What stands for a secret, and what one line says of the next one.

/// Takes the place of a value that was left out.
pub const REDACTED: &str = "[redacted]";

/// What the lines before say of the next line.
#[derive(Default)]
pub(super) struct State {
    /// The last line ends with a backslash: the next one continues it.
    pub(super) is_continued: bool,
    /// The last value was left out: what continues it goes too.
    pub(super) goes: bool,
}
