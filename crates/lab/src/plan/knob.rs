//! Values of settings in plans.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Settings by name.
pub type Knobs = BTreeMap<String, Knob>;

/// A value in its TOML type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Knob {
    /// On or off.
    Switch(bool),
    /// A whole number.
    Number(i64),
    /// Anything else.
    Text(String),
}

impl std::fmt::Display for Knob {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Switch(on) => formatter.write_str(if *on { "on" } else { "off" }),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => formatter.write_str(text),
        }
    }
}

impl Knob {
    /// Options as on a command line: `--name value`, or `--name` alone for a switch.
    #[must_use]
    pub fn arguments(knobs: &Knobs) -> Vec<String> {
        let mut words = Vec::new();
        for (name, value) in knobs {
            if *value == Self::Switch(false) {
                continue;
            }
            words.push(format!("--{name}"));
            if *value != Self::Switch(true) {
                words.push(value.to_string());
            }
        }
        words
    }
}
