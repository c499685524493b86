//! A value is checked with the server's program before it is written. If the program refuses the
//! value, the check reports the program's error.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use sim::skip;
use tune::collect::runner::HostRunner;
use tune::collect::{Checked, check_value};
use tune::facts::{Database, Facts, Server, ServerState};

/// The user ID of nobody. The servers' programs run as this user, but not as root.
const NOBODY: u32 = 65534;

/// A folder that belongs to another user than root.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Only root may change the owner. Otherwise the folder already belongs to another user than
    // root.
    let _ = chown(folder.path(), Some(NOBODY), Some(NOBODY));
    folder
}

fn server(database: Database, directory: &str, data: &Path, config: &Path) -> Server {
    let mut facts = Facts::default();
    facts.put(directory, data.display().to_string(), "a test");
    let (name, state) = ("a".to_owned(), ServerState::FromFiles);
    Server { name, database, state, config: Some(config.display().to_string()), facts }
}

fn assert_refused(server: &Server, name: &str, value: &str, wanted: &str) {
    let checked = check_value(&HostRunner, server, name, value);
    assert!(matches!(&checked, Checked::Refused(reason) if reason.contains(wanted)), "{name} = {value}: {checked:?}");
}

#[test]
fn postgres_refuses_what_it_does_not_take_and_nothing_else() {
    let major =
        std::fs::read_dir("/usr/lib/postgresql").ok().and_then(|mut all| all.next()?.ok()?.file_name().into_string().ok());
    let Some(major) = major else { return skip("PostgreSQL is not installed") };
    let data = data();
    let config = data.path().join("postgresql.conf");
    std::fs::write(data.path().join("PG_VERSION"), format!("{major}\n")).unwrap();
    std::fs::write(&config, "work_mem = 8MB\n").unwrap();
    let server = server(Database::Postgres, "postgres.data_directory", data.path(), &config);
    for (name, value) in [("wal_compression", "on"), ("max_wal_size", "8GB"), ("fsync", "on"), ("shared_buffers", "1GB")] {
        assert_eq!(check_value(&HostRunner, &server, name, value), Checked::Taken, "{name} = {value}");
    }
    assert_refused(&server, "wal_compression", "lz5", "invalid value for parameter \"wal_compression\": \"lz5\"");
    assert_refused(&server, "max_wal_size", "8 gigabytes", "max_wal_size");
    assert_refused(&server, "max_connections", "0", "outside the valid range");
    assert_refused(&server, "no_such_setting", "1", "unrecognized configuration parameter");
    // An earlier mistake in the file says nothing about the value.
    std::fs::write(&config, "work_mem = much\n").unwrap();
    let checked = check_value(&HostRunner, &server, "max_wal_size", "8GB");
    assert!(matches!(&checked, Checked::Unchecked(reason) if reason.contains("its program says")), "{checked:?}");
}

#[test]
fn mariadb_refuses_what_it_does_not_take_and_what_it_adjusts() {
    if !Path::new("/usr/sbin/mariadbd").is_file() {
        return skip("MariaDB is not installed");
    }
    let data = data();
    let config = data.path().join("my.cnf");
    std::fs::write(&config, "[mysqld]\nport = 3307\n").unwrap();
    let server = server(Database::Mysql, "mysql.datadir", data.path(), &config);
    for (name, value) in [("innodb_flush_method", "O_DIRECT"), ("innodb_log_file_size", "1073741824"), ("sync_binlog", "1")] {
        assert_eq!(check_value(&HostRunner, &server, name, value), Checked::Taken, "{name} = {value}");
    }
    assert_refused(&server, "innodb_flush_method", "nonsense", "Error while setting value 'nonsense' to 'innodb-flush-method'");
    assert_refused(&server, "innodb_log_file_size", "1", "adjusted to");
    assert_refused(&server, "max_connections", "many", "max_connections");
}

#[test]
fn a_server_whose_directory_cannot_be_seen_is_not_asked_and_the_reason_is_given() {
    let nowhere = Path::new("/nonexistent/millrace");
    for (database, directory) in [(Database::Postgres, "postgres.data_directory"), (Database::Mysql, "mysql.datadir")] {
        let server = server(database, directory, nowhere, Path::new("/etc/none.conf"));
        let checked = check_value(&HostRunner, &server, "port", "1");
        assert!(matches!(&checked, Checked::Unchecked(reason) if reason.contains("/nonexistent/millrace")), "{checked:?}");
    }
}
