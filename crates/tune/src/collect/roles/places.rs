//! Paths that databases name.

use std::collections::BTreeSet;

use host::mount_table::is_nfs;

use crate::collect::sources::resolved;
use crate::facts::{Database, Facts, Server, Value};

/// The kind of files at a place. If a mount has several kinds, the first one decides its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Datafiles.
    Data,
    /// Logs on which a commit waits.
    Redo,
    /// Files of a database whose kind is not known better: control files, Direct NFS mounts.
    Database,
    /// Logs that are no longer written.
    Archive,
    /// Programs.
    Home,
    /// Logs and dumps for users.
    Diagnostics,
}

impl Kind {
    /// The name of the role.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Redo => "redo",
            Self::Database => "database",
            Self::Archive => "archive",
            Self::Home => "home",
            Self::Diagnostics => "diagnostics",
        }
    }
}

/// A path of a database.
pub(super) struct Place {
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) origin: String,
    pub(super) database: &'static str,
}

/// Settings of MySQL and MariaDB that name folders. A relative one is below the data directory.
const MYSQL: [(&str, Kind); 4] = [
    ("innodb_data_home_dir", Kind::Data),
    ("innodb_undo_directory", Kind::Data),
    ("innodb_log_group_home_dir", Kind::Redo),
    ("log_bin_basename", Kind::Redo),
];

/// Parameters of Oracle that name files and folders. One that ends with `_` is followed by a
/// number.
const ORACLE: [(&str, Kind); 11] = [
    ("control_files", Kind::Database),
    ("db_create_file_dest", Kind::Data),
    ("db_create_online_log_dest_", Kind::Redo),
    ("db_recovery_file_dest", Kind::Archive),
    ("log_archive_dest", Kind::Archive),
    ("log_archive_dest_", Kind::Archive),
    ("log_archive_duplex_dest", Kind::Archive),
    ("standby_archive_dest", Kind::Archive),
    ("background_dump_dest", Kind::Diagnostics),
    ("user_dump_dest", Kind::Diagnostics),
    ("diagnostic_dest", Kind::Diagnostics),
];

/// Paths of a server whose links decide where its files are.
pub(super) fn linked(server: &Server) -> Vec<String> {
    let Some(data) = data_directory(server) else { return Vec::new() };
    if server.database == Database::Postgres {
        return vec![format!("{data}/pg_wal"), format!("{data}/pg_xlog"), format!("{data}/pg_tblspc"), data];
    }
    let named = MYSQL.iter().filter_map(|(name, _)| mysql_path(server, name, &data)).map(|(path, _)| path);
    named.chain([data.clone()]).collect()
}

/// Places of a PostgreSQL, MySQL or MariaDB server.
pub(super) fn of_server(server: &Server, facts: &Facts) -> Vec<Place> {
    match (server.database, data_directory(server)) {
        (Database::Postgres, Some(data)) => of_postgres(server, &data, facts),
        (Database::Mysql, Some(data)) => of_mysql(server, &data, facts),
        _ => Vec::new(),
    }
}

fn of_postgres(server: &Server, data: &str, facts: &Facts) -> Vec<Place> {
    let place = |path: String, kind: Kind, origin: String| Place { path, kind, origin, database: "postgres" };
    let mut found = vec![place(real(data, facts).to_owned(), Kind::Data, origin(server, "postgres.data_directory", data))];
    for wal in ["pg_wal", "pg_xlog"].map(|name| format!("{data}/{name}")) {
        if let Some(path) = known(&wal, facts) {
            found.push(place(path.to_owned(), Kind::Redo, wal));
        }
    }
    let tablespaces = format!("{data}/pg_tblspc/");
    for link in facts.things.get("path").into_iter().flat_map(|paths| paths.keys()).filter(|path| path.starts_with(&tablespaces))
    {
        found.push(place(real(link, facts).to_owned(), Kind::Data, link.clone()));
    }
    found
}

fn of_mysql(server: &Server, data: &str, facts: &Facts) -> Vec<Place> {
    let place =
        |path: &str, kind: Kind, origin: String| Place { path: real(path, facts).to_owned(), kind, origin, database: "mysql" };
    // Without a setting, the data directory is the program's default, if it exists.
    if server.facts.value("mysql.datadir").is_none() && known(data, facts).is_none() {
        return Vec::new();
    }
    let mut found = vec![place(data, Kind::Data, origin(server, "mysql.datadir", data))];
    let mut has_log_home = false;
    for (name, kind) in MYSQL {
        if let Some((path, origin)) = mysql_path(server, name, data) {
            has_log_home |= name == "innodb_log_group_home_dir";
            found.push(place(&path, kind, origin));
        }
    }
    if !has_log_home && !server.facts.unknown.keys().any(|name| "mysql.innodb_log_group_home_dir".starts_with(name.as_str())) {
        found.push(place(data, Kind::Redo, origin(server, "mysql.datadir", data)));
    }
    found
}

/// The path in a setting and its origin.
fn mysql_path(server: &Server, name: &str, data: &str) -> Option<(String, String)> {
    let name = format!("mysql.{name}");
    let fact = server.facts.host.get(&name)?;
    let Value::Text(said) = &fact.value else { return None };
    (!said.is_empty()).then(|| (resolved(said, &format!("{data}/")), fact.origin.clone()))
}

/// The data directory of a server.
fn data_directory(server: &Server) -> Option<String> {
    let said = match server.database {
        Database::Postgres => server.facts.host_text("postgres.data_directory")?,
        Database::Mysql => server.facts.host_text("mysql.datadir").unwrap_or("/var/lib/mysql"),
        Database::Oracle => return None,
    };
    // A file that was collected without its folder gives no absolute path.
    let path = said.trim_end_matches('/');
    (path.starts_with('/') && path.len() > 1).then(|| path.to_owned())
}

fn origin(server: &Server, name: &str, otherwise: &str) -> String {
    server.facts.host.get(name).map_or(otherwise, |fact| &fact.origin).to_owned()
}

/// Places in parameters and views of Oracle, its Direct NFS mounts, and its home.
pub(super) fn of_oracle(facts: &Facts) -> Vec<Place> {
    let all = facts.servers_of(Database::Oracle).map(|server| &server.facts).chain([facts]);
    let homes: BTreeSet<&str> = facts.things.get("oracle_home").into_iter().flatten().map(|(home, _)| home.as_str()).collect();
    let mut found: Vec<Place> = Vec::new();
    let mut add = |said: &str, kind: Kind, origin: &str| {
        for path in paths(said, &homes) {
            found.push(Place { path: real(&path, facts).to_owned(), kind, origin: origin.to_owned(), database: "oracle" });
        }
    };
    for (name, fact) in all.flat_map(|facts| &facts.host) {
        let Some(kind) = name.strip_prefix("oracle.").and_then(kind_of) else { continue };
        match &fact.value {
            Value::Text(said) => add(said, kind, &fact.origin),
            Value::List(files) => files.iter().for_each(|file| {
                if let Value::Text(file) = file {
                    add(file, kind, &fact.origin);
                }
            }),
            _ => {}
        }
    }
    for point in facts.things.get("oranfstab_mount").into_iter().flat_map(|mounts| mounts.keys()) {
        add(point, Kind::Database, "oranfstab");
    }
    for home in &homes {
        add(home, Kind::Home, "the place of its parameter file");
    }
    found
}

fn kind_of(parameter: &str) -> Option<Kind> {
    let bare = parameter.trim_end_matches(|letter: char| letter.is_ascii_digit());
    match parameter {
        "datafiles" => Some(Kind::Data),
        "log_members" => Some(Kind::Redo),
        _ => ORACLE.iter().find(|(name, _)| *name == bare).map(|(_, kind)| *kind),
    }
}

/// The paths in a parameter: as written, after `LOCATION=`, or below each home for a leading `?`.
fn paths(said: &str, homes: &BTreeSet<&str>) -> Vec<String> {
    let said = said.trim();
    let named = if said.get(..9).is_some_and(|begin| begin.eq_ignore_ascii_case("location=")) { &said[9..] } else { said };
    let path = named.trim_matches(['"', '\'']).split([' ', ',', '\t']).next().unwrap_or_default().trim_matches(['"', '\'']);
    match path.strip_prefix('?') {
        Some(rest) => homes.iter().map(|home| format!("{home}{rest}")).collect(),
        None => Some(path).filter(|path| path.starts_with('/')).map(str::to_owned).into_iter().collect(),
    }
}

/// The real path, as far as its links are known.
fn real<'a>(path: &'a str, facts: &'a Facts) -> &'a str {
    known(path, facts).unwrap_or(path)
}

/// The real path of a path whose links were followed.
fn known<'a>(path: &str, facts: &'a Facts) -> Option<&'a str> {
    match facts.things.get("path")?.get(path)?.get("real").map(|fact| &fact.value) {
        Some(Value::Text(real)) => Some(real),
        _ => None,
    }
}

/// The nearest mount point above a path.
pub(super) fn above<'a>(path: &str, facts: &'a Facts) -> Option<&'a str> {
    let mounts = facts.things.get("mount")?;
    let mut at = path.trim_end_matches('/');
    loop {
        let point = if at.is_empty() { "/" } else { at };
        if let Some((point, _)) = mounts.get_key_value(point) {
            return Some(point);
        }
        at = at.rsplit_once('/')?.0;
    }
}

/// Places of databases that are not known, as messages that say what the user may add.
pub(crate) fn unnamed(facts: &Facts) -> Vec<String> {
    let roles: Vec<(&String, Option<&str>, bool)> = facts
        .things
        .get("mount")
        .into_iter()
        .flatten()
        .map(|(point, mount)| {
            let text = |name: &str| match mount.get(name).map(|fact| &fact.value) {
                Some(Value::Text(text)) => Some(text.as_str()),
                _ => None,
            };
            (point, text("role"), text("fstype").is_some_and(is_nfs))
        })
        .collect();
    let mut said = Vec::new();
    let has = |wanted: &str| roles.iter().any(|(_, role, _)| *role == Some(wanted));
    let holds_redo = of_oracle(facts).iter().any(|place| place.kind == Kind::Redo);
    if has("database") && !has("redo") && !holds_redo {
        said.push(
            "nothing says what holds the redo logs of Oracle, which its control file names: rules about them are left out; \
             add V$LOGFILE to the capture, or name the mount in site.toml"
                .to_owned(),
        );
    }
    let unknown: Vec<&str> =
        roles.iter().filter(|(_, role, is_nfs)| *is_nfs && role.is_none()).map(|(point, ..)| point.as_str()).collect();
    if !unknown.is_empty() {
        let more = if unknown.len() > 8 { format!(" and {} more", unknown.len() - 8) } else { String::new() };
        let named = unknown.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        said.push(format!(
            "nothing says what the NFS mounts {named}{more} hold: where they hold a database, name their roles in site.toml"
        ));
    }
    let data = facts.servers_of(Database::Postgres).filter(|server| super::is_here(server)).filter_map(data_directory);
    for data in data.filter(|data| ["pg_wal", "pg_xlog"].iter().all(|name| known(&format!("{data}/{name}"), facts).is_none())) {
        if roles.iter().any(|(.., is_nfs)| *is_nfs) {
            said.push(format!(
                "whether the log of {data} lies elsewhere was not seen (its pg_wal may be a link): name its mount in site.toml"
            ));
        }
    }
    said
}
