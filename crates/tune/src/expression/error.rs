//! Why a text is not an expression.

/// The error for a text that is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {what}")]
pub struct ParseError {
    /// The position of the error in characters, counted from 1.
    pub at: usize,
    /// What is wrong at that position.
    pub what: String,
}

impl ParseError {
    pub(super) fn new(text: &str, byte: usize, what: impl Into<String>) -> Self {
        let at = text.char_indices().take_while(|(index, _)| *index < byte).count() + 1;
        Self { at, what: what.into() }
    }
}
