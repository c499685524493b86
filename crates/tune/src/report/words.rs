//! Words and signs that all forms share.

use std::fmt::Write as _;

use results::audit::{Activation, Finding, Severity, Status, Verdict};

/// Layers from the database down to the disk, then what spans them.
const LAYERS: [&str; 13] = [
    "db",
    "fs-cache",
    "os-kernel",
    "nfs-mount",
    "rpc",
    "tcp",
    "ethernet",
    "iscsi",
    "fc",
    "multipath",
    "volume-manager",
    "storage",
    "cross-layer",
];

/// Place of a layer on the way down; one that is not known comes last.
pub(super) fn depth(layer: &str) -> usize {
    LAYERS.iter().position(|known| *known == layer).unwrap_or(LAYERS.len())
}

/// The word of a severity in all forms.
#[must_use]
pub const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Low => "low",
        Severity::Medium => "medium",
        Severity::High => "high",
        Severity::Critical => "critical",
    }
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
pub(super) const fn status(status: Status) -> Option<&'static str> {
    match status {
        Status::Valid => None,
        Status::ValueChanged => Some("holds today with another value than the old source gives"),
        Status::Superseded => Some("another rule stands in the place of the old one"),
        Status::Reversed => Some("asks for today's side; the old advice was the opposite"),
        Status::Contested => Some("contested: sources of today contradict each other"),
        Status::Obsolete => Some("the platform is gone; holds where it still runs"),
        Status::Dated => Some("holds for the versions it names"),
    }
}

/// What a change takes.
pub(super) const fn activation(activation: Activation) -> &'static str {
    match activation {
        Activation::Live => "in force at once",
        Activation::Reload => "the database reads its settings again",
        Activation::DbRestart => "a restart of the database",
        Activation::Remount => "unmounting and mounting again",
        Activation::NicRestart => "the network interface down and up",
        Activation::Reboot => "a reboot",
    }
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
