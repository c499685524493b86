//! Turns the answer of a database server into a server of the facts, combined with the files that
//! belong to it.

use std::borrow::Cow;

use super::as_shown::as_shown;
use super::mysql::settings::rows as mysql_rows;
use super::oracle::rows as oracle_rows;
use super::postgres::settings::rows as postgres_rows;
use super::rows::{Row, address, named, table};
use crate::collect::collected::Collected;
use crate::collect::persistent::put_setting;
use crate::facts::{Database, Facts, Server, ServerState, Value, set_by};
use crate::shown_value::shown;

/// The default data directory of MySQL and MariaDB.
const MYSQL_DIRECTORY: &str = "/var/lib/mysql";

/// The answer of a database server.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The database.
    pub database: Database,
    /// Its settings.
    pub rows: &'a [Row],
    /// The query and its target. It is the origin of values for which the server names no source.
    pub origin: &'a str,
    /// The server's address, `localhost:5432`, or the path of its socket. `None` if the table does
    /// not name it.
    pub address: Option<&'a str>,
    /// Whether its address is an address of this host.
    pub runs_here: bool,
    /// Whether it runs on this host and its data directory exists here, so that the files it names
    /// are files of this host.
    pub is_here: bool,
}

/// Whether an address can only belong to the host that asked: a socket or a loopback address.
#[must_use]
pub fn is_local(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    address.starts_with('/') || host == "localhost" || host.parse().is_ok_and(|host: std::net::IpAddr| host.is_loopback())
}

/// The data directory that a server reports, without a slash at its end.
#[must_use]
pub fn data_directory(database: Database, rows: &[Row]) -> Option<&str> {
    let name = match database {
        Database::Postgres => "data_directory",
        Database::Mysql => "datadir",
        Database::Oracle => return None,
    };
    let said = rows.iter().find(|row| row.name == name && row.set_for.is_none())?.value.trim_end_matches('/');
    said.starts_with('/').then_some(said)
}

/// The data directory in a table of a capture, if a server on the captured host returned the table.
pub(in crate::collect) fn data_directory_here(line: &str, text: &str) -> Option<String> {
    let rows = named(table(text));
    let of = |database| data_directory(database, &rows).map(str::to_owned);
    of(Database::Postgres).or_else(|| of(Database::Mysql)).filter(|_| address(line).is_none_or(is_local))
}

/// Notes the settings that a server returned. They take precedence. Collected files of the same
/// server show what a restart would change.
pub(in crate::collect) fn database_rows(answer: &Answer<'_>, facts: &mut Facts) {
    note(answer, false, facts);
}

/// Notes tables of a capture: the origin of each, the address that was queried, and its rows.
pub(super) fn answers(database: Database, tables: &[(&str, Option<&str>, Vec<Row>)], collected: &Collected, facts: &mut Facts) {
    for (origin, address, rows) in tables {
        let runs_here = address.is_none_or(is_local);
        let is_absent = data_directory(database, rows).is_some_and(|data| collected.absent.contains(data));
        let answer = Answer { database, rows, origin, address: *address, runs_here, is_here: runs_here && !is_absent };
        note(&answer, tables.len() == 1, facts);
    }
}

/// As [`database_rows`]. `only` means that the capture has no other table; the table may then have
/// only some of the settings.
fn note(answer: &Answer<'_>, only: bool, facts: &mut Facts) {
    let Answer { database, origin, .. } = *answer;
    let mut own = Facts::default();
    let rows = &elsewhere(answer);
    match database {
        Database::Postgres => postgres_rows(rows, origin, &mut own),
        Database::Mysql => mysql_rows(rows, origin, &mut own),
        // Facts of Oracle belong to one server without a name.
        Database::Oracle => return oracle_rows(rows, origin, facts),
    }
    let config = own.host_text("postgres.config_file").filter(|_| answer.is_here).map(str::to_owned);
    let name = name(answer, &own);
    let mut server = Server { name, database, state: ServerState::Live, config, facts: own };
    let files = |other: &Server| other.database == database && other.state != ServerState::Live;
    let only = only && facts.servers.iter().filter(|other| files(other)).count() == 1;
    if !answer.is_here {
        facts.note_data_not_here(&mut server, answer.runs_here, &where_then(answer));
    }
    let found = facts.servers.iter().position(|other| files(other) && answer.is_here && belongs(other, &server, only));
    match found {
        // The server that answers cannot have its data in the directory of a stopped server. It
        // runs in a container in which the files have the same names.
        Some(place) if facts.servers.get(place).is_some_and(|files| files.state == ServerState::Stopped) => server.config = None,
        Some(place) => {
            let files = facts.servers.remove(place);
            take_files(&mut server, files, origin, only && answer.address.is_none());
        }
        None => not_assigned(answer, &server, facts),
    }
    facts.put_server(server);
}

/// Where the data is if the server runs elsewhere or its data directory does not exist here.
fn where_then(answer: &Answer<'_>) -> String {
    match answer.address.filter(|_| !answer.runs_here) {
        Some(address) => format!("the server is at {address}"),
        None => "the server is in a container, reached through a tunnel, or in a Direct NFS mount of another user".to_owned(),
    }
}

/// Adds a remark if collected files may belong to a server that shows this user neither its
/// configuration file nor its data directory.
fn not_assigned(answer: &Answer<'_>, server: &Server, facts: &mut Facts) {
    let has_files = facts.servers_of(answer.database).any(|other| other.state != ServerState::Live);
    if answer.is_here && has_files && server.config.is_none() && directory(&server.facts).is_none() {
        let name = &server.name;
        facts.remark(format!("{name} does not tell this user its data_directory: files of this host are not compared with it"));
    }
}

/// The rows. If the server is on another host, the origins of its rows say so, because the files
/// are not this host's.
fn elsewhere<'a>(answer: &Answer<'a>) -> Cow<'a, [Row]> {
    if answer.is_here {
        return Cow::Borrowed(answer.rows);
    }
    let address = answer.address.unwrap_or("another host");
    let source = |row: &Row| {
        let at = |source: &String| if set_by(source).is_some() { source.clone() } else { format!("{source} at {address}") };
        row.source.as_ref().map(at)
    };
    answer.rows.iter().map(|row| Row { source: source(row), ..row.clone() }).collect()
}

fn directory(facts: &Facts) -> Option<&str> {
    let directory = facts.host_text("postgres.data_directory").or_else(|| facts.host_text("mysql.datadir"));
    directory.map(|directory| directory.trim_end_matches('/'))
}

fn name(answer: &Answer<'_>, own: &Facts) -> String {
    let kind = match answer.database {
        Database::Postgres => "PostgreSQL",
        Database::Mysql if own.value("mysql.flavor") == Some(&"mariadb".into()) => "MariaDB",
        Database::Mysql => "MySQL",
        Database::Oracle => "Oracle",
    };
    let port = match own.value(&format!("{}port", answer.database.prefix())) {
        Some(Value::Int(port)) => Some(format!("port {port}")),
        _ => None,
    };
    let address = answer.address.map(str::to_owned).or(port).map(|address| format!(" at {address}")).unwrap_or_default();
    let directory = directory(own).map(|directory| format!(" ({directory})")).unwrap_or_default();
    shown(&Value::from(format!("{kind}{address}{directory}")))
}

/// Whether these files belong to this server: both name the same configuration file or data
/// directory. If neither can be compared, they belong together only if there is no other server.
fn belongs(files: &Server, server: &Server, only: bool) -> bool {
    // A file without a folder was collected without its path, so its path cannot be compared.
    let config = files.config.as_deref().filter(|config| config.rfind('/') > Some(0) && files.database == Database::Postgres);
    let default = (files.database == Database::Mysql && !only).then_some(MYSQL_DIRECTORY);
    let same = [
        config.zip(server.facts.host_text("postgres.config_file")),
        directory(&files.facts).or(default).zip(directory(&server.facts)),
    ];
    let mut told = same.into_iter().flatten().map(|(one, other)| one == other).peekable();
    if told.peek().is_none() { only } else { told.any(|same| same) }
}

/// Takes the values that a restart would bring from the server's files. A setting is skipped if the
/// server read its value from another file or source. With `partly`, settings that the server did
/// not return are taken from the files.
fn take_files(server: &mut Server, files: Server, asked: &str, partly: bool) {
    let database = server.database.prefix();
    for (name, fact) in files.facts.host.iter().filter_map(|(name, fact)| Some((name.strip_prefix("persistent.")?, fact))) {
        let running = server.facts.host.get(name).cloned();
        match running {
            Some(running) if running.origin != asked && file(&running.origin) != file(&fact.origin) => continue,
            Some(running) => {
                let short = name.strip_prefix(database).unwrap_or(name);
                let shown = as_shown(server.database, short, &running.value, &fact.value, &server.facts);
                if let Some(value) = shown {
                    let setting = format!("{} {short}", database.trim_end_matches('.'));
                    put_setting(&setting, &running, value, &fact.origin, &mut server.facts);
                }
            }
            None if partly => server.facts.put(name, fact.value.clone(), &fact.origin),
            None => {}
        }
        server.facts.put(&format!("persistent.{name}"), fact.value.clone(), &fact.origin);
    }
    server.config = server.config.take().or(files.config);
}

/// The file in an origin of the form `FILE:LINE`.
fn file(origin: &str) -> &str {
    origin.rsplit_once(':').map_or(origin, |(file, _)| file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::database::{as_text, mysql, postgres};

    /// A host with the files of one cluster, in which fsync is off.
    fn host() -> Facts {
        let mut collected = Collected::default();
        let text = "data_directory = '/data/15' # here\nfsync = off\nshared_buffers = 1GB\n";
        collected.take_file("/etc/postgresql/15/main/postgresql.conf", text.as_bytes());
        collected.take_file("/data/15/postgresql.auto.conf", b"work_mem = 8MB\n");
        let mut facts = Facts::default();
        postgres::facts(&collected, &mut facts);
        facts
    }

    fn row(name: &str, value: &str, source: Option<&str>) -> Row {
        Row { name: name.to_owned(), value: value.to_owned(), source: source.map(str::to_owned), ..Row::default() }
    }

    fn ask(facts: &mut Facts, is_here: bool, rows: &[Row]) {
        let (origin, address) = ("pg_settings of it", Some("db1:5432"));
        database_rows(&Answer { database: Database::Postgres, rows, origin, address, runs_here: is_here, is_here }, facts);
    }

    #[test]
    fn files_of_another_cluster_stay_apart_from_a_live_server() {
        let mut facts = host();
        ask(&mut facts, true, &[row("fsync", "on", None), row("data_directory", "/data/17", None)]);
        let names: Vec<&str> = facts.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["PostgreSQL in /etc/postgresql/15/main (from files)", "PostgreSQL at db1:5432 (/data/17)"]);
        let live = &facts.servers[1].facts;
        assert_eq!((live.value("postgres.fsync"), live.value("persistent.postgres.fsync")), (Some(&true.into()), None));
    }

    #[test]
    fn files_of_a_live_server_tell_what_a_restart_brings_and_nothing_else() {
        let mut facts = host();
        let data = row("data_directory", "/data/15/", None);
        let automatic = row("shared_buffers", "2147483648", Some("/data/15/postgresql.auto.conf:3"));
        ask(&mut facts, true, &[row("fsync", "on", None), data, automatic]);
        let [live] = facts.servers.as_slice() else { panic!("{facts:?}") };
        assert_eq!(live.name, "PostgreSQL at db1:5432 (/data/15)");
        assert_eq!(live.config.as_deref(), Some("/etc/postgresql/15/main/postgresql.conf"));
        assert_eq!(live.facts.value("postgres.fsync"), Some(&true.into()));
        assert_eq!(live.facts.value_of("setting", "postgres fsync", "persistent"), Some(&false.into()));
        let origin = |copy: &str| live.facts.things["setting"]["postgres fsync"][copy].origin.as_str();
        assert_eq!((origin("running"), origin("persistent")), ("pg_settings of it", "/etc/postgresql/15/main/postgresql.conf:2"));
        // A value that the server read elsewhere is not compared with this file. A value that the
        // server did not return is not in force.
        assert_eq!(live.facts.value_of("setting", "postgres shared_buffers", "persistent"), None);
        assert_eq!(live.facts.value("postgres.work_mem"), None);
        assert_eq!(live.facts.host["postgres.shared_buffers"].origin, "/data/15/postgresql.auto.conf:3");
    }

    #[test]
    fn files_tell_nothing_of_a_restart_where_the_command_line_or_a_database_has_set_the_value() {
        for (said, origin) in [("command line", "its command line"), ("ALTER DATABASE mill", "ALTER DATABASE mill")] {
            let mut facts = host();
            let fsync = row("fsync", "on", Some(&Row::source_of(said.to_owned())));
            let rows = [fsync, row("data_directory", "/data/15", None)];
            // The same from the text of a capture.
            let (_, text) = as_text(Database::Postgres, "db1:5432", &rows);
            assert_eq!(named(table(&text)), rows);
            ask(&mut facts, true, &rows);
            let [live] = facts.servers.as_slice() else { panic!("{facts:?}") };
            assert_eq!(live.facts.value_of("setting", "postgres fsync", "persistent"), None, "{said}");
            assert_eq!(live.facts.host["postgres.fsync"].origin, origin);
        }
    }

    #[test]
    fn a_server_elsewhere_has_no_files_here_even_if_it_names_the_same() {
        let mut facts = host();
        let config = row("config_file", "/etc/postgresql/15/main/postgresql.conf", None);
        let fsync = row("fsync", "on", Some("/etc/postgresql/15/main/postgresql.conf:2"));
        ask(&mut facts, false, &[config, row("data_directory", "/data/15", None), fsync]);
        assert_eq!(facts.servers.len(), 2);
        assert_eq!(facts.servers[1].config, None);
        let origin = &facts.servers[1].facts.host["postgres.fsync"].origin;
        assert_eq!(origin, "/etc/postgresql/15/main/postgresql.conf:2 at db1:5432");
    }

    #[test]
    fn files_of_a_cluster_that_does_not_run_are_not_those_of_a_server_that_answers() {
        let mut facts = host();
        facts.servers[0].state = ServerState::Stopped;
        ask(&mut facts, true, &[row("config_file", "/etc/postgresql/15/main/postgresql.conf", None)]);
        assert_eq!((facts.servers.len(), facts.servers[1].config.as_ref()), (2, None));
    }

    #[test]
    fn option_files_are_those_of_the_server_with_their_directory() {
        let mut collected = Collected::default();
        collected.take_command("dpkg-query -W", b"mariadb-server\t1:11.4.2\n", Some(0));
        collected.take_file("/etc/my.cnf", b"[mysqld]\nsync_binlog = 0\n");
        let mut facts = Facts::default();
        mysql::facts(&collected, &mut facts);
        for (address, directory) in [("/run/a", "/data/a/"), ("/run/b", "/var/lib/mysql/")] {
            let rows = [row("version", "11.4.2-MariaDB", None), row("datadir", directory, None), row("sync_binlog", "1", None)];
            let (database, address) = (Database::Mysql, Some(address));
            database_rows(&Answer { database, rows: &rows, origin: "it", address, runs_here: true, is_here: true }, &mut facts);
        }
        let config = |name: &str| facts.server(name).map(|server| server.config.as_deref());
        assert_eq!(facts.servers.len(), 2);
        assert_eq!(config("MariaDB at /run/a (/data/a)"), Some(None));
        assert_eq!(config("MariaDB at /run/b (/var/lib/mysql)"), Some(Some("/etc/my.cnf")));
    }

    #[test]
    fn a_server_of_this_host_whose_data_directory_is_absent_has_no_files_here() {
        let mut collected = Collected::default();
        let rows = [row("data_directory", "/db/pg", None), row("config_file", "/etc/pg.conf", None)];
        let (line, text) = as_text(Database::Postgres, "localhost:5440", &rows);
        assert_eq!(data_directory_here(&line, &text).as_deref(), Some("/db/pg"));
        assert_eq!(data_directory_here(&line.replace("localhost", "db1"), &text), None);
        collected.take_command(&line, text.as_bytes(), Some(0));
        collected.absent.insert("/db/pg".to_owned());
        let mut facts = Facts::default();
        postgres::facts(&collected, &mut facts);
        assert_eq!(facts.servers[0].config, None);
        assert!(
            facts.remarks[0].contains("/db/pg of PostgreSQL at localhost:5440 (/db/pg) is not on this host"),
            "{:?}",
            facts.remarks
        );
    }

    #[test]
    fn a_capture_tells_its_tables_apart_by_their_addresses() {
        let mut collected = Collected::default();
        for (address, fsync) in [("/run/a:5432", "on"), ("/run/b:5432", "off")] {
            let rows = [row("fsync", fsync, None), row("port", "5432", None)];
            let (line, text) = as_text(Database::Postgres, address, &rows);
            collected.take_command(&line, text.as_bytes(), Some(0));
        }
        let mut facts = Facts::default();
        postgres::facts(&collected, &mut facts);
        let of = |name: &str| facts.server(name).and_then(|server| server.facts.value("postgres.fsync"));
        assert_eq!(of("PostgreSQL at /run/a:5432"), Some(&true.into()));
        assert_eq!(of("PostgreSQL at /run/b:5432"), Some(&false.into()));
    }

    #[test]
    fn a_setting_of_a_database_is_no_setting_of_the_server_also_in_a_capture() {
        let of_mill = Row { set_for: Some("database mill".to_owned()), ..row("synchronous_commit", "off", None) };
        let rows = [row("synchronous_commit", "on", None), of_mill];
        let (line, text) = as_text(Database::Postgres, "/run/a:5432", &rows);
        let mut collected = Collected::default();
        collected.take_command(&line, text.as_bytes(), Some(0));
        let mut facts = Facts::default();
        postgres::facts(&collected, &mut facts);
        let own = &facts.servers[0].facts;
        assert_eq!(own.value("postgres.synchronous_commit"), Some(&true.into()));
        assert_eq!(own.value_of("db_role_setting", "synchronous_commit of database mill", "value"), Some(&false.into()));
    }

    #[test]
    fn two_clusters_in_files_are_two_servers() {
        let mut collected = Collected::default();
        for version in ["13", "15"] {
            let path = format!("/etc/postgresql/{version}/main/postgresql.conf");
            collected.take_file(&path, format!("port = 54{version}\n").as_bytes());
            collected.stopped.insert("/etc/postgresql/13/main/postgresql.conf".to_owned());
        }
        let mut facts = Facts::default();
        postgres::facts(&collected, &mut facts);
        let found: Vec<(&str, ServerState)> = facts.servers.iter().map(|server| (server.name.as_str(), server.state)).collect();
        assert_eq!(
            found,
            [
                ("PostgreSQL in /etc/postgresql/13/main (stopped)", ServerState::Stopped),
                ("PostgreSQL in /etc/postgresql/15/main (from files)", ServerState::FromFiles)
            ]
        );
    }
}
