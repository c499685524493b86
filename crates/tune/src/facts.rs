//! What is known about a host: named values with their origins.

mod data_place;
mod server;
mod set_by;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::collect::REDACTED;

pub use data_place::DIRECT_NFS_MOUNT;
pub(crate) use data_place::DataPlace;
pub use server::{Database, Server, ServerState};
pub(crate) use set_by::{COMMAND_LINE, SetBy, origin_of, set_by};

/// Remarks of one collection. Later ones are dropped.
const REMARKS_MAX: usize = 500;

/// Bytes of one remark.
const REMARK_BYTES_MAX: usize = 400;

/// Facts of one host, things of one kind, attributes of one thing. A Linux host has about 2,000
/// facts.
const NAMES_MAX: usize = 100_000;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number. Sizes are in bytes, times in the unit at the end of the name. A number out
    /// of range becomes the nearest one in range.
    Int(i64),
    /// Text.
    Text(String),
    /// Several values in the order in which they were found.
    List(Vec<Self>),
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The value.
    pub value: Value,
    /// The command or file that it was read from, with a line if that helps: `sysctl -a`,
    /// `/etc/fstab:12`.
    pub origin: String,
}

/// Attributes of one thing: a mount, a network interface, a LUN.
pub type Attributes = BTreeMap<String, Fact>;

/// Everything that is known about a host.
///
/// A name has dots: `sysctl.vm.swappiness`. A thing, of which there may be several, has a kind and
/// a name: kind `mount`, name `/u02`, attribute `rsize`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Facts of the host, by name. Facts of a database in here belong to one server without a name.
    pub host: BTreeMap<String, Fact>,
    /// Things, by kind and by name.
    pub things: BTreeMap<String, BTreeMap<String, Attributes>>,
    /// Facts that could not be read, by their name or a prefix of it (`sysctl.` for all of them),
    /// with the reason.
    pub unknown: BTreeMap<String, String>,
    /// Database servers, each with its own facts.
    pub servers: Vec<Server>,
    /// One line for each irregularity: contradictory values, files that are not text, entries that
    /// were skipped.
    pub remarks: Vec<String>,
}

impl Fact {
    /// Whether the value was removed from the text that it was read from.
    fn is_redacted(&self) -> bool {
        matches!(&self.value, Value::Text(text) if text.contains(REDACTED))
    }
}

/// The key of an attribute of one thing in [`Facts::unknown`].
fn unknown_name(kind: &str, name: &str, attribute: &str) -> String {
    format!("{kind} {name}: {attribute}")
}

/// The key of things that were not found in [`Facts::unknown`].
fn others_name(kind: &str) -> String {
    format!("{kind}: others")
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl Facts {
    /// Notes a fact of the host. If it already has another value, the first one stays and a remark
    /// is added. A redacted value makes the fact unknown.
    pub fn put(&mut self, name: &str, value: impl Into<Value>, origin: &str) {
        let fact = Fact { value: value.into(), origin: origin.to_owned() };
        if fact.is_redacted() {
            return self.put_unknown(name, &format!("{origin}: the value is left out of what is read"));
        }
        if let Some(remark) = Self::note(&mut self.host, name, || name.to_owned(), fact) {
            self.remark(remark);
        }
    }

    /// Notes an attribute of a thing. The thing exists from then on.
    pub fn put_of(&mut self, kind: &str, name: &str, attribute: &str, value: impl Into<Value>, origin: &str) {
        let fact = Fact { value: value.into(), origin: origin.to_owned() };
        if fact.is_redacted() {
            return self.put_unknown_of(kind, name, attribute, &format!("{origin}: the value is left out of what is read"));
        }
        let things = self.things.entry(kind.to_owned()).or_default();
        if things.len() >= NAMES_MAX && !things.contains_key(name) {
            return self.remark(format!("{kind} {name} is left out: there are too many of the kind"));
        }
        let thing = things.entry(name.to_owned()).or_default();
        if let Some(remark) = Self::note(thing, attribute, || format!("{kind} {name}: {attribute}"), fact) {
            self.remark(remark);
        }
    }

    /// Notes that things of this kind were looked for, so a missing thing does not exist. Otherwise
    /// it is not known whether it exists.
    pub fn looked_for(&mut self, kind: &str) {
        self.things.entry(kind.to_owned()).or_default();
    }

    /// Adds a remark. A long one is cut, and from a limit on they are dropped.
    pub fn remark(&mut self, mut remark: String) {
        if remark.len() > REMARK_BYTES_MAX {
            let end = (0..=REMARK_BYTES_MAX).rev().find(|at| remark.is_char_boundary(*at)).unwrap_or(0);
            remark.truncate(end);
        }
        match self.remarks.len() {
            count if count < REMARKS_MAX => self.remarks.push(remark),
            REMARKS_MAX => self.remarks.push("and more of that kind, left out".to_owned()),
            _ => {}
        }
    }

    /// The value of a fact of the host; otherwise of the only server that has the fact.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        let here = self.host.get(name).map(|fact| &fact.value);
        here.or_else(|| self.of_only_server(|facts| facts.value(name)))
    }

    /// The text of a fact of the host; `None` if it is empty.
    pub(crate) fn host_text(&self, name: &str) -> Option<&str> {
        match self.host.get(name).map(|fact| &fact.value) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The value of a thing's attribute, from the host or from the only server that has it.
    #[must_use]
    pub fn value_of(&self, kind: &str, name: &str, attribute: &str) -> Option<&Value> {
        let thing = self.things.get(kind).and_then(|things| things.get(name));
        let here = thing.and_then(|thing| thing.get(attribute)).map(|fact| &fact.value);
        here.or_else(|| self.of_only_server(|facts| facts.value_of(kind, name, attribute)))
    }

    /// Notes that an attribute of a thing is not known. The thing exists from then on.
    pub fn put_unknown_of(&mut self, kind: &str, name: &str, attribute: &str, reason: &str) {
        let things = self.things.entry(kind.to_owned()).or_default();
        if things.len() < NAMES_MAX || things.contains_key(name) {
            things.entry(name.to_owned()).or_default().remove(attribute);
            self.put_unknown(&unknown_name(kind, name, attribute), reason);
        }
    }

    /// Notes that other attributes of a thing than those it has or gets are not known.
    pub fn put_unknown_others_of(&mut self, kind: &str, name: &str, reason: &str) {
        self.put_unknown(&unknown_name(kind, name, ""), reason);
    }

    /// Why an attribute of a thing is not known, if there is a reason for this thing.
    #[must_use]
    pub fn why_unknown_of(&self, kind: &str, name: &str, attribute: &str) -> Option<&str> {
        let of = |attribute: &str| self.unknown.get(&unknown_name(kind, name, attribute));
        of(attribute).or_else(|| of("")).map(String::as_str)
    }

    /// Notes that more things of a kind may exist than were found.
    pub fn put_unknown_others(&mut self, kind: &str, reason: &str) {
        self.put_unknown(&others_name(kind), reason);
    }

    /// Why more things of a kind may exist than were found.
    #[must_use]
    pub fn why_unknown_others(&self, kind: &str) -> Option<&str> {
        self.unknown.get(&others_name(kind)).map(String::as_str)
    }

    /// Notes that the facts with this name, or with this prefix, could not be read.
    pub fn put_unknown(&mut self, prefix: &str, reason: &str) {
        self.unknown.entry(prefix.to_owned()).or_insert_with(|| reason.to_owned());
    }

    fn of_only_server<'a>(&'a self, value: impl Fn(&'a Self) -> Option<&'a Value>) -> Option<&'a Value> {
        let mut found = self.servers.iter().filter_map(|server| value(&server.facts));
        found.next().filter(|_| found.next().is_none())
    }

    fn note(facts: &mut Attributes, name: &str, called: impl Fn() -> String, fact: Fact) -> Option<String> {
        match facts.get(name) {
            Some(there) if there.value != fact.value => Some(format!(
                "{} is {:?} by {} and {:?} by {}: the first is taken",
                called(),
                there.value,
                there.origin,
                fact.value,
                fact.origin
            )),
            Some(_) => None,
            None if facts.len() >= NAMES_MAX => Some(format!("{} is left out: there are too many facts", called())),
            None => {
                facts.insert(name.to_owned(), fact);
                None
            }
        }
    }
}
