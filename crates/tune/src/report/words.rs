//! Words and signs that all forms share.

use std::fmt::Write as _;

use results::audit::{Finding, Status, Verdict};

/// Place of a layer: across layers first, then from the database down; one that is not known comes last.
pub(super) fn depth(layer: &str) -> usize {
    crate::rules::LAYERS.iter().position(|known| *known == layer).unwrap_or(usize::MAX)
}

/// The word of a verdict in all forms.
#[must_use]
pub const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Finding => "finding",
        Verdict::Unknown => "not known",
        Verdict::Waived => "waived",
        Verdict::Passed => "passed",
    }
}

/// What is to be said of a rule's age; nothing of one that stands as its source wrote it.
pub(super) fn status(status: Status) -> Option<&'static str> {
    (status != Status::Valid).then(|| crate::describe::status(status))
}

/// What identifies a judgement from audit to audit: the rule and the thing.
#[must_use]
pub fn fingerprint(finding: &Finding) -> String {
    finding.subject.as_ref().map_or_else(|| finding.rule.clone(), |subject| format!("{}@{subject}", finding.rule))
}

/// `1 finding`, `2 findings`.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Text for a terminal: names come from captures, and what steers a terminal is written out instead.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign.is_control() || turns_text_around(sign) {
            plain.extend(sign.escape_default());
        } else {
            plain.push(sign);
        }
    }
    plain
}

/// Text for XML and HTML, between tags and in attributes. What XML 1.0 has no way to write is written out.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push('\n'),
            _ if sign.is_control() || turns_text_around(sign) || matches!(sign, '\u{fffe}' | '\u{ffff}') => {
                let _ = write!(escaped, "{}", sign.escape_default());
            }
            _ => escaped.push(sign),
        }
    }
    escaped
}

/// Signs that make a line read otherwise than it is stored.
const fn turns_text_around(sign: char) -> bool {
    matches!(sign, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out() {
        assert_eq!(plain("/u02\u{1b}[31m\r\n"), "/u02\\u{1b}[31m\\r\\n");
        assert_eq!(plain("a\u{202e}b é"), "a\\u{202e}b é");
    }

    #[test]
    fn what_xml_cannot_hold_is_written_out() {
        assert_eq!(escape("a<b & \"c\" 'd'\u{0}\u{ffff}"), "a&lt;b &amp; &quot;c&quot; &#39;d&#39;\\u{0}\\u{ffff}");
        assert_eq!(escape("one\ntwo"), "one\ntwo");
    }
}
