//! Servers of MySQL and MariaDB in a capture: by tables of `SHOW VARIABLES`, and by option files.

pub(super) mod settings;

use std::collections::BTreeMap;

use super::answer::answers;
use super::from_files::by_files;
use super::rows::{Row, address, named, plain_setting, table};
use crate::collect::collected::Collected;
use crate::collect::text::{bytes, odd, telling, unquoted};
use crate::facts::{Database, Facts, Value};

/// Servers found in a capture.
pub(in crate::collect) fn facts(collected: &Collected, facts: &mut Facts) {
    by_option_files(collected, facts);
    let mut tables: Vec<(&str, Option<&str>, Vec<Row>)> = Vec::new();
    for (path, text) in &collected.files {
        if path.ends_with("/variables.txt") {
            tables.push((path, None, named(table(text))));
        }
    }
    for output in &collected.commands {
        let line = output.line.to_ascii_lowercase();
        if (line.contains("mysql") || line.contains("mariadb") || line.contains("show")) && line.contains("variables") {
            tables.push((&output.line, address(&output.line), named(table(&output.text))));
        }
    }
    answers(Database::Mysql, &tables, facts);
}

/// Whether a server reads the file with this path as one with its options.
pub(in crate::collect) fn is_option_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "my.cnf" || ((path.starts_with("/etc/my.cnf.d/") || path.starts_with("/etc/mysql/")) && name.ends_with(".cnf"))
}

/// Whether a running server reads the file.
fn is_read(collected: &Collected, path: &str) -> bool {
    collected.running_with(path).is_some_and(|server| server.database == Database::Mysql)
}

/// Servers that option files tell of: one for all files below `/etc`, and one for each other file.
fn by_option_files(collected: &Collected, facts: &mut Facts) {
    let mut sets: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in collected.files.iter().filter(|(path, _)| is_option_file(path) || is_read(collected, path)) {
        let set = if path.starts_with("/etc/") { "/etc/" } else { path.as_str() };
        sets.entry(set).or_default().push((path, text));
    }
    for set in sets.into_values() {
        let mut found = BTreeMap::new();
        let mut own = Facts::default();
        set.iter().for_each(|(path, text)| option_file(text, path, &mut found, &mut own));
        let read: Vec<&str> = set.iter().map(|(path, _)| *path).filter(|path| is_read(collected, path)).collect();
        let first = found.values().map(|(_, origin)| origin.rsplit_once(':').map_or("", |(path, _)| path).to_owned()).min();
        let Some(first) = first.or_else(|| read.first().map(|path| (*path).to_owned())) else {
            own.remarks.into_iter().for_each(|remark| facts.remark(remark));
            continue;
        };
        // A command line decides over files.
        for (name, said) in read.iter().filter_map(|path| collected.running_with(path)).flat_map(|server| &server.options) {
            found.insert(name.clone(), (value(name, said), "its command line".to_owned()));
        }
        for (name, (value, origin)) in found {
            own.put(&format!("persistent.mysql.{name}"), value.clone(), &origin);
            own.put(&format!("mysql.{name}"), value, &origin);
        }
        // A file says which of both it is only by its name or its sections.
        let mariadb = set.iter().any(|(path, _)| path.contains("mariadb"));
        if mariadb {
            own.put("mysql.flavor", "mariadb", "the file's name");
        }
        let place = if first.starts_with("/etc/mysql/") { "/etc/mysql" } else { &first };
        let stopped = collected.stopped.contains("mysql") && first.starts_with("/etc/");
        let kind = if mariadb { "MariaDB" } else { "MySQL or MariaDB" };
        facts.put_server(by_files(Database::Mysql, kind, place, stopped, Some(&first), own));
    }
}

/// Sections of servers; others are for clients.
fn option_file(text: &str, path: &str, found: &mut BTreeMap<String, (Value, String)>, facts: &mut Facts) {
    let mut ours = false;
    for (number, line) in telling(text, &['#', ';', '!']) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            ours = ["mysqld", "server", "mariadb", "mariadbd"]
                .iter()
                .any(|begin| section == *begin || section.strip_prefix(begin).is_some_and(|rest| rest.starts_with('-')));
            continue;
        }
        if !ours {
            continue;
        }
        let (name, said) = line.split_once('=').map_or((line, None), |(name, said)| (name, Some(said)));
        let name = name.trim().replace('-', "_");
        if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.') {
            odd(facts, path, number, line);
            continue;
        }
        let name = name.strip_prefix("loose_").unwrap_or(&name);
        let (name, value) = match (name.strip_prefix("skip_"), said) {
            (Some(rest), None) if rest.starts_with("innodb") || rest == "log_bin" => (rest, Value::Bool(false)),
            (_, None) => (name, Value::Bool(true)),
            (_, Some(said)) => (name, value(name, unquoted(said.split(" #").next().unwrap_or(said)))),
        };
        // A path as value of a switch is the switch turned on.
        let value = if name == "log_bin" && matches!(value, Value::Text(_)) { Value::Bool(true) } else { value };
        found.insert(name.to_owned(), (value, format!("{path}:{number}")));
    }
}

/// Switches that rules ask for: files may write them as numbers, and the server says `ON` or `OFF`.
const SWITCHES: &[&str] = &["innodb_data_file_buffering", "innodb_doublewrite", "innodb_use_native_aio"];

/// A value of a file or a command line, as the server would say it.
fn value(name: &str, said: &str) -> Value {
    match said {
        "0" if SWITCHES.contains(&name) => return Value::Bool(false),
        "1" if SWITCHES.contains(&name) => return Value::Bool(true),
        _ => {}
    }
    match bytes(said) {
        Some(size) if said.ends_with(|letter: char| letter.is_ascii_alphabetic()) && !said.contains('.') => Value::Int(size),
        _ => plain_setting(name, said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_option_files_give_the_same_names() {
        let mut collected = Collected::default();
        collected.take_command(
            "mysql -e SHOW VARIABLES",
            b"Variable_name\tValue\nversion\t10.11.6-MariaDB-0+deb12u1\ninnodb_doublewrite\tON\nsync_binlog\t0\n",
            Some(0),
        );
        collected.take_file(
            "/etc/my.cnf",
            b"[client]\nport=1\n[mysqld]\ninnodb-buffer-pool-size = 8G\nskip-innodb-doublewrite\nlog-bin=/x/bin\n???\n",
        );
        let mut found = Facts::default();
        facts(&collected, &mut found);
        assert_eq!(found.value("mysql.version"), Some(&"10.11.6".into()));
        assert_eq!(found.value("mysql.flavor"), Some(&"mariadb".into()));
        assert_eq!(found.value("mysql.innodb_doublewrite"), Some(&true.into()));
        assert_eq!(found.value("persistent.mysql.innodb_doublewrite"), Some(&false.into()));
        assert_eq!(found.value("mysql.innodb_buffer_pool_size"), Some(&(8_i64 << 30).into()));
        assert_eq!(found.value("mysql.port"), None);
        assert_eq!(found.remarks.len(), 1);
    }

    #[test]
    fn a_switch_of_an_option_file_is_one_however_it_is_written() {
        for (line, is_on) in [
            ("innodb_doublewrite=0", false),
            ("innodb-doublewrite = 0 # fast", false),
            ("loose-innodb_doublewrite = '0'", false),
            ("innodb_doublewrite = OFF", false),
            ("skip-innodb_doublewrite", false),
            ("innodb_doublewrite", true),
            ("innodb_doublewrite=1", true),
        ] {
            let mut collected = Collected::default();
            collected.take_file("/etc/mysql/mariadb.conf.d/50-server.cnf", format!("[mysqld]\n{line}\n").as_bytes());
            let mut found = Facts::default();
            facts(&collected, &mut found);
            assert_eq!(found.value("mysql.innodb_doublewrite"), Some(&is_on.into()), "{line}");
        }
    }
}
