//! Settings of PostgreSQL as facts: rows of `pg_settings`, and the version.

use super::units::factor;
use super::values::value;
use crate::collect::database::rows::{Row, plain_setting};
use crate::collect::text::{integer, words};
use crate::facts::{Facts, Value};

/// The catalog with the settings of databases and roles.
const SET_FOR: &str = "pg_db_role_setting";

/// Notes rows of `pg_settings`. Numbers become bytes, milliseconds or counts.
pub(in crate::collect::database) fn rows(rows: &[Row], origin: &str, facts: &mut Facts) {
    let mut pending = rows.iter().any(|row| row.pending_restart.is_some()).then(Vec::new);
    for (row, set_for) in rows.iter().filter_map(|row| Some((row, row.set_for.as_ref()?))) {
        let thing = format!("{} of {set_for}", row.name);
        facts.put_of("db_role_setting", &thing, "setting", row.name.as_str(), SET_FOR);
        // The catalog has the value as the statement gave it, in any form that the server takes.
        let said = value(&row.name, &row.value, None).unwrap_or_else(|_| plain_setting(&row.name, &row.value));
        facts.put_of("db_role_setting", &thing, "value", said, SET_FOR);
    }
    for row in rows.iter().filter(|row| row.set_for.is_none()) {
        let value = match (integer(&row.value), row.unit.as_deref().and_then(factor)) {
            // Values such as -1 have a special meaning and no unit.
            (Some(number), Some(factor)) if number > 0 => Value::Int(number.saturating_mul(factor)),
            // File modes are shown in octal, but can be written in any base.
            (Some(_), None) if row.value.len() > 1 && row.value.starts_with('0') => {
                value(&row.name, &row.value, None).unwrap_or_else(|_| plain_setting(&row.name, &row.value))
            }
            _ => plain_setting(&row.name, &row.value),
        };
        match row.name.as_str() {
            "server_version_num" => {
                if let Value::Int(_) = value {
                    facts.put("postgres.version", value.clone(), origin);
                }
            }
            "server_version"
                if facts.value("postgres.version").is_none() && !rows.iter().any(|row| row.name == "server_version_num") =>
            {
                version(&row.value, origin, facts);
            }
            _ => {}
        }
        facts.put(&format!("postgres.{}", row.name), value, row.origin(origin));
        if !row.values.is_empty() {
            let values = row.values.iter().map(|one| Value::Text(one.clone())).collect();
            facts.put(&format!("postgres.enumvals.{}", row.name), Value::List(values), origin);
        }
        if let Some(pending) = pending.as_mut().filter(|_| row.pending_restart == Some(true)) {
            pending.push(Value::Text(row.name.clone()));
        }
    }
    if let Some(pending) = pending {
        facts.put("postgres.pending_restart", Value::List(pending), origin);
    }
}

/// Notes the version: `17.2 (Debian …)` as 170002, `9.6.24` as 90624.
pub(super) fn version(said: &str, origin: &str, facts: &mut Facts) {
    let first = words(said).next().unwrap_or_default();
    let mut parts = first.split('.').map_while(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        integer(&part[..end]).filter(|number| (0..10_000).contains(number))
    });
    let Some(major) = parts.next() else { return };
    let (minor, patch) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let number = if major >= 10 { major * 10_000 + minor } else { major * 10_000 + minor * 100 + patch };
    if facts.value("postgres.version").is_none() {
        facts.put("postgres.version", number, origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_of_the_server() {
        for (said, number) in [("17.2 (Debian 17.2-1)", 170_002), ("9.6.24", 90_624), ("18beta1", 180_000), ("15", 150_000)] {
            let mut facts = Facts::default();
            version(said, "x", &mut facts);
            assert_eq!(facts.value("postgres.version"), Some(&number.into()), "{said}");
        }
    }
}
