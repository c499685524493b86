//! Settings that a rule changes in the database.

use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use tune::change::SettingChange;

/// Settings that belong together, under the name of their rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleChange {
    /// Name: letters, digits and hyphens.
    pub rule: String,
    /// Settings of the database, with values in the notation of `postgresql.conf`.
    #[serde(serialize_with = "pairs")]
    pub settings: Vec<SettingChange>,
}

/// Serializes the settings as pairs of name and value.
fn pairs<S: Serializer>(settings: &[SettingChange], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(settings.len()))?;
    for change in settings {
        list.serialize_element(&(&change.key, &change.to))?;
    }
    list.end()
}

#[cfg(test)]
impl RuleChange {
    /// A change of settings of PostgreSQL, for tests.
    pub(crate) fn of_postgres(rule: &str, settings: &[(&str, &str)]) -> Self {
        let target = tune::change::Target { kind: tune::rule::SettingKind::Postgres, thing: None };
        let change = |(key, to): &(&str, &str)| SettingChange {
            target: target.clone(),
            key: (*key).to_owned(),
            from: None,
            to: (*to).to_owned(),
        };
        Self { rule: rule.to_owned(), settings: settings.iter().map(change).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_printed_as_pairs_of_name_and_value() {
        let change = RuleChange::of_postgres("a", &[("work_mem", "8MB")]);
        assert_eq!(serde_json::to_value(change).unwrap(), serde_json::json!({"rule": "a", "settings": [["work_mem", "8MB"]]}));
    }
}
