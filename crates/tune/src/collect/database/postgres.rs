//! PostgreSQL servers in a capture, by tables of `pg_settings` and by the files of clusters.

pub(in crate::collect) mod files;
pub(in crate::collect) mod lines;
mod read;
pub(super) mod settings;
mod units;
mod values;

use std::collections::BTreeSet;

use super::answer::answers;
use super::rows::{Row, address, named, table};
use crate::collect::collected::Collected;
use crate::collect::text::words;
use crate::facts::{Database, Facts, Server};
use settings::version;

/// Notes the PostgreSQL servers of a capture.
pub(in crate::collect) fn facts(collected: &Collected, facts: &mut Facts) {
    files::servers(collected).into_iter().for_each(|server| facts.put_server(server));
    let mut tables: Vec<(&str, Option<&str>, Vec<Row>)> = Vec::new();
    let mut versions: Vec<(&str, &str)> = Vec::new();
    for (path, text) in &collected.files {
        let name = path.rsplit('/').next().unwrap_or(path);
        if name.starts_with("pg_settings") {
            tables.push((path, None, named(table(text))));
        }
        if name == "PG_VERSION" {
            versions.push((path, text.trim()));
        }
    }
    for output in &collected.commands {
        let line = output.line.to_ascii_lowercase();
        if line.contains("pg_settings") || line.contains("pg-settings") {
            tables.push((&output.line, address(&output.line), named(table(&output.text))));
        }
        let asked = line.starts_with("postgres") || line.contains("version()");
        if let Some((_, rest)) = output.text.split_once("PostgreSQL").filter(|_| asked) {
            let said = words(rest).find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
            versions.push((&output.line, said.unwrap_or_default()));
        }
    }
    answers(Database::Postgres, &tables, collected, facts);
    for (origin, said) in versions {
        place_version(said, origin, facts);
    }
}

pub(in crate::collect) use files::{packaged, questions};
pub(in crate::collect) use values::is_typed;

/// Files and folders that the servers read and that were not collected.
pub(in crate::collect) fn wanted(collected: &Collected) -> BTreeSet<String> {
    let wanted = files::clusters(collected).into_iter().flat_map(|cluster| {
        let version = cluster.data.map(|data| format!("{data}/PG_VERSION"));
        cluster.found.wanted.into_iter().chain(version)
    });
    wanted.collect()
}

/// Notes a version from a data directory or a command. It belongs to the server of that directory;
/// otherwise to the only server.
fn place_version(said: &str, origin: &str, facts: &mut Facts) {
    let folder = origin.strip_suffix("/PG_VERSION");
    let is_of = |server: &Server| folder.is_some() && directory(server).as_deref() == folder;
    let servers: Vec<usize> =
        (0..).zip(&facts.servers).filter(|(_, server)| server.database == Database::Postgres).map(|(at, _)| at).collect();
    let of_folder = facts.servers.iter().position(is_of);
    let only = if let [only] = servers.as_slice() { Some(*only) } else { None };
    match of_folder.or(only).and_then(|at| facts.servers.get_mut(at)) {
        Some(server) => version(said, origin, &mut server.facts),
        None if servers.is_empty() => version(said, origin, facts),
        None => {}
    }
}

/// The data directory of a server: the one that it reports, otherwise the folder of its
/// configuration file.
fn directory(server: &Server) -> Option<String> {
    let said = server.facts.host_text("postgres.data_directory").map(str::to_owned);
    said.or_else(|| server.config.as_deref()?.rsplit_once('/').map(|(folder, _)| folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Value;

    #[test]
    fn both_sources_give_bytes_and_milliseconds() {
        let mut collected = Collected::default();
        let table = " name | setting | unit | pending_restart \n------+---------+------+---\n shared_buffers | 16384 | 8kB | f\n checkpoint_timeout | 300 | s | t\n \
            wal_buffers | -1 | 8kB | f\n debug_io_direct |  |  | f\n server_version_num | 170002 | | f\n(5 rows)\n";
        collected.take_file("/pg_settings.txt", table.as_bytes());
        let conf = "shared_buffers = 256MB # more\ncheckpoint_timeout = 15min\nmax_wal_size = 4096\nlisten_addresses = 'a ''b'' c'\nfsync off\n";
        collected.take_file("/postgresql.conf", conf.as_bytes());
        collected.take_file("/postgresql.auto.conf", b"");
        let mut found = Facts::default();
        facts(&collected, &mut found);
        let of = |name: &str| found.value(&format!("postgres.{name}")).cloned();
        assert_eq!(of("shared_buffers"), Some((128_i64 << 20).into()));
        assert_eq!(of("checkpoint_timeout"), Some(300_000.into()));
        assert_eq!(of("wal_buffers"), Some((-1).into()));
        assert_eq!(of("debug_io_direct"), Some("".into()));
        assert_eq!(of("version"), Some(170_002.into()));
        assert_eq!(of("pending_restart"), Some(Value::List(vec!["checkpoint_timeout".into()])));
        assert_eq!(of("max_wal_size"), Some((4_i64 << 30).into()));
        assert_eq!(of("listen_addresses"), Some("a 'b' c".into()));
        assert_eq!(of("fsync"), Some(false.into()));
        assert_eq!(found.value_of("setting", "postgres shared_buffers", "persistent"), Some(&(256_i64 << 20).into()));
    }

    #[test]
    fn what_no_file_sets_of_the_data_is_as_the_server_begins_where_every_file_was_read() {
        const CONF: &str = "/etc/postgresql/15/main/postgresql.conf";
        let fsync = |conf: &str, with_auto: bool| {
            let mut collected = Collected::default();
            collected.take_file(CONF, format!("data_directory = '/data'\n{conf}").as_bytes());
            if with_auto {
                collected.take_file("/data/postgresql.auto.conf", b"# Do not edit this file manually!\n");
            }
            let mut found = Facts::default();
            facts(&collected, &mut found);
            found.value("postgres.fsync").cloned()
        };
        assert_eq!(fsync("", true), Some(true.into()));
        assert_eq!(fsync("fsync = off\n", true), Some(false.into()));
        // ALTER SYSTEM, or an included file that was not collected, may have set it.
        assert_eq!(fsync("", false), None);
        assert_eq!(fsync("include 'more.conf'\n", true), None);
    }
}
