//! Finds MySQL and MariaDB servers by their option files and command lines.

use std::collections::BTreeSet;

use super::asked;
use super::groups::Identity;
use super::identity::{Ground, identity};
use super::options::Flavor;
use super::persisted;
use super::read::{Found, file, option};
use crate::collect::collected::Collected;
use crate::collect::database::from_files::by_files;
use crate::collect::running::Running;
use crate::collect::running_text;
use crate::collect::sources::Source;
use crate::facts::{COMMAND_LINE, Database, Facts, Server, Value};

/// The files that a server reads if its command line names no others, in order.
pub(in crate::collect) const DEFAULT_FILES: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];

/// The default data directory.
pub(in crate::collect) const DATADIR: &str = "/var/lib/mysql";

/// One server: the files that it reads, and its process if it runs.
pub(super) struct Start<'a> {
    files: Vec<String>,
    pub(super) running: Option<&'a Running>,
}

/// What one server reads.
pub(super) struct Read {
    /// The file that identifies the server.
    pub(super) first: String,
    identity: Identity,
    ground: Ground,
    pub(super) found: Found,
    /// Whether it is the server that reads the files below `/etc`.
    pub(super) is_default: bool,
}

/// Files and folders that the servers read and that were not collected.
pub(in crate::collect) fn wanted(collected: &Collected) -> BTreeSet<String> {
    starts(collected).iter().flat_map(|start| read(start, collected).found.wanted).collect()
}

/// The data directories of the servers; the default one if it is not known.
pub(in crate::collect) fn data_directories(collected: &Collected) -> BTreeSet<String> {
    let of = |start: &Start<'_>| data_directory(&read(start, collected).found).unwrap_or_else(|| DATADIR.to_owned());
    starts(collected).iter().map(of).collect()
}

pub(super) fn data_directory(found: &Found) -> Option<String> {
    match found.get("datadir") {
        Some((Value::Text(path), _)) => Some(path.trim_end_matches('/').to_owned()),
        _ => None,
    }
}

/// The servers that files and processes show.
pub(super) fn servers(collected: &Collected) -> Vec<Server> {
    starts(collected).iter().map(|start| server(read(start, collected), collected)).collect()
}

/// One entry for each running server; one for the files below `/etc`, unless a running server reads
/// them; and one for each other `my.cnf`.
pub(super) fn starts(collected: &Collected) -> Vec<Start<'_>> {
    let is_here = |path: &str| collected.files.contains_key(path) || collected.denied.contains_key(path);
    let running = collected.running.iter().filter(|server| server.database == Database::Mysql);
    let mut starts: Vec<Start<'_>> = running.map(|server| Start { files: files_of(server), running: Some(server) }).collect();
    let is_default = |start: &Start<'_>| start.files.iter().any(|path| DEFAULT_FILES.contains(&path.as_str()));
    if !starts.iter().any(is_default) && DEFAULT_FILES.into_iter().any(is_here) {
        starts.push(Start { files: DEFAULT_FILES.map(str::to_owned).to_vec(), running: None });
    }
    let read: BTreeSet<String> = starts.iter().flat_map(|start| start.files.clone()).collect();
    let others = collected.files.keys().filter(|path| {
        path.ends_with("/my.cnf") && !["/etc/my", "/etc/alternatives/"].iter().any(|begin| path.starts_with(begin))
    });
    let others = others.filter(|path| !read.contains(*path));
    starts.extend(others.map(|path| Start { files: vec![path.clone()], running: None }));
    starts
}

/// The files that a server with this command line reads.
fn files_of(server: &Running) -> Vec<String> {
    if server.arguments.first().is_some_and(|word| word == "--no-defaults") {
        return Vec::new();
    }
    if let Some(config) = &server.config {
        return vec![config.clone()];
    }
    let extra = server.arguments.iter().filter_map(|word| word.strip_prefix("--defaults-extra-file="));
    DEFAULT_FILES.into_iter().chain(extra).map(str::to_owned).collect()
}

/// Whether a running server reads the files below `/etc`.
pub(in crate::collect) fn reads_default_files(server: &Running) -> bool {
    files_of(server).iter().any(|path| DEFAULT_FILES.contains(&path.as_str()))
}

pub(super) fn read(start: &Start<'_>, collected: &Collected) -> Read {
    let (mut identity, ground) = identity(collected);
    let arguments = start.running.map_or(&[][..], |server| &server.arguments);
    let suffix = arguments.iter().find_map(|word| word.strip_prefix("--defaults-group-suffix="));
    identity.suffix = suffix.unwrap_or_default().to_owned();
    let mut found = Found::default();
    start.files.iter().for_each(|path| file(collected, path, &identity, &mut found));
    let first = start.files.iter().find(|path| collected.files.contains_key(*path)).or(start.files.first());
    let first = first.cloned().unwrap_or_default();
    let is_default = start.files.iter().any(|path| DEFAULT_FILES.contains(&path.as_str()));
    found.end_of_files();
    for word in arguments.iter().filter(|word| !word.starts_with("--defaults-")) {
        let Some(word) = word.strip_prefix("--") else { continue };
        let (name, said) = word.split_once('=').map_or((word, None), |(name, said)| (name, Some(said)));
        option(name, said, COMMAND_LINE, &identity, &mut found);
    }
    if let Some(reason) = running_text::lost(Database::Mysql, collected) {
        found.gap(format!("{reason}, and a command line decides over files"));
    }
    asked::take(&first, &identity, collected, &mut found);
    // The server reads what SET PERSIST of MySQL 8 wrote last.
    let is_known = !found.is_unknown("datadir");
    let path = format!("{}/mysqld-auto.cnf", data_directory(&found).as_deref().unwrap_or(DATADIR));
    match (collected.source(&path), identity.flavor) {
        (_, Some(Flavor::MariaDb)) if ground == Ground::Package => {}
        (Source::Read(text), _) => persisted::read(text, &path, &identity, &mut found),
        (Source::Absent, _) if is_known => {}
        (Source::Unread(_) | Source::Absent, Some(Flavor::MariaDb)) => drop(found.wanted.insert(path)),
        (Source::Absent, _) => found.gap("the data directory is not known, in which SET PERSIST of MySQL writes".to_owned()),
        (source @ Source::Unread(_), _) => drop(found.open(&path, source)),
    }
    found.end_of_files();
    Read { first, identity, ground, found, is_default }
}

fn server(read: Read, collected: &Collected) -> Server {
    let Read { first, identity, ground, found, is_default } = read;
    let mut facts = Facts::default();
    let word = identity.flavor.map(|flavor| if flavor == Flavor::MariaDb { "mariadb" } else { "mysql" });
    if let Some(word) = word {
        facts.put("mysql.flavor", word, if ground == Ground::Package { "packages" } else { "the layout of its files" });
    }
    // This fact shows that a server exists, even if none of its options is known.
    facts.put("mysql.option_file", first.as_str(), &first);
    for (name, value) in defaults(identity.flavor) {
        if found.get(name).is_none() && !found.is_unknown(name) {
            facts.put(&format!("mysql.{name}"), value, "the server's default");
        }
    }
    found.put(Database::Mysql, &mut facts, |_, value| Ok(value.clone()));
    let place = if first.starts_with("/etc/mysql/") { "/etc/mysql" } else { &first };
    let stopped = is_default && collected.stopped.contains("mysql");
    let kind = match identity.flavor {
        Some(Flavor::MariaDb) => "MariaDB",
        Some(Flavor::MySql) => "MySQL",
        None => "MySQL or MariaDB",
    };
    by_files(Database::Mysql, kind, place, stopped, Some(&first), facts)
}

/// Options on which the safety of the data depends, with their defaults, which are the same in
/// every version.
fn defaults(flavor: Option<Flavor>) -> Vec<(&'static str, Value)> {
    let mut all = vec![("innodb_doublewrite", Value::Bool(true)), ("innodb_flush_log_at_trx_commit", Value::Int(1))];
    if flavor == Some(Flavor::MariaDb) {
        all.extend([("log_bin", Value::Bool(false)), ("sync_binlog", Value::Int(0))]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: &str = "mysql.innodb_flush_log_at_trx_commit";

    fn only(collected: &Collected) -> Facts {
        let mut servers = servers(collected);
        assert_eq!(servers.len(), 1, "{servers:?}");
        servers.remove(0).facts
    }

    /// A Debian 12 host with these lines in an option file of MariaDB.
    fn host(lines: &str) -> Collected {
        let mut collected = Collected::default();
        collected.take_file("/etc/os-release", b"ID=debian\nVERSION_ID=\"12\"\n");
        collected.take_file("/etc/mysql/my.cnf", b"!includedir /etc/mysql/mariadb.conf.d/\n");
        collected.take_file("/etc/mysql/mariadb.conf.d/50-server.cnf", lines.as_bytes());
        let names = BTreeSet::from(["50-server.cnf".to_owned()]);
        collected.folders.insert("/etc/mysql/mariadb.conf.d".to_owned(), names);
        collected.absent.insert("/etc/my.cnf".to_owned());
        collected
    }

    #[test]
    fn what_no_file_sets_is_as_the_server_begins_where_every_file_was_read() {
        let mut collected = host("[mysqld]\nsync_binlog=1\n");
        let facts = only(&collected);
        assert_eq!((facts.value(FLUSH), facts.value("mysql.sync_binlog")), (Some(&1.into()), Some(&1.into())));
        collected.folders.clear();
        let facts = only(&collected);
        assert_eq!((facts.value(FLUSH), facts.value("mysql.sync_binlog")), (None, None));
        assert!(facts.unknown.contains_key("mysql."), "{facts:?}");
    }

    #[test]
    fn what_set_persist_wrote_decides_and_only_mysql_reads_it() {
        let mut collected = host("[mysqld]\nlog_bin\nsync_binlog=1\n");
        let text = br#"{"Version":2,"mysql_dynamic_variables":{"sync_binlog":{"Value":"0"}}}"#;
        collected.take_file("/var/lib/mysql/mysqld-auto.cnf", text);
        let facts = only(&collected);
        assert_eq!((facts.value("mysql.sync_binlog"), facts.value("mysql.flavor")), (Some(&0.into()), Some(&"mysql".into())));
        collected.take_command("dpkg-query -W", b"mariadb-server\t1:10.11.6\n", Some(0));
        assert_eq!(only(&collected).value("mysql.sync_binlog"), Some(&1.into()));
        // It is not known which server reads /etc/my.cnf, nor whether there is a file
        // /etc/mysql/my.cnf.
        let mut collected = Collected::default();
        collected.take_file("/etc/my.cnf", b"[mysqld]\ninnodb_flush_log_at_trx_commit=1\n");
        assert_eq!(only(&collected).value(FLUSH), None);
    }

    #[test]
    fn a_command_line_decides_over_files_and_may_name_others() {
        let arguments = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let running = |words: &[&str], config: Option<&str>| Running {
            arguments: arguments(words),
            config: config.map(str::to_owned),
            ..Running::of(Database::Mysql, 7, 105)
        };
        let mut collected = host("[mysqld]\ninnodb_flush_log_at_trx_commit=1\n[mysqld.a]\ninnodb_flush_log_at_trx_commit=3\n");
        collected.running = vec![running(&["--innodb-flush-log-at-trx=0", "--user=mysql"], None)];
        assert_eq!(only(&collected).value(FLUSH), Some(&0.into()));
        collected.running = vec![running(&["--defaults-group-suffix=.a"], None)];
        assert_eq!(only(&collected).value(FLUSH), Some(&3.into()));
        collected.take_file("/srv/b.cnf", b"[mysqld]\ninnodb_flush_log_at_trx_commit=2\n");
        collected.running = vec![running(&["--defaults-file=/srv/b.cnf"], Some("/srv/b.cnf"))];
        let values: Vec<Option<Value>> = servers(&collected).iter().map(|server| server.facts.value(FLUSH).cloned()).collect();
        assert_eq!(values, [Some(2.into()), Some(1.into())]);
    }
}
