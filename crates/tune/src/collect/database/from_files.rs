//! Database servers that are known only by their files.

use crate::collect::collected::Collected;
use crate::facts::{Database, Facts, Server, ServerState, Value};
use crate::shown_value::shown;

/// A server that is known only by its files. `place` is their folder.
pub(super) fn by_files(database: Database, kind: &str, place: &str, stopped: bool, config: Option<&str>, facts: Facts) -> Server {
    let (state, label) = if stopped { (ServerState::Stopped, "stopped") } else { (ServerState::FromFiles, "from files") };
    let place = if place.is_empty() { "/" } else { place };
    let name = shown(&Value::from(format!("{kind} in {place} ({label})")));
    Server { name, database, state, config: config.map(str::to_owned), facts }
}

const NOT_FOUND: &str = "no database was found there; if it is on a Direct NFS mount, that is not in use";
const NOT_SEEN: &str = "the server runs, so it may be on a Direct NFS mount of another user or of another MILLRACE_RUNTIME_DIR";

/// Notes the servers whose files name a data directory that does not exist on this host.
pub(in crate::collect) fn data_not_here(collected: &Collected, facts: &mut Facts) {
    let mut servers = std::mem::take(&mut facts.servers);
    for server in servers.iter_mut().filter(|server| server.state != ServerState::Live) {
        let is_absent = |data: &str| {
            let data = data.trim_end_matches('/');
            collected.absent.contains(data) || collected.absent.contains(&format!("{data}/PG_VERSION"))
        };
        if server.data().is_some_and(is_absent) {
            let runs = server.config.as_deref().is_some_and(|config| collected.running_with(config).is_some());
            facts.note_data_not_here(server, true, if runs { NOT_SEEN } else { NOT_FOUND });
        }
    }
    facts.servers = servers;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::database::{mysql, postgres};

    #[test]
    fn an_option_file_that_names_an_absent_directory_is_said_to_name_one_elsewhere() {
        let mut collected = Collected::default();
        collected.take_command("dpkg-query -W", b"mariadb-server\t1:11.4.2\n", Some(0));
        collected.take_file("/etc/my.cnf", b"[mysqld]\ndatadir = /db/my/\n");
        let absent = ["/etc/mysql/my.cnf", "/db/my", "/db/my/mysqld-auto.cnf"];
        collected.absent.extend(absent.map(str::to_owned));
        let mut facts = Facts::default();
        mysql::facts(&collected, &mut facts);
        data_not_here(&collected, &mut facts);
        let [server] = facts.servers.as_slice() else { panic!("{facts:?}") };
        assert!(server.data_place().is_some(), "{server:?}");
    }

    #[test]
    fn a_cluster_whose_data_directory_is_absent_is_said_to_be_elsewhere() {
        let mut collected = Collected::default();
        for cluster in ["here", "there"] {
            let conf = format!("data_directory = '/data/{cluster}'\n");
            collected.take_file(&format!("/etc/postgresql/15/{cluster}/postgresql.conf"), conf.as_bytes());
        }
        collected.take_file("/data/here/PG_VERSION", b"15\n");
        collected.take_file("/data/here/postgresql.auto.conf", b"");
        collected.absent.extend(["PG_VERSION", "postgresql.auto.conf"].map(|name| format!("/data/there/{name}")));
        let mut facts = Facts::default();
        postgres::facts(&collected, &mut facts);
        facts.remarks.clear();
        data_not_here(&collected, &mut facts);
        let places: Vec<bool> = facts.servers.iter().map(|server| server.data_place().is_some()).collect();
        assert_eq!(places, [false, true]);
        assert!(
            matches!(facts.remarks.as_slice(), [said] if said.starts_with("the data directory /data/there of")),
            "{:?}",
            facts.remarks
        );
    }
}
