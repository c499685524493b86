//! Words and escapes that all forms share.

use host::escape::{markup, plain};
use results::audit::{Finding, Status, Verdict};

/// The position of a layer: across layers first, then from the database down. An unknown layer
/// comes last.
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

/// The status of a rule in words; `None` for a valid one.
pub(super) fn status(status: Status) -> Option<&'static str> {
    (status != Status::Valid).then(|| crate::describe::status(status))
}

/// The identity of a judgement in each audit: the rule and its subject.
#[must_use]
pub fn fingerprint(finding: &Finding) -> String {
    finding.subject.as_ref().map_or_else(|| finding.rule.clone(), |subject| format!("{}@{subject}", finding.rule))
}

/// A number with its noun: `1 finding`, `2 findings`.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Text for XML and HTML, between tags and in attributes. Characters that XML 1.0 cannot represent
/// are written as escapes.
pub(super) fn escape(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(plain).collect();
    markup(&lines.join("\n")).replace('\u{fffe}', r"\u{fffe}").replace('\u{ffff}', r"\u{ffff}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_written_out() {
        assert_eq!(escape("a<b & \"c\" 'd'\u{0}\u{ffff}"), "a&lt;b &amp; &quot;c&quot; &#39;d&#39;\\u{0}\\u{ffff}");
        assert_eq!(escape("one\ntwo"), "one\ntwo");
    }
}
