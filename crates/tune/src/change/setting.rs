//! A setting to change, in the form that rules, plans, measurements and commands share.

use serde::Serializer;
use serde::ser::SerializeMap as _;

use crate::rule::SettingKind;

/// Where a setting is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The file or the command that sets it.
    pub kind: SettingKind,
    /// The thing that it belongs to, kind and name: `mount`, `/u02`. `None` for the host or its
    /// database.
    pub thing: Option<(String, String)>,
}

/// A setting to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// Where it is stored.
    pub target: Target,
    /// Its name there.
    pub key: String,
    /// The current value, if it is known.
    pub from: Option<String>,
    /// The new value in the syntax of its file or command. Empty means a word without a value; `-`
    /// removes the setting.
    pub to: String,
}

impl SettingChange {
    /// The new value as it is printed: a mount option without a value is `on`.
    #[must_use]
    pub fn shown(&self) -> &str {
        if self.target.kind == SettingKind::FstabOption && self.to.is_empty() { "on" } else { &self.to }
    }
}

/// The form in the JSON of a plan: `setting`, `from` if it is known, and `to`. `setting` and `to`
/// are empty for a step by hand.
pub(super) fn serialize<S: Serializer>(change: &Option<SettingChange>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("setting", change.as_ref().map_or("", |change| &change.key))?;
    if let Some(from) = change.as_ref().and_then(|change| change.from.as_ref()) {
        map.serialize_entry("from", from)?;
    }
    map.serialize_entry("to", change.as_ref().map_or("", SettingChange::shown))?;
    map.end()
}
