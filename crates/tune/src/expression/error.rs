//! Why a text is no expression.

/// Text that is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {what}")]
pub struct ParseError {
    /// The character at which it ends to be one, from 1.
    pub at: usize,
    /// What is wrong there.
    pub what: String,
}

impl ParseError {
    pub(super) fn new(text: &str, byte: usize, what: impl Into<String>) -> Self {
        let at = text.char_indices().take_while(|(index, _)| *index < byte).count() + 1;
        Self { at, what: what.into() }
    }
}
