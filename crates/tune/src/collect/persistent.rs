//! Settings with two copies: the value in force, and the one that a file brings back at the next start.

use crate::facts::{Facts, Value};

/// Notes a setting that has two copies.
pub(super) fn put_setting(name: &str, running: Value, persistent: Value, origin: &str, facts: &mut Facts) {
    let persistent = match (&running, &persistent) {
        (Value::Bool(_), Value::Int(number)) => Value::Bool(*number != 0),
        (Value::Int(_), Value::Bool(yes)) => Value::Int(i64::from(*yes)),
        _ => persistent,
    };
    facts.put_of("setting", name, "running", running, origin);
    facts.put_of("setting", name, "persistent", persistent, origin);
    facts.put_of("setting", name, "file", origin.rsplit_once(':').map_or(origin, |(file, _)| file), origin);
}
