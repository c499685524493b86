//! What mounts contain. It follows from the paths that databases name, the links in them, and the
//! nearest mount point above.
//!
//! A role in the site file stays. Nothing is guessed from names: if a database does not say what is
//! on a mount, the mount's role is `database`.

mod places;

use std::collections::{BTreeMap, BTreeSet};

use super::site;
use crate::facts::{Attributes, Facts, Server, Value};
pub(crate) use places::unnamed;
use places::{Kind, Place, above};

/// What one mount contains: each kind with its origin.
type Held = BTreeMap<Kind, Said>;

/// Why a mount contains something: the setting or file that says so, and the databases.
#[derive(Debug, Default, Clone)]
struct Said {
    origin: String,
    databases: BTreeSet<&'static str>,
}

/// Gives each mount its role. `holds` lists all kinds of files on it, and `databases` the
/// databases. Roles that were derived earlier are removed.
pub(super) fn derive(facts: &mut Facts) {
    let held = spread(held(facts), facts);
    for mount in facts.things.get_mut("mount").into_iter().flat_map(|mounts| mounts.values_mut()) {
        mount.remove("holds");
        mount.remove("databases");
        if mount.get("role").is_some_and(|role| role.origin != site::ORIGIN) {
            mount.remove("role");
        }
    }
    for (point, kinds) in held {
        let Some((kind, said)) = kinds.first_key_value() else { continue };
        if facts.value_of("mount", &point, "role").is_none() {
            facts.put_of("mount", &point, "role", kind.word(), &said.origin);
        }
        let words = |all: BTreeSet<&str>| Value::List(all.into_iter().map(Value::from).collect());
        facts.put_of("mount", &point, "holds", words(kinds.keys().map(|kind| kind.word()).collect()), &said.origin);
        let databases = kinds.values().flat_map(|said| said.databases.iter().copied()).collect();
        facts.put_of("mount", &point, "databases", words(databases), &said.origin);
    }
}

/// Paths whose links decide where files are.
pub(super) fn linked(facts: &Facts) -> BTreeSet<String> {
    let servers = facts.servers.iter().filter(|server| is_here(server));
    servers.flat_map(places::linked).collect()
}

/// Whether the files of a server are on this host.
fn is_here(server: &Server) -> bool {
    server.config.is_some() && server.data_place().is_none()
}

/// What mounts contain, by the paths on them.
fn held(facts: &Facts) -> BTreeMap<String, Held> {
    let mut held: BTreeMap<String, Held> = BTreeMap::new();
    let servers = facts.servers.iter().filter(|server| is_here(server));
    let places = servers.flat_map(|server| places::of_server(server, facts)).chain(places::of_oracle(facts));
    for Place { path, kind, origin, database } in places {
        if let Some(point) = above(&path, facts) {
            let said = held.entry(point.to_owned()).or_default().entry(kind).or_default();
            if said.origin.is_empty() {
                said.origin = origin;
            }
            said.databases.insert(database);
        }
    }
    held
}

/// Adds the other mounts of the same volumes, which contain the same.
fn spread(mut held: BTreeMap<String, Held>, facts: &Facts) -> BTreeMap<String, Held> {
    let Some(mounts) = facts.things.get("mount") else { return held };
    let by_volume: BTreeMap<&str, Held> =
        held.iter().filter_map(|(point, kinds)| Some((volume(mounts.get(point)?)?, kinds.clone()))).collect();
    let others = mounts.iter().filter_map(|(point, mount)| Some((point, by_volume.get(volume(mount)?)?)));
    let others: Vec<(String, Held)> =
        others.filter(|(point, _)| !held.contains_key(*point)).map(|(point, kinds)| (point.clone(), kinds.clone())).collect();
    held.extend(others);
    held
}

fn volume(mount: &Attributes) -> Option<&str> {
    match mount.get("volume").map(|fact| &fact.value) {
        Some(Value::Text(volume)) => Some(volume),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
