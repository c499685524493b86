//! Stanzas of AIX: `name:` at the margin, then indented `key = value`.

use super::text::{lines, odd, pair};
use crate::facts::Facts;

/// One stanza.
pub(super) struct Stanza {
    /// Its name.
    pub(super) name: String,
    /// Line of the name.
    pub(super) line: usize,
    /// Keys and values in order.
    pub(super) values: Vec<(String, String)>,
}

/// Reads all stanzas; lines outside of any are remarked.
pub(super) fn read(text: &str, comments: &[char], origin: &str, facts: &mut Facts) -> Vec<Stanza> {
    let mut stanzas: Vec<Stanza> = Vec::new();
    for (number, line) in lines(text) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(comments) {
            continue;
        }
        if let Some(name) = trimmed.strip_suffix(':').filter(|name| !name.contains('=')) {
            stanzas.push(Stanza { name: name.trim().to_owned(), line: number, values: Vec::new() });
            continue;
        }
        match (pair(trimmed, '='), stanzas.last_mut()) {
            (Some((key, value)), Some(stanza)) => stanza.values.push((key.to_owned(), value.to_owned())),
            // A key without a value is what AIX itself writes for an empty one.
            (None, Some(_)) if trimmed.ends_with('=') => {}
            _ => odd(facts, origin, number, line),
        }
    }
    stanzas
}
