//! Changes of `filer.toml` by command: sets the keys of a volume and leaves the rest of the file as it was written.

use std::collections::BTreeMap;

use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value, value};

/// Keys and values from a command line. `None` removes the key.
pub type Keys = BTreeMap<String, Option<String>>;

/// Keys whose value is not a string. The parser of the file checks names and values of keys.
const LISTS: [&str; 2] = ["clients", "faults"];
const NUMBERS: [&str; 3] = ["anonymous_uid", "anonymous_gid", "loss_seed"];
const SWITCHES: [&str; 4] = ["privileged_ports", "loss_layer", "exclusive", "crossmnt"];

/// Why a change of the file is not possible.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EditError {
    /// The volume is not in the file.
    #[error("the file has no volume {name:?}: {}", known(.volumes))]
    NoVolume {
        /// The requested name.
        name: String,
        /// The names of the volumes in the file.
        volumes: Vec<String>,
    },
    /// A volume with this name exists.
    #[error("a volume of that name exists; choose another name, or set its keys with `millrace volume set`")]
    Exists(String),
    /// Commands cannot set this key, or not to this value.
    #[error("{key}: {reason}")]
    Key {
        /// The key.
        key: String,
        /// The reason.
        reason: String,
    },
    /// The file's volumes are not written as `[[volume]]` tables.
    #[error("change volumes that are not written as [[volume]] tables: edit the file")]
    Form,
    /// The file is not valid TOML.
    #[error("parse the file: {0}")]
    Toml(String),
}

fn known(volumes: &[String]) -> String {
    if volumes.is_empty() { "it has no [[volume]]".into() } else { format!("it has {}", volumes.join(", ")) }
}

/// The text with one more volume, after the other volumes.
///
/// # Errors
/// [`EditError`], for example if a volume of that name exists or a key does not accept its value.
pub fn with_volume(text: &str, name: &str, keys: &Keys) -> Result<String, EditError> {
    let mut document = read(text)?;
    let tables = tables(&mut document)?;
    if tables.iter().any(|table| is_named(table, name)) {
        return Err(EditError::Exists(name.to_owned()));
    }
    let mut table = Table::new();
    table.insert("name", value(name));
    change(&mut table, keys)?;
    table.decor_mut().set_prefix("\n");
    tables.push(table);
    Ok(document.to_string())
}

/// The text with changed keys of a volume.
///
/// # Errors
/// [`EditError`], for example if the file has no such volume or a key does not accept its value.
pub fn with_keys(text: &str, name: &str, keys: &Keys) -> Result<String, EditError> {
    let mut document = read(text)?;
    let tables = tables(&mut document)?;
    let names = tables.iter().filter_map(|table| Some(table.get("name")?.as_str()?.to_owned()));
    let missing = EditError::NoVolume { name: name.to_owned(), volumes: names.collect() };
    change(tables.iter_mut().find(|table| is_named(table, name)).ok_or(missing)?, keys)?;
    Ok(document.to_string())
}

fn read(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Toml(error.message().replace('\n', ", ")))
}

fn tables(document: &mut DocumentMut) -> Result<&mut ArrayOfTables, EditError> {
    let volumes = document.entry("volume").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    volumes.as_array_of_tables_mut().ok_or(EditError::Form)
}

fn is_named(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

fn change(table: &mut Table, keys: &Keys) -> Result<(), EditError> {
    for (key, written) in keys {
        if key == "name" || key == "rule" {
            let reason = "this key can be changed in the file only: edit it, then reload".to_owned();
            return Err(EditError::Key { key: key.clone(), reason });
        }
        let Some(written) = written else {
            table.remove(key);
            continue;
        };
        let mut new = typed(key, written)?;
        match table.get_mut(key).and_then(Item::as_value_mut) {
            // A comment on the line of the value is kept.
            Some(old) => {
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
            None => {
                table.insert(key, Item::Value(new));
            }
        }
    }
    Ok(())
}

/// The value in the type that the file uses for this key.
fn typed(key: &str, written: &str) -> Result<Value, EditError> {
    let wrong = |wanted: &str| EditError::Key { key: key.to_owned(), reason: format!("it takes {wanted}, not {written:?}") };
    if LISTS.contains(&key) {
        let array: Array = written.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        return Ok(array.into());
    }
    if NUMBERS.contains(&key) {
        return written.parse::<i64>().map(Value::from).map_err(|_| wrong("a number"));
    }
    if SWITCHES.contains(&key) {
        return written.parse::<bool>().map(Value::from).map_err(|_| wrong("true or false"));
    }
    Ok(written.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# Mine.
[filer]
listen = [\"127.0.0.1:0\"] # not outside

[[volume]] # the first
name = \"data\"
dir = \"/srv/data\"
clients = [\"*\"]   # everybody
squash = \"none\"

[[volume.rule]]
clients = [\"10.1.9.0/24\"]
access = \"ro\"

[[volume]]
name = \"other\"
dir = \"/srv/other\"
clients = [\"::1\"]
";

    fn keys(keys: &[(&str, &str)]) -> Keys {
        keys.iter().map(|(key, value)| ((*key).to_owned(), (!value.is_empty()).then(|| (*value).to_owned()))).collect()
    }

    #[test]
    fn a_key_is_changed_added_and_taken_out_and_all_else_stays_as_written() {
        let wanted = [("clients", "10.0.0.0/8,::1"), ("quota", "10GiB"), ("squash", ""), ("anonymous_uid", "7")];
        let changed = with_keys(FILE, "data", &keys(&wanted)).unwrap();
        let expected = FILE.replacen("[\"*\"]   # everybody", "[\"10.0.0.0/8\", \"::1\"]   # everybody", 1).replacen(
            "squash = \"none\"\n",
            "anonymous_uid = 7\nquota = \"10GiB\"\n",
            1,
        );
        assert_eq!(changed, expected);
        assert_eq!(with_keys(FILE, "data", &Keys::new()).unwrap(), FILE);
    }

    #[test]
    fn a_volume_is_added_behind_the_others() {
        let added = with_volume(FILE, "third", &keys(&[("dir", "/srv/third"), ("clients", "*"), ("privileged_ports", "true")]));
        let table = "\n[[volume]]\nname = \"third\"\nclients = [\"*\"]\ndir = \"/srv/third\"\nprivileged_ports = true\n";
        assert_eq!(added.unwrap(), format!("{FILE}{table}"));
        let first = with_volume("", "first", &keys(&[("dir", "/x")])).unwrap();
        assert_eq!(first.trim(), "[[volume]]\nname = \"first\"\ndir = \"/x\"");
    }

    #[test]
    fn what_cannot_be_changed_is_refused_and_says_why() {
        let set = |name, list: &[(&str, &str)]| with_keys(FILE, name, &keys(list)).unwrap_err().to_string();
        assert_eq!(set("date", &[]), "the file has no volume \"date\": it has data, other");
        assert_eq!(with_volume(FILE, "data", &Keys::new()).unwrap_err(), EditError::Exists("data".into()));
        assert!(set("data", &[("name", "x")]).contains("edit it"));
        assert!(set("data", &[("rule", "x")]).contains("edit it"));
        assert_eq!(set("data", &[("anonymous_uid", "me")]), "anonymous_uid: it takes a number, not \"me\"");
        assert!(set("data", &[("loss_layer", "on")]).contains("true or false"));
        assert_eq!(with_keys("volume = []", "x", &Keys::new()).unwrap_err(), EditError::Form);
        assert!(matches!(with_keys("[", "x", &Keys::new()), Err(EditError::Toml(_))));
    }
}
