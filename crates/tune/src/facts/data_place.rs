//! Where the data directory of a database server is: on this host, in a Direct NFS mount, or
//! elsewhere.

use super::{Database, Facts, Server, Value};

/// The kind of thing of a Direct NFS mount.
pub const DIRECT_NFS_MOUNT: &str = "direct_nfs_mount";

/// Where the data directory of a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DataPlace {
    /// Below this Direct NFS mount.
    DirectNfs(String),
    /// Not on this host, for this reason.
    Elsewhere(String),
}

impl Server {
    /// The data directory, if it is known.
    pub(crate) fn data(&self) -> Option<&str> {
        let name = match self.database {
            Database::Postgres => "postgres.data_directory",
            Database::Mysql => "mysql.datadir",
            Database::Oracle => return None,
        };
        self.facts.host_text(name)
    }

    /// Where the data is, if the audit found that it is in no file system of this host.
    pub(crate) fn data_place(&self) -> Option<DataPlace> {
        let of = |name: &str| self.facts.host_text(&format!("{}{name}", self.database.prefix())).map(str::to_owned);
        of(IN_MOUNT).map(DataPlace::DirectNfs).or_else(|| of(ELSEWHERE).map(DataPlace::Elsewhere))
    }
}

/// The facts of a server about this, after the prefix of its database.
const IN_MOUNT: &str = "data_direct_nfs_mount";
const ELSEWHERE: &str = "data_elsewhere";

impl Facts {
    /// Notes that the data directory of a server is in no file system of this host. It is in the
    /// Direct NFS mount above the directory, if there is one; otherwise it is elsewhere.
    /// `runs_here`: the server may use the mounts of this host. `elsewhere` says where the data is
    /// without such a mount.
    pub(crate) fn note_data_not_here(&mut self, server: &mut Server, runs_here: bool, elsewhere: &str) {
        let Some(data) = server.data().map(str::to_owned) else { return };
        let prefix = server.database.prefix();
        if let Some(mount) = self.direct_nfs_mount_of(&data).filter(|_| runs_here) {
            server.facts.put(&format!("{prefix}{IN_MOUNT}"), mount.as_str(), &format!("Direct NFS mount {mount}"));
            let mount_role = (DIRECT_NFS_MOUNT, mount.as_str(), "role");
            if self.value_of(mount_role.0, mount_role.1, mount_role.2).is_none() {
                self.put_of(mount_role.0, mount_role.1, mount_role.2, "data", &server.name);
            }
            return;
        }
        let reason = format!("the data directory {data} of {} is not on this host: {elsewhere}", server.name);
        server.facts.put(&format!("{prefix}{ELSEWHERE}"), reason.as_str(), &server.name);
        self.remark(format!("{reason}; its file system is not known"));
    }

    /// The Direct NFS mount that is nearest above a directory.
    fn direct_nfs_mount_of(&self, directory: &str) -> Option<String> {
        let mounts = self.things.get(DIRECT_NFS_MOUNT)?.iter();
        let path = |mount: &super::Attributes| match mount.get("path").map(|fact| &fact.value) {
            Some(Value::Text(path)) => Some(path.clone()),
            _ => None,
        };
        let named = mounts.filter_map(|(name, mount)| Some((name, path(mount)?)));
        named.filter(|(_, path)| is_below(directory, path)).max_by_key(|(_, path)| path.len()).map(|(name, _)| name.clone())
    }
}

/// Whether a directory is a mount point or below it.
pub(super) fn is_below(directory: &str, point: &str) -> bool {
    let rest = directory.strip_prefix(point.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ServerState;

    fn server(data: &str) -> Server {
        let mut facts = Facts::default();
        facts.put("postgres.data_directory", data, "a test");
        Server { name: "PostgreSQL at a".to_owned(), database: Database::Postgres, state: ServerState::Live, config: None, facts }
    }

    fn host() -> Facts {
        let mut facts = Facts::default();
        for (point, fstype) in [("/", "ext4"), ("/db", "xfs")] {
            facts.put_of("mount", point, "fstype", fstype, "/proc/mounts");
        }
        for path in ["/db", "/db/pg", "/dbase"] {
            facts.put_of(DIRECT_NFS_MOUNT, path, "path", path, "counters");
        }
        facts
    }

    #[test]
    fn data_below_a_direct_nfs_mount_are_of_its_file_system_and_the_mount_has_the_role() {
        let (mut facts, mut server) = (host(), server("/db/pg/15"));
        facts.note_data_not_here(&mut server, true, "in a container");
        assert_eq!(server.data_place(), Some(DataPlace::DirectNfs("/db/pg".to_owned())));
        assert_eq!(facts.seen_by(&server).host_text("postgres.data_fstype"), Some("nfs"));
        assert_eq!(facts.value_of(DIRECT_NFS_MOUNT, "/db/pg", "role"), Some(&"data".into()));
        assert_eq!((facts.value_of(DIRECT_NFS_MOUNT, "/db", "role"), facts.remarks.len()), (None, 0));
    }

    #[test]
    fn data_that_are_not_on_this_host_have_no_file_system_and_a_remark_says_so() {
        for (data, runs_here) in [("/srv/pg", true), ("/db/pg/15", false)] {
            let (mut facts, mut server) = (host(), server(data));
            server.config = Some("/etc/postgresql.conf".to_owned());
            facts.note_data_not_here(&mut server, runs_here, "it is on db1:5432");
            let seen = facts.seen_by(&server);
            assert_eq!(seen.host_text("postgres.data_fstype"), None, "{data}");
            let said = format!("the data directory {data} of PostgreSQL at a is not on this host: it is on db1:5432");
            assert_eq!(seen.unknown.get("postgres.data_fstype"), Some(&said));
            assert_eq!(facts.remarks, [format!("{said}; its file system is not known")]);
        }
    }
}
