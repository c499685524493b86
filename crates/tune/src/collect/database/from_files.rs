//! Servers of databases that only their files tell of.

use crate::facts::{Database, Facts, Server, ServerState, Value};
use crate::shown_value::shown;

/// A server that only its files tell of. `place` is where they lie.
pub(super) fn by_files(database: Database, kind: &str, place: &str, stopped: bool, config: Option<&str>, facts: Facts) -> Server {
    let (state, label) = if stopped { (ServerState::Stopped, "stopped") } else { (ServerState::FromFiles, "from files") };
    let place = if place.is_empty() { "/" } else { place };
    let name = shown(&Value::from(format!("{kind} in {place} ({label})")));
    Server { name, database, state, config: config.map(str::to_owned), facts }
}
