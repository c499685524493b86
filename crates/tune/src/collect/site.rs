//! The site file: facts that only the user knows, such as roles of mounts.

use toml::{Table, Value as Toml};

use crate::facts::{Database, Fact, Facts, Value};
use crate::toml_error::in_one_line;

/// The origin of facts from a site file.
pub(super) const ORIGIN: &str = "site file";

/// Reads a site file into facts. Its values take precedence over collected ones; if both differ, a
/// remark says so.
///
/// `[site]` sets facts `site.NAME`, `role` the roles of the host, `[facts]` any other fact by its
/// name, and every other table attributes of things: `[mount."/redo"]`. An entry that cannot be
/// understood is remarked.
pub fn site(text: &str, facts: &mut Facts) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(fault) => {
            let fault = in_one_line(text, &fault);
            facts.remark(format!("the site file cannot be read, nothing of it is used: {fault}"));
            facts.put_unknown("site.", "the site file cannot be read");
            return;
        }
    };
    for (key, said) in &table {
        match (key.as_str(), said) {
            ("role" | "roles", said) => over(facts, "role", value(said)),
            ("site", Toml::Table(site)) => {
                for (name, said) in site {
                    over(facts, &format!("site.{name}"), value(said));
                }
            }
            ("facts", Toml::Table(named)) => named.iter().for_each(|(name, said)| flat(facts, name, said, 0)),
            (kind, Toml::Table(things)) => {
                for (name, attributes) in things {
                    thing(facts, kind, name, attributes);
                }
            }
            (key, _) => facts.remark(format!("the site file sets {key:?} outside of any table, which means nothing")),
        }
    }
}

fn thing(facts: &mut Facts, kind: &str, name: &str, attributes: &Toml) {
    let Toml::Table(attributes) = attributes else {
        facts.remark(format!("the site file sets {kind}.{name:?}, which is not a table of attributes"));
        return;
    };
    let seen = facts.things.get(kind).is_some_and(|things| things.contains_key(name));
    if !seen && facts.things.get(kind).is_some_and(|things| !things.is_empty()) {
        facts.remark(format!("the site file names {kind} {name}, which was not found on the host"));
    }
    for (attribute, said) in attributes {
        let said = value(said);
        let found = facts.things.get_mut(kind).and_then(|things| things.get_mut(name)).and_then(|thing| thing.remove(attribute));
        // A more precise role is not a contradiction.
        let found = found.filter(|found| (kind, attribute.as_str()) != ("mount", "role") || !refines(&found.value, &said));
        differs(facts, &format!("{kind} {name}: {attribute}"), found, &said);
        facts.put_of(kind, name, attribute, said, ORIGIN);
    }
}

/// Tables in `[facts]` are parts of dotted names.
fn flat(facts: &mut Facts, name: &str, said: &Toml, depth: usize) {
    match said {
        Toml::Table(inner) if depth < 16 => {
            inner.iter().for_each(|(more, said)| flat(facts, &format!("{name}.{more}"), said, depth + 1))
        }
        said => over(facts, name, value(said)),
    }
}

fn over(facts: &mut Facts, name: &str, said: Value) {
    let database = Database::of_fact(name);
    if facts.servers.iter().any(|server| Some(server.database) == database) {
        return over_servers(facts, name, &said);
    }
    let found = facts.host.remove(name);
    differs(facts, name, found, &said);
    facts.put(name, said, ORIGIN);
}

/// A fact of a database in the site file holds for each of its servers.
fn over_servers(facts: &mut Facts, name: &str, said: &Value) {
    let database = Database::of_fact(name);
    let mut remarks = Facts::default();
    for server in facts.servers.iter_mut().filter(|server| Some(server.database) == database) {
        let found = server.facts.host.remove(name);
        differs(&mut remarks, &format!("{name} of {}", server.name), found, said);
        server.facts.put(name, said.clone(), ORIGIN);
    }
    remarks.remarks.into_iter().for_each(|remark| facts.remark(remark));
}

fn differs(facts: &mut Facts, called: &str, found: Option<Fact>, said: &Value) {
    if let Some(found) = found.filter(|found| found.value != *said) {
        facts.remark(format!(
            "{called} is {:?} by {} and {said:?} by the site file: the site file is taken",
            found.value, found.origin
        ));
    }
}

fn value(said: &Toml) -> Value {
    match said {
        Toml::Boolean(yes) => Value::Bool(*yes),
        Toml::Integer(number) => Value::Int(*number),
        Toml::String(text) => Value::Text(text.clone()),
        Toml::Array(list) => Value::List(list.iter().take(4096).map(value).collect()),
        other => Value::Text(other.to_string()),
    }
}

/// Whether a role in the site file equals a derived role or is more precise.
fn refines(derived: &Value, given: &Value) -> bool {
    let (Value::Text(derived), Value::Text(given)) = (derived, given) else { return false };
    match derived.as_str() {
        "database" => ["data", "redo", "archive", "crs"].contains(&given.as_str()),
        "home" => given == "binaries",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_file_gives_facts_roles_and_attributes_and_wins() {
        let mut facts = Facts::default();
        facts.put_of("nic", "eth1", "storage", false, "route");
        facts.put_of("mount", "/redo", "fstype", "nfs", "mount");
        site(
            "role = [\"rac\"]\n[site]\nrac = true\n[mount.\"/redo\"]\nrole = \"redo\"\n[nic.eth1]\nstorage = true\n[facts]\noracle.version = \"19.3\"\n",
            &mut facts,
        );
        assert_eq!(facts.value("site.rac"), Some(&true.into()));
        assert_eq!(facts.value("role"), Some(&Value::List(vec!["rac".into()])));
        assert_eq!(facts.value("oracle.version"), Some(&"19.3".into()));
        assert_eq!(facts.value_of("mount", "/redo", "role"), Some(&"redo".into()));
        assert_eq!(facts.value_of("nic", "eth1", "storage"), Some(&true.into()));
        assert_eq!(facts.remarks.len(), 1);
    }

    #[test]
    fn a_broken_site_file_is_a_remark() {
        let mut facts = Facts::default();
        site("[site\nrac = ", &mut facts);
        assert_eq!((facts.host.len(), facts.remarks.len(), facts.unknown.len()), (0, 1, 1));
    }
}
