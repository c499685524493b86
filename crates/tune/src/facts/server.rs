//! The database servers of a host, each with its own facts.

use std::collections::BTreeSet;

use super::data_place::is_below;
use super::{DataPlace, Fact, Facts};

/// Servers of one host. A host with more runs them in containers, each of which is audited
/// separately.
const SERVERS_MAX: usize = 64;

/// The database of a server or a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Database {
    /// PostgreSQL, `pg_settings`.
    Postgres,
    /// MySQL or MariaDB, `SHOW VARIABLES`.
    Mysql,
    /// Oracle, `v$parameter`.
    Oracle,
}

impl Database {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Mysql, Self::Oracle];

    /// The prefix of its facts' names.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Postgres => "postgres.",
            Self::Mysql => "mysql.",
            Self::Oracle => "oracle.",
        }
    }

    /// The database of the fact with this name, for example `postgres.fsync` or
    /// `persistent.postgres.fsync`.
    #[must_use]
    pub fn of_fact(name: &str) -> Option<Self> {
        let name = name.strip_prefix("persistent.").unwrap_or(name);
        Self::ALL.into_iter().find(|database| name.starts_with(database.prefix()))
    }
}

/// How a server is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// By its own answers, which take precedence.
    Live,
    /// Only by its files. It is not known whether it runs.
    FromFiles,
    /// Only by its files, and it does not run.
    Stopped,
}

/// One database server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name in messages, the same in each audit: `PostgreSQL at localhost:5432
    /// (/var/lib/postgresql/15/main)`.
    pub name: String,
    /// Which database it is.
    pub database: Database,
    /// How it is known.
    pub state: ServerState,
    /// The configuration file that it reads, if it is known and on this host.
    pub config: Option<String>,
    /// The server's own facts, with its settings as things. It contains no servers.
    pub facts: Facts,
}

impl Server {
    /// The fact with the value of `--db` for a PostgreSQL server that runs and was not queried.
    pub(crate) const DSN: &'static str = "postgres.millrace_dsn";

    /// The value of `--db` for it; `None` if that is not known.
    #[must_use]
    pub fn dsn(&self) -> Option<&str> {
        self.facts.host_text(Self::DSN)
    }
}

impl Facts {
    /// Adds a server. A server with the same name and other facts gets a number.
    pub fn put_server(&mut self, mut server: Server) {
        if self.servers.iter().any(|there| there.name == server.name && there.facts.host == server.facts.host) {
            return;
        }
        if self.servers.len() >= SERVERS_MAX {
            return self.remark(format!("{} is left out: there are too many servers", server.name));
        }
        let names: BTreeSet<&str> = self.servers.iter().map(|there| there.name.as_str()).collect();
        let numbered =
            (2..).map(|number| format!("{}, number {number}", server.name)).find(|name| !names.contains(name.as_str()));
        if names.contains(server.name.as_str()) {
            server.name = numbered.unwrap_or_default();
        }
        for remark in std::mem::take(&mut server.facts.remarks) {
            self.remark(remark);
        }
        self.servers.push(server);
    }

    /// The server of this name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// Servers of one database.
    pub fn servers_of(&self, database: Database) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(move |server| server.database == database)
    }

    /// The facts as one server sees them: the host's and its own, without servers.
    ///
    /// For a live server, live servers of other databases are included, because they share the
    /// host's memory.
    #[must_use]
    pub fn seen_by(&self, server: &Server) -> Self {
        let beside = |other: &&Server| {
            let live = server.state == ServerState::Live && other.state == ServerState::Live;
            live && other.database != server.database
        };
        let (host, things) = (self.host.clone(), self.things.clone());
        let mut seen = Self { host, things, unknown: self.unknown.clone(), ..Self::default() };
        // The first server takes precedence.
        let mut all: Vec<&Server> = std::iter::once(server).chain(self.servers.iter().filter(beside)).collect();
        all.reverse();
        for one in all {
            seen.host.extend(one.facts.host.clone());
            for (kind, things) in &one.facts.things {
                seen.things.entry(kind.clone()).or_default().extend(things.clone());
            }
            seen.unknown.extend(one.facts.unknown.clone());
        }
        if server.database == Database::Postgres {
            let runs = |other: &&Server| other.state != ServerState::Stopped || other.name == server.name;
            let count = self.servers_of(Database::Postgres).filter(runs).count();
            seen.put("postgres.servers_here", i64::try_from(count).unwrap_or(1), "servers of this audit");
        }
        match server.data_place() {
            Some(DataPlace::Elsewhere(reason)) => seen.put_unknown("postgres.data_fstype", &reason),
            Some(DataPlace::DirectNfs(mount)) => {
                seen.put("postgres.data_fstype", "nfs", &format!("Direct NFS mount {mount}"));
            }
            None => drop(self.data_fstype(server).map(|fact| seen.host.insert("postgres.data_fstype".to_owned(), fact))),
        }
        seen
    }

    /// The type of the file system with the data of a PostgreSQL server whose files are on this
    /// host: that of the nearest mount above the data directory.
    fn data_fstype(&self, server: &Server) -> Option<Fact> {
        server.config.as_ref()?;
        let data = server.facts.host_text("postgres.data_directory")?;
        let mounts = self.things.get("mount")?.iter().filter(|(point, _)| is_below(data, point));
        mounts.max_by_key(|(point, _)| point.len())?.1.get("fstype").cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, database: Database, state: ServerState, fact: (&str, i64)) -> Server {
        let mut facts = Facts::default();
        facts.put(fact.0, fact.1, "a test");
        Server { name: name.to_owned(), database, state, config: None, facts }
    }

    #[test]
    fn a_server_sees_the_host_itself_and_live_servers_of_other_databases() {
        let mut facts = Facts::default();
        facts.put("hw.memory_bytes", 1, "a test");
        facts.put_server(server("a", Database::Postgres, ServerState::Live, ("postgres.port", 1)));
        facts.put_server(server("b", Database::Postgres, ServerState::Live, ("postgres.port", 2)));
        facts.put_server(server("c", Database::Mysql, ServerState::Live, ("mysql.port", 3)));
        facts.put_server(server("d", Database::Mysql, ServerState::Stopped, ("mysql.port", 4)));
        let seen = facts.seen_by(&facts.servers[1]);
        assert_eq!(seen.value("hw.memory_bytes"), Some(&1.into()));
        assert_eq!((seen.value("postgres.port"), seen.value("mysql.port")), (Some(&2.into()), Some(&3.into())));
        // The servers share the memory. A stopped server needs no memory.
        assert_eq!(seen.value("postgres.servers_here"), Some(&2.into()));
        facts.servers[0].state = ServerState::Stopped;
        assert_eq!(facts.seen_by(&facts.servers[1]).value("postgres.servers_here"), Some(&1.into()));
        assert_eq!(facts.seen_by(&facts.servers[0]).value("postgres.servers_here"), Some(&2.into()));
        let stopped = facts.seen_by(&facts.servers[3]);
        assert_eq!((stopped.value("postgres.port"), stopped.value("mysql.port")), (None, Some(&4.into())));
        assert!(seen.servers.is_empty());
    }

    #[test]
    fn the_file_system_of_the_data_is_that_of_the_nearest_mount() {
        let mut facts = Facts::default();
        for (point, fstype) in [("/", "ext4"), ("/srv/pg", "zfs"), ("/srv/pgother", "nfs")] {
            facts.put_of("mount", point, "fstype", fstype, "/proc/mounts");
        }
        let fstype = |data: &str, config: Option<&str>| {
            let mut one = server("a", Database::Postgres, ServerState::Live, ("postgres.port", 1));
            one.facts.put("postgres.data_directory", data, "a test");
            one.config = config.map(str::to_owned);
            facts.seen_by(&one).host_text("postgres.data_fstype").map(str::to_owned)
        };
        let config = Some("/etc/postgresql.conf");
        assert_eq!(fstype("/srv/pg/15", config).as_deref(), Some("zfs"));
        assert_eq!(fstype("/srv/pg2", config).as_deref(), Some("ext4"));
        // The files of a server on another host are not in these mounts.
        assert_eq!(fstype("/srv/pg/15", None), None);
    }

    #[test]
    fn a_name_that_two_servers_have_gets_a_number_and_the_same_server_is_there_once() {
        let mut facts = Facts::default();
        for port in [1, 1, 2, 3] {
            facts.put_server(server("a", Database::Postgres, ServerState::Live, ("postgres.port", port)));
        }
        let names: Vec<&str> = facts.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["a", "a, number 2", "a, number 3"]);
    }

    #[test]
    fn a_value_that_one_server_alone_has_is_found_by_its_name() {
        let mut facts = Facts::default();
        facts.put_server(server("a", Database::Postgres, ServerState::Live, ("postgres.port", 1)));
        assert_eq!(facts.value("postgres.port"), Some(&1.into()));
        facts.put_server(server("b", Database::Postgres, ServerState::Live, ("postgres.port", 2)));
        assert_eq!(facts.value("postgres.port"), None);
    }
}
