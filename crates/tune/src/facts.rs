//! What is known of a host: named values with where they come from.

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

/// Remarks of one collection; a capture full of nonsense says no more after that many.
const REMARKS_MAX: usize = 500;

/// Bytes of one remark.
const REMARK_BYTES_MAX: usize = 400;

/// Facts of one host, things of one kind, attributes of one thing: a Linux host has about 2,000 of the first.
const NAMES_MAX: usize = 100_000;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number; sizes are bytes, times the unit that the name ends with. Beyond the range: its end.
    Int(i64),
    /// Text.
    Text(String),
    /// Several of them, in the order found.
    List(Vec<Self>),
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The value.
    pub value: Value,
    /// The command or the file it was read from, with a line where that helps: `sysctl -a`, `/etc/fstab:12`.
    pub origin: String,
}

/// Attributes of one thing: a mount, a network interface, a LUN.
pub type Attributes = BTreeMap<String, Fact>;

/// All that is known.
///
/// A name is dotted: `sysctl.vm.swappiness`. Of things of which there are several, each has a kind and a name of its own:
/// kind `mount`, name `/u02`, attribute `rsize`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Facts of the host, by name. Facts of a database that are here are those of one server without a name.
    pub host: BTreeMap<String, Fact>,
    /// Things, by kind and by name.
    pub things: BTreeMap<String, BTreeMap<String, Attributes>>,
    /// What could not be read, by the name or by a prefix of it (`sysctl.` is all of them), with the reason.
    pub unknown: BTreeMap<String, String>,
    /// Database servers, each with facts of its own.
    pub servers: Vec<Server>,
    /// What was odd on the way, a line each: contradictory values, files that are no text, entries that were skipped.
    pub remarks: Vec<String>,
}

impl Fact {
    /// Whether the value was left out of the text that it was read from.
    fn is_redacted(&self) -> bool {
        matches!(&self.value, Value::Text(text) if text.contains(REDACTED))
    }
}

/// The name of an attribute of one thing among what is not known.
fn unknown_name(kind: &str, name: &str, attribute: &str) -> String {
    format!("{kind} {name}: {attribute}")
}

/// The name of things that were not found among what is not known.
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
    /// Notes a fact of the host. A second value that differs is a remark; the first one stays. A value that was redacted is not known.
    pub fn put(&mut self, name: &str, value: impl Into<Value>, origin: &str) {
        let fact = Fact { value: value.into(), origin: origin.to_owned() };
        if fact.is_redacted() {
            return self.put_unknown(name, &format!("{origin}: the value is left out of what is read"));
        }
        if let Some(remark) = Self::note(&mut self.host, name, || name.to_owned(), fact) {
            self.remark(remark);
        }
    }

    /// Notes an attribute of a thing, which is there from then on.
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

    /// Notes that things of this kind were looked for: where none is found, there is none. Without it they are not known.
    pub fn looked_for(&mut self, kind: &str) {
        self.things.entry(kind.to_owned()).or_default();
    }

    /// Notes something odd. What is too long is cut, and after many of them the rest is left out.
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

    /// Value of a fact of the host, else of the only server that has it.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        let here = self.host.get(name).map(|fact| &fact.value);
        here.or_else(|| self.of_only_server(|facts| facts.value(name)))
    }

    /// Text of a fact of the host; absent where it is empty.
    pub(crate) fn host_text(&self, name: &str) -> Option<&str> {
        match self.host.get(name).map(|fact| &fact.value) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Value of an attribute of a thing, of the host or of the only server that has it.
    #[must_use]
    pub fn value_of(&self, kind: &str, name: &str, attribute: &str) -> Option<&Value> {
        let thing = self.things.get(kind).and_then(|things| things.get(name));
        let here = thing.and_then(|thing| thing.get(attribute)).map(|fact| &fact.value);
        here.or_else(|| self.of_only_server(|facts| facts.value_of(kind, name, attribute)))
    }

    /// Notes that an attribute of a thing is not known. The thing is there from then on.
    pub fn put_unknown_of(&mut self, kind: &str, name: &str, attribute: &str, reason: &str) {
        let things = self.things.entry(kind.to_owned()).or_default();
        if things.len() < NAMES_MAX || things.contains_key(name) {
            things.entry(name.to_owned()).or_default().remove(attribute);
            self.put_unknown(&unknown_name(kind, name, attribute), reason);
        }
    }

    /// Notes that no attribute of a thing is known but those that it has or gets.
    pub fn put_unknown_others_of(&mut self, kind: &str, name: &str, reason: &str) {
        self.put_unknown(&unknown_name(kind, name, ""), reason);
    }

    /// Why an attribute of a thing is not known, if something says so of this thing.
    #[must_use]
    pub fn why_unknown_of(&self, kind: &str, name: &str, attribute: &str) -> Option<&str> {
        let of = |attribute: &str| self.unknown.get(&unknown_name(kind, name, attribute));
        of(attribute).or_else(|| of("")).map(String::as_str)
    }

    /// Notes that there may be more things of a kind than those that were found.
    pub fn put_unknown_others(&mut self, kind: &str, reason: &str) {
        self.put_unknown(&others_name(kind), reason);
    }

    /// Why there may be more things of a kind than those that were found.
    #[must_use]
    pub fn why_unknown_others(&self, kind: &str) -> Option<&str> {
        self.unknown.get(&others_name(kind)).map(String::as_str)
    }

    /// Notes that what has this name, or begins with it, could not be read.
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
