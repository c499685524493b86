//! The difference between two audits: findings that are new, gone or changed.
//!
//! A finding whose facts are missing in the second audit is changed and not gone, because nothing
//! shows that it was fixed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use host::escape::plain;
use results::audit::{Audit, Finding, Severity, Verdict};
use serde::Serialize;

use crate::report::{fingerprint, severity, verdict};

/// Version of the JSON format.
const SCHEMA: u32 = 1;

/// An audit, as a difference names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The host.
    pub host: String,
    /// When its facts were taken.
    pub taken: String,
    /// The version of the program.
    pub program: String,
}

/// A finding of only one audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct One {
    /// Rule and subject, `RULE@SUBJECT`.
    pub name: String,
    /// The title of the rule.
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub found: Vec<String>,
}

/// The result of a judgement in one audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, or which facts are missing.
    pub found: Vec<String>,
}

/// A judgement that is a finding in at least one audit and has another result in the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Rule and subject, `RULE@SUBJECT`.
    pub name: String,
    /// The title after the change.
    pub title: String,
    /// The result in the first audit.
    pub before: Outcome,
    /// The result in the second audit.
    pub after: Outcome,
}

/// The difference between two audits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The version of the JSON format.
    pub schema: u32,
    /// The first audit.
    pub before: Side,
    /// The second audit.
    pub after: Side,
    /// Findings that only the second audit has, the worst first.
    pub new: Vec<One>,
    /// Findings that only the first audit has: the rule now holds or no longer applies.
    pub gone: Vec<One>,
    /// Judgements whose result changed.
    pub changed: Vec<Change>,
    /// Number of findings that are the same in both.
    pub same: usize,
}

impl Difference {
    /// Whether a finding counts now that did not count before: a new one, a worse one, or one whose
    /// waiver ended.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        let counts = |severity: Severity| severity > Severity::Info;
        self.new.iter().any(|one| counts(one.severity))
            || self.changed.iter().any(|change| {
                change.after.verdict == Verdict::Finding
                    && counts(change.after.severity)
                    && (change.before.verdict != Verdict::Finding || change.before.severity < change.after.severity)
            })
    }
}

/// Compares two audits.
#[must_use]
pub fn difference(before: &Audit, after: &Audit) -> Difference {
    let (old, new) = (by_name(before), by_name(after));
    let mut difference = Difference {
        schema: SCHEMA,
        before: side(before),
        after: side(after),
        new: Vec::new(),
        gone: Vec::new(),
        changed: Vec::new(),
        same: 0,
    };
    for (name, then) in &new {
        match old.get(name) {
            None if then.verdict == Verdict::Finding => difference.new.push(one(name, then)),
            // Passed judgements are stored only on request, so they count like missing ones.
            Some(first) if first.verdict == Verdict::Passed && then.verdict == Verdict::Finding => {
                difference.new.push(one(name, then));
            }
            Some(first) if first.verdict == Verdict::Finding && then.verdict == Verdict::Passed => {
                difference.gone.push(one(name, first));
            }
            Some(first) if first.verdict == Verdict::Finding || then.verdict == Verdict::Finding => {
                if outcome(first) == outcome(then) {
                    difference.same += 1;
                } else {
                    let (before, after) = (outcome(first), outcome(then));
                    difference.changed.push(Change { name: name.clone(), title: then.title.clone(), before, after });
                }
            }
            _ => {}
        }
    }
    let missing = old.iter().filter(|(name, first)| first.verdict == Verdict::Finding && !new.contains_key(*name));
    difference.gone.extend(missing.map(|(name, first)| one(name, first)));
    difference.new.sort_by_key(|one| std::cmp::Reverse(one.severity));
    difference.gone.sort_by_key(|one| std::cmp::Reverse(one.severity));
    difference.changed.sort_by_key(|change| (change.after.verdict, std::cmp::Reverse(change.after.severity)));
    difference
}

fn side(audit: &Audit) -> Side {
    Side { host: audit.host.clone(), taken: audit.taken.clone(), program: audit.program.clone() }
}

/// Judgements by name. If a name occurs twice, the first one counts, which is the worst.
fn by_name(audit: &Audit) -> BTreeMap<String, &Finding> {
    let mut by_name = BTreeMap::new();
    for finding in &audit.findings {
        by_name.entry(fingerprint(finding)).or_insert(finding);
    }
    by_name
}

fn one(name: &str, finding: &Finding) -> One {
    let Finding { title, severity, found, .. } = finding.clone();
    One { name: name.to_owned(), title, severity, found }
}

fn outcome(finding: &Finding) -> Outcome {
    let found = if finding.verdict == Verdict::Unknown {
        finding.missing.iter().map(|missing| format!("{missing} is missing")).collect()
    } else {
        finding.found.clone()
    };
    Outcome { verdict: finding.verdict, severity: finding.severity, found }
}

/// The difference as indented JSON with a final newline.
#[must_use]
pub fn json(difference: &Difference) -> String {
    // Serialisation cannot fail: all keys are text, and all values are text or numbers.
    serde_json::to_string_pretty(difference).unwrap_or_default() + "\n"
}

/// The difference as text for a terminal.
#[must_use]
pub fn text(difference: &Difference) -> String {
    let Difference { before, after, new, gone, changed, same, .. } = difference;
    let mut text = format!(
        "Audit of {} of {} against the one of {} of {}\n",
        plain(&after.host),
        plain(&after.taken),
        plain(&before.host),
        plain(&before.taken)
    );
    if before.host != after.host {
        text += "note: these are two hosts\n";
    }
    if before.program != after.program {
        let _ = writeln!(text, "note: judged by {} and then by {}", plain(&before.program), plain(&after.program));
    }
    for (heading, sign, findings) in [("new", '+', new), ("gone", '-', gone)] {
        if !findings.is_empty() {
            let _ = writeln!(text, "\n{heading}");
        }
        for One { name, title, severity: how_bad, found } in findings {
            let found: Vec<String> = found.iter().map(|found| plain(found)).collect();
            let _ = writeln!(text, "{sign} {:<8}  {} [{}] {}", severity(*how_bad), plain(title), plain(name), found.join("; "));
        }
    }
    if !changed.is_empty() {
        text += "\nchanged\n";
    }
    for Change { name, title, before, after } in changed {
        let _ = writeln!(text, "~ {:<8}  {} [{}]", severity(after.severity), plain(title), plain(name));
        let _ = writeln!(text, "    before: {}", outcome_words(before));
        let _ = writeln!(text, "    after:  {}", outcome_words(after));
    }
    let _ = writeln!(text, "\n{} new, {} gone, {} changed, {same} the same.", new.len(), gone.len(), changed.len());
    text
}

fn outcome_words(outcome: &Outcome) -> String {
    let found: Vec<String> = outcome.found.iter().map(|found| plain(found)).collect();
    let how = match outcome.verdict {
        Verdict::Finding => severity(outcome.severity),
        other => verdict(other),
    };
    if found.is_empty() { how.to_owned() } else { format!("{how}: {}", found.join("; ")) }
}

#[cfg(test)]
mod tests;
