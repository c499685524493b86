//! A setting to change: the one form in which rules, plans, measurements and commands hand it on.

use serde::Serializer;
use serde::ser::SerializeMap as _;

use crate::rule::SettingKind;

/// Where a setting lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The file or the command that has it.
    pub kind: SettingKind,
    /// The thing it belongs to, kind and name: `mount`, `/u02`. Absent: the host or its database.
    pub thing: Option<(String, String)>,
}

/// A setting to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// Where it lives.
    pub target: Target,
    /// Its name there.
    pub key: String,
    /// What it is now, where that is known.
    pub from: Option<String>,
    /// What it becomes, as its file or its command takes it: empty is a word without a value, `-` is taken away.
    pub to: String,
}

impl SettingChange {
    /// The new value as people read it: a mount option without a value is `on`.
    #[must_use]
    pub fn shown(&self) -> &str {
        if self.target.kind == SettingKind::FstabOption && self.to.is_empty() { "on" } else { &self.to }
    }
}

/// As plans print it: `setting`, `from` where it is known, and `to`; both empty for what is all by hand.
pub(super) fn serialize<S: Serializer>(change: &Option<SettingChange>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("setting", change.as_ref().map_or("", |change| &change.key))?;
    if let Some(from) = change.as_ref().and_then(|change| change.from.as_ref()) {
        map.serialize_entry("from", from)?;
    }
    map.serialize_entry("to", change.as_ref().map_or("", SettingChange::shown))?;
    map.end()
}
