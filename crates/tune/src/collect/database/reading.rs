//! Settings in the order in which a server reads them. If the server reads a file that was not
//! collected, all earlier settings become unknown.

use std::collections::{BTreeMap, BTreeSet};

use crate::collect::collected::Collected;
use crate::collect::limits::{CAPTURE_BYTES_MAX, INCLUDED_FILES_MAX};
use crate::collect::sources::Source;
use crate::facts::{Database, Facts, Value};

/// A value with the file and line that set it.
pub(in crate::collect) type Said<T> = (T, String);

/// The settings in the files of one server.
#[derive(Debug)]
pub(in crate::collect) struct Reading<T> {
    /// Settings by name, each with its last value.
    said: BTreeMap<String, Said<T>>,
    /// Settings whose value is not known, with the reason.
    doubts: BTreeMap<String, String>,
    /// Why settings that are not set are unknown too.
    gap: Option<String>,
    /// Why the server refuses these files.
    rejected: Option<String>,
    /// Files and folders that the server reads and that were not collected.
    pub(in crate::collect) wanted: BTreeSet<String>,
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self { said: BTreeMap::new(), doubts: BTreeMap::new(), gap: None, rejected: None, wanted: BTreeSet::new() }
    }
}

impl<T> Reading<T> {
    /// Sets a setting. This replaces its earlier value.
    pub(in crate::collect) fn set(&mut self, name: &str, value: T, origin: String) {
        self.doubts.remove(name);
        self.said.insert(name.to_owned(), (value, origin));
    }

    /// The value of a setting so far.
    pub(in crate::collect) fn get(&self, name: &str) -> Option<&Said<T>> {
        self.said.get(name)
    }

    /// Whether the value of this setting is not known.
    pub(in crate::collect) fn is_unknown(&self, name: &str) -> bool {
        !self.said.contains_key(name) && (self.gap.is_some() || self.doubts.contains_key(name))
    }

    /// Makes this setting unknown, unless it is set later.
    pub(in crate::collect) fn doubt(&mut self, name: &str, reason: String) {
        self.said.remove(name);
        self.doubts.insert(name.to_owned(), reason);
    }

    /// The server reads a file here that was not collected and may set anything.
    pub(in crate::collect) fn gap(&mut self, reason: String) {
        self.said.clear();
        self.doubts.clear();
        self.gap = Some(reason);
    }

    /// The server does not start with these files, and a running server does not load them.
    pub(in crate::collect) fn reject(&mut self, reason: String) {
        self.rejected.get_or_insert(reason);
    }

    /// Ends the files. Later settings come from the command line or from the server's program.
    pub(in crate::collect) fn end_of_files(&mut self) {
        if let Some(reason) = self.rejected.take() {
            self.gap(reason);
        }
    }

    /// Opens a file or a folder of the server: its content, or `None` if it is absent. One that was
    /// not collected is a gap.
    pub(in crate::collect) fn open<S>(&mut self, path: &str, source: Source<S>) -> Option<S> {
        match source {
            Source::Read(content) => Some(content),
            Source::Absent => None,
            Source::Unread(reason) => {
                self.wanted.insert(path.to_owned());
                self.gap(format!("{reason}, and the server reads it"));
                None
            }
        }
    }

    /// Notes all settings as facts of one server. `value` turns a text into a value, or says why it
    /// is not a value.
    pub(in crate::collect) fn put(
        self,
        database: Database,
        facts: &mut Facts,
        value: impl Fn(&str, &T) -> Result<Value, String>,
    ) {
        let prefix = database.prefix();
        let unknown = |name: &str, reason: &str, facts: &mut Facts| {
            facts.put_unknown(&format!("{prefix}{name}"), reason);
            facts.put_unknown(&format!("persistent.{prefix}{name}"), reason);
        };
        for (name, (said, origin)) in &self.said {
            match value(name, said) {
                Ok(value) => {
                    facts.put(&format!("persistent.{prefix}{name}"), value.clone(), origin);
                    facts.put(&format!("{prefix}{name}"), value, origin);
                }
                Err(reason) => unknown(name, &format!("{origin}: {reason}"), facts),
            }
        }
        for (name, reason) in &self.doubts {
            unknown(name, reason, facts);
        }
        if let Some(reason) = &self.gap {
            facts.remark(format!("{reason}: settings that nothing after it sets are not known"));
            unknown("", reason, facts);
        }
    }
}

/// Limits how much is read of the files of one server. Each file may include others ten levels
/// deep, so a few files could be read millions of times.
#[derive(Debug, Default)]
pub(in crate::collect) struct Budget {
    files: usize,
    bytes: usize,
}

impl Budget {
    /// Counts one file. Returns whether the limits still allow it.
    pub(in crate::collect) fn take(&mut self, text: &str) -> bool {
        self.files += 1;
        self.bytes += text.len();
        self.files <= INCLUDED_FILES_MAX && self.bytes <= CAPTURE_BYTES_MAX
    }
}

/// Repeats until no more files or folders are wanted: `take` fetches one. The number of rounds is
/// limited, because each file may name another one.
pub(in crate::collect) fn fetch(
    collected: &mut Collected,
    wanted: impl Fn(&Collected) -> BTreeSet<String>,
    take: impl Fn(&str, &mut Collected),
) {
    const ROUNDS_MAX: usize = 24;
    let mut fetched = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let more: Vec<String> = wanted(collected).into_iter().filter(|path| !fetched.contains(path)).collect();
        if more.is_empty() {
            break;
        }
        for path in more {
            take(&path, collected);
            fetched.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(reading: Reading<i64>) -> Facts {
        let mut facts = Facts::default();
        reading.put(Database::Postgres, &mut facts, |_, value| Ok(Value::Int(*value)));
        facts
    }

    #[test]
    fn what_is_set_before_a_gap_is_unknown_and_what_is_set_after_it_is_known() {
        let mut reading = Reading::default();
        reading.set("a", 1, "f:1".to_owned());
        reading.gap("g was not collected".to_owned());
        reading.set("b", 2, "f:3".to_owned());
        assert!(reading.is_unknown("a") && reading.is_unknown("c") && !reading.is_unknown("b"));
        let facts = facts(reading);
        assert_eq!((facts.value("postgres.a"), facts.value("postgres.b")), (None, Some(&2.into())));
        assert_eq!(facts.unknown.get("postgres.").map(String::as_str), Some("g was not collected"));
    }

    #[test]
    fn files_that_the_server_refuses_tell_nothing_and_a_command_line_still_does() {
        let mut reading = Reading::default();
        reading.reject("f:2 is no setting".to_owned());
        reading.set("a", 1, "f:3".to_owned());
        reading.end_of_files();
        reading.set("b", 2, "its command line".to_owned());
        let facts = facts(reading);
        assert_eq!((facts.value("postgres.a"), facts.value("postgres.b")), (None, Some(&2.into())));
    }
}
