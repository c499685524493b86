//! MySQL and MariaDB servers in a capture, by tables of `SHOW VARIABLES` and by option files.

mod asked;
mod groups;
mod identity;
mod options;
mod persisted;
mod read;
mod servers;
pub(super) mod settings;

use super::answer::answers;
use super::rows::{Row, address, named, table};
use crate::collect::collected::Collected;
use crate::facts::{Database, Facts};

pub(in crate::collect) use asked::{PROGRAMS, questions, told};
pub(super) use options::is_asked;
pub(in crate::collect) use options::is_asked_argument;
pub(in crate::collect) use servers::{DATADIR, DEFAULT_FILES, data_directories, reads_default_files, wanted};

/// Notes the servers of a capture.
pub(in crate::collect) fn facts(collected: &Collected, facts: &mut Facts) {
    servers::servers(collected).into_iter().for_each(|server| facts.put_server(server));
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
    answers(Database::Mysql, &tables, collected, facts);
}

/// Whether a server reads options from the file with this path.
pub(in crate::collect) fn is_option_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "my.cnf" || ((path.starts_with("/etc/my.cnf.d/") || path.starts_with("/etc/mysql/")) && name.ends_with(".cnf"))
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
        collected.take_command("dpkg-query -W", b"mariadb-server\t1:10.11.6-0+deb12u1\n", Some(0));
        collected.take_file(
            "/etc/my.cnf",
            b"[client]\nport=1\n[mysqld]\ninnodb-buffer-pool-size = 8G\nskip-innodb-doublewrite\nlog-bin=/x/bin\n",
        );
        collected.absent.insert("/etc/mysql/my.cnf".to_owned());
        let mut found = Facts::default();
        facts(&collected, &mut found);
        assert_eq!(found.value("mysql.version"), Some(&"10.11.6".into()));
        assert_eq!(found.value("mysql.flavor"), Some(&"mariadb".into()));
        assert_eq!(found.value("mysql.innodb_doublewrite"), Some(&true.into()));
        assert_eq!(found.value("persistent.mysql.innodb_doublewrite"), Some(&false.into()));
        assert_eq!(found.value("mysql.innodb_buffer_pool_size"), Some(&(8_i64 << 30).into()));
        assert_eq!(found.value("mysql.port"), None);
    }
}
