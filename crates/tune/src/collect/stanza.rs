//! Stanzas of AIX: `name:` without indentation, then indented lines `key = value`.

use super::text::{lines, odd, pair};
use crate::facts::Facts;

/// One stanza.
pub(super) struct Stanza {
    /// Its name.
    pub(super) name: String,
    /// The line of its name.
    pub(super) line: usize,
    /// Keys and values in order.
    pub(super) values: Vec<(String, String)>,
}

/// Reads all stanzas. A line outside of a stanza is remarked.
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
            // AIX itself writes a key without a value.
            (None, Some(_)) if trimmed.ends_with('=') => {}
            _ => odd(facts, origin, number, line),
        }
    }
    stanzas
}
