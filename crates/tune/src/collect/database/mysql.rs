//! MySQL and MariaDB: `SHOW VARIABLES`, `my.cnf`.

use std::collections::BTreeMap;

use super::rows::{Row, named, plain, table};
use crate::collect::collected::Collected;
use crate::collect::persistent::put_setting;
use crate::collect::text::{bytes, integer, odd, telling, unquoted};
use crate::facts::{Facts, Value};

/// Settings found in a capture.
pub(in crate::collect) fn facts(collected: &Collected, facts: &mut Facts) {
    for (path, text) in &collected.files {
        if path.ends_with("/variables.txt") {
            rows(&named(table(text)), path, facts);
        }
    }
    for output in &collected.commands {
        let line = output.line.to_ascii_lowercase();
        if (line.contains("mysql") || line.contains("mariadb") || line.contains("show")) && line.contains("variables") {
            rows(&named(table(&output.text)), &output.line, facts);
        }
    }
    let mut found: BTreeMap<String, (Value, String)> = BTreeMap::new();
    for (path, text) in &collected.files {
        let name = path.rsplit('/').next().unwrap_or(path);
        if name == "my.cnf" || ((path.starts_with("/etc/my.cnf.d/") || path.starts_with("/etc/mysql/")) && name.ends_with(".cnf"))
        {
            option_file(text, path, &mut found, facts);
        }
    }
    for (name, (value, origin)) in found {
        facts.put(&format!("persistent.mysql.{name}"), value.clone(), &origin);
        match facts.value(&format!("mysql.{name}")).cloned() {
            Some(running) => put_setting(&format!("mysql {name}"), running, value, &origin, facts),
            None => facts.put(&format!("mysql.{name}"), value, &origin),
        }
    }
    // A file says which of both it is only by its sections.
    let mariadb = collected.files.keys().any(|path| path.contains("mariadb"));
    if facts.value("mysql.flavor").is_none() && mariadb && facts.host.keys().any(|name| name.starts_with("mysql.")) {
        facts.put("mysql.flavor", "mariadb", "the file's name");
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
            (_, Some(said)) => (name, amount(unquoted(said.split(" #").next().unwrap_or(said)))),
        };
        // A path as value of a switch is the switch turned on.
        let value = if name == "log_bin" && matches!(value, Value::Text(_)) { Value::Bool(true) } else { value };
        found.insert(name.to_owned(), (value, format!("{path}:{number}")));
    }
}

fn amount(said: &str) -> Value {
    match bytes(said) {
        Some(size) if said.ends_with(|letter: char| letter.is_ascii_alphabetic()) && !said.contains('.') => Value::Int(size),
        _ => plain(said),
    }
}

/// Rows of `SHOW VARIABLES`.
pub(super) fn rows(rows: &[Row], origin: &str, facts: &mut Facts) {
    for row in rows {
        let name = row.name.to_ascii_lowercase();
        if name == "version" {
            let number = row.value.split('-').next().unwrap_or(&row.value);
            // Replication once made MariaDB call itself 5.5.5-10.x.
            let number = row
                .value
                .strip_prefix("5.5.5-")
                .and_then(|rest| rest.split('-').next())
                .filter(|_| row.value.contains("MariaDB"))
                .unwrap_or(number);
            facts.put("mysql.version", number, origin);
            let comment = rows.iter().any(|row| {
                row.name.eq_ignore_ascii_case("version_comment") && row.value.to_ascii_lowercase().contains("mariadb")
            });
            let mariadb = comment || row.value.to_ascii_lowercase().contains("mariadb");
            facts.put("mysql.flavor", if mariadb { "mariadb" } else { "mysql" }, origin);
            continue;
        }
        let value = match integer(&row.value) {
            Some(number) => Value::Int(number),
            None => plain(&row.value),
        };
        facts.put(&format!("mysql.{name}"), value, origin);
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
}
