//! Servers of databases and their settings.

mod answer;
pub(super) mod mysql;
pub(super) mod oracle;
pub(super) mod oranfstab;
pub(super) mod postgres;
mod rows;

pub use answer::{Answer, database_rows};
pub use rows::Row;
pub(super) use rows::as_text;

use crate::expression::shown;
use crate::facts::{Database, Facts, Server, ServerState, Value};

/// A server that only its files tell of. `place` is where they lie.
fn by_files(database: Database, kind: &str, place: &str, stopped: bool, config: Option<&str>, facts: Facts) -> Server {
    let (state, label) = if stopped { (ServerState::Stopped, "stopped") } else { (ServerState::FromFiles, "from files") };
    let place = if place.is_empty() { "/" } else { place };
    let name = shown(&Value::from(format!("{kind} in {place} ({label})")));
    Server { name, database, state, config: config.map(str::to_owned), facts }
}

/// Notes tables of a capture: where each comes from, the address that was asked, and its rows.
fn answers(database: Database, tables: &[(&str, Option<&str>, Vec<Row>)], facts: &mut Facts) {
    for (origin, address, rows) in tables {
        let is_here = address.is_none_or(is_local);
        let answer = Answer { database, rows, origin, address: *address, is_here };
        answer::note(&answer, tables.len() == 1, facts);
    }
}

/// Whether an address can only be one of the host that asked: a socket, or a loopback address.
#[must_use]
pub fn is_local(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    address.starts_with('/') || host == "localhost" || host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback())
}
