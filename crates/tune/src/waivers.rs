//! Waivers: findings that a user has decided to accept, with the reason and the last day.
//!
//! ```toml
//! schema = 1
//!
//! [[waiver]]
//! rule = "linux-nfs-attribute-cache-on"
//! subject = "mount /u0*"
//! reason = "The cluster needs it until the move to another file system."
//! expires = 2027-03-31
//! ```
//! A waiver holds until the end of the day that it names, in UTC. After that its findings count
//! again and say so.

use std::fmt;
use std::path::{Path, PathBuf};

use host::nearest;
use results::audit::{Audit, Finding, Verdict};
use serde::Deserialize;
use time::Date;
use time::macros::format_description;

use crate::expression::like;
use crate::limits::{WAIVER_FILE_BYTES_MAX, WAIVERS_MAX};
use crate::toml_error::in_one_line;

/// The version of the file's format.
const SCHEMA: i64 = 1;

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(Date);

impl Day {
    /// The day at the start of `YYYY-MM-DD…`; `None` if it is not a day of the calendar.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Date::parse(text.get(..10)?, format_description!("[year]-[month]-[day]")).ok().map(Self)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One waiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiver {
    /// The rule.
    pub rule: String,
    /// Pattern of the subjects that it covers; `None` for all that the rule judges. `*` matches any
    /// text, `?` any one byte.
    pub subject: Option<String>,
    /// Why the finding is accepted.
    pub reason: String,
    /// The last day on which it is valid.
    pub expires: Day,
}

/// The waivers of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waivers {
    waivers: Vec<Waiver>,
}

/// The error for a waiver file that cannot be used. Its texts complete "cannot use the waivers: …".
#[derive(Debug, thiserror::Error)]
pub enum WaiverError {
    /// The file cannot be read.
    #[error("read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("the file is larger than {WAIVER_FILE_BYTES_MAX} bytes, or has more than {WAIVERS_MAX} waivers")]
    Size,
    /// The file is not text.
    #[error("the file is not UTF-8 text")]
    NoText,
    /// The file is not a waiver file.
    #[error("the file is not a list of waivers: {0}")]
    Form(String),
    /// The file has another version of the format.
    #[error("schema is {0}, this program reads {SCHEMA}")]
    Schema(i64),
    /// A waiver gives no reason.
    #[error("waiver {number}, of {rule}, gives no reason")]
    NoReason {
        /// Its position in the file, counted from 1.
        number: usize,
        /// Its rule.
        rule: String,
    },
    /// The last day is not a date.
    #[error("waiver {number}, of {rule}, expires on {found}, which is not a date of the form 2027-03-31")]
    Day {
        /// Its position in the file, counted from 1.
        number: usize,
        /// Its rule.
        rule: String,
        /// The text in place of a date.
        found: String,
    },
    /// A waiver names a rule that does not exist.
    #[error("waiver {number} names the rule {rule}, which does not exist")]
    Rule {
        /// Its position in the file, counted from 1.
        number: usize,
        /// The name in the file.
        rule: String,
        /// The rule with the most similar name.
        nearest: Option<String>,
    },
}

impl WaiverError {
    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Rule { nearest: Some(nearest), .. } => Some(format!("did you mean {nearest}?")),
            Self::Rule { .. } => Some("the findings of `millrace audit` name their rules".into()),
            Self::NoReason { .. } => Some("reason = \"…\" explains to the next reader why this finding is accepted".into()),
            Self::Day { .. } => Some("expires = 2027-03-31".into()),
            Self::Form(_) => Some(
                "schema = 1, then for each: [[waiver]] with rule, reason, expires = YYYY-MM-DD, and subject if it is not for all"
                    .into(),
            ),
            _ => None,
        }
    }
}

/// The contents of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: i64,
    #[serde(default)]
    waiver: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    rule: String,
    subject: Option<String>,
    reason: String,
    /// A TOML date, or a date in quotes.
    expires: toml::Value,
}

impl Waivers {
    /// Reads a file.
    ///
    /// # Errors
    /// [`WaiverError`]; `known` has the IDs of all rules.
    pub fn read<'a>(path: &Path, known: impl Iterator<Item = &'a str> + Clone) -> Result<Self, WaiverError> {
        let file = |source| WaiverError::File { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(file)?.len() > WAIVER_FILE_BYTES_MAX as u64 {
            return Err(WaiverError::Size);
        }
        let text = String::from_utf8(std::fs::read(path).map_err(file)?).map_err(|_| WaiverError::NoText)?;
        Self::parse(&text, known)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`WaiverError`]; `known` has the IDs of all rules.
    pub fn parse<'a>(text: &str, known: impl Iterator<Item = &'a str> + Clone) -> Result<Self, WaiverError> {
        if text.len() > WAIVER_FILE_BYTES_MAX {
            return Err(WaiverError::Size);
        }
        let file: File = toml::from_str(text).map_err(|error| WaiverError::Form(in_one_line(text, &error)))?;
        if file.schema != SCHEMA {
            return Err(WaiverError::Schema(file.schema));
        }
        if file.waiver.len() > WAIVERS_MAX {
            return Err(WaiverError::Size);
        }
        let checked = |(index, entry)| check(index + 1, entry, known.clone());
        let waivers = file.waiver.into_iter().enumerate().map(checked).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { waivers })
    }

    /// The waivers, in the order of the file.
    #[must_use]
    pub fn all(&self) -> &[Waiver] {
        &self.waivers
    }
}

fn check<'a>(number: usize, entry: Entry, mut known: impl Iterator<Item = &'a str> + Clone) -> Result<Waiver, WaiverError> {
    let Entry { rule, subject, reason, expires } = entry;
    let names = known.clone();
    if !known.any(|name| name == rule) {
        let nearest = nearest(&rule, names).map(str::to_owned);
        return Err(WaiverError::Rule { number, rule, nearest });
    }
    if reason.trim().is_empty() {
        return Err(WaiverError::NoReason { number, rule });
    }
    let found = match &expires {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let day = Day::parse(&found).filter(|_| found.len() == 10);
    let Some(expires) = day else { return Err(WaiverError::Day { number, rule, found }) };
    Ok(Waiver { rule, subject, reason: reason.trim().to_owned(), expires })
}

/// The result of applying waivers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Number of findings that are waived now.
    pub waived: usize,
    /// Waivers that have expired and whose findings count again, one line each.
    pub expired: Vec<String>,
    /// Waivers that cover no finding here, one line each: they are not needed any more, or are for
    /// another host.
    pub unused: Vec<String>,
}

/// Marks the findings that a waiver covers as waived. A finding whose waivers have all expired
/// stays a finding with the day on which one expired. Each such waiver is also a remark of the
/// audit.
pub fn apply(waivers: &Waivers, audit: &mut Audit, today: Day) -> Applied {
    let mut applied = Applied::default();
    for waiver in &waivers.waivers {
        let holds = today <= waiver.expires;
        let mut covered = 0_usize;
        for finding in audit.findings.iter_mut().filter(|finding| covers(waiver, finding)) {
            match finding.verdict {
                Verdict::Finding if holds => {
                    finding.verdict = Verdict::Waived;
                    finding.waiver = Some(format!("until {}: {}", waiver.expires, waiver.reason));
                    applied.waived += 1;
                }
                Verdict::Finding => finding.waiver = Some(format!("expired on {}: {}", waiver.expires, waiver.reason)),
                // Another waiver already covers it, but this one is not unused.
                Verdict::Waived => {}
                Verdict::Unknown | Verdict::Passed => continue,
            }
            covered += 1;
        }
        if covered == 0 {
            applied.unused.push(format!("the waiver of {} covers nothing here", name(waiver)));
        } else if !holds {
            applied.expired.push(format!("the waiver of {} expired on {}", name(waiver), waiver.expires));
        }
    }
    audit.remarks.extend(applied.expired.iter().cloned());
    applied
}

fn name(waiver: &Waiver) -> String {
    waiver.subject.as_ref().map_or_else(|| waiver.rule.clone(), |subject| format!("{} on {subject}", waiver.rule))
}

/// Whether a waiver covers a finding. For a thing of a server, its pattern may match the thing or
/// the complete subject.
fn covers(waiver: &Waiver, finding: &Finding) -> bool {
    let Some(pattern) = &waiver.subject else { return waiver.rule == finding.rule };
    let mut subjects = finding.subject.as_deref().into_iter().chain(finding.thing());
    waiver.rule == finding.rule && subjects.any(|subject| like(subject, pattern))
}

#[cfg(test)]
mod tests;
