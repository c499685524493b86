//! Settings with two copies: the value in force, and the value in a file, which holds after the
//! next start.

use crate::facts::{Fact, Facts, Value};

/// The running MTU of an interface and its origin.
pub(super) fn running_mtu(nic: &str, facts: &Facts) -> Option<Fact> {
    facts.things.get("nic")?.get(nic)?.get("mtu").cloned()
}

/// Notes a setting with two copies, each with its origin. `origin` belongs to the persistent copy.
pub(super) fn put_setting(name: &str, running: &Fact, persistent: Value, origin: &str, facts: &mut Facts) {
    let persistent = match (&running.value, &persistent) {
        (Value::Bool(_), Value::Int(number)) => Value::Bool(*number != 0),
        (Value::Int(_), Value::Bool(yes)) => Value::Int(i64::from(*yes)),
        _ => persistent,
    };
    facts.put_of("setting", name, "running", running.value.clone(), &running.origin);
    facts.put_of("setting", name, "persistent", persistent, origin);
    facts.put_of("setting", name, "file", origin.rsplit_once(':').map_or(origin, |(file, _)| file), origin);
}
