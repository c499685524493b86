//! MariaDB for the laboratory: its programs, settings and counters. The load's tables are on InnoDB.

mod programs;
mod session;
pub(crate) mod system;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use ::host::escape::percent_encoded;

use crate::database::engine::{Endpoint, Engine, Parts, ServerProcess, Settings, Signals, Start};
use crate::database::session::Session;
use crate::error::LabError;
use crate::placement::workdir::{make_directory, own};
use crate::plan::Tuning;
use crate::sys::User;
use programs::Programs;
use session::MariaDbSession;

/// Memory in addition to its buffers and sessions, if its page cache is limited (measured: 80 MiB, and 95 MiB for the performance
/// schema).
const OWN_BYTES: u64 = 192 << 20;

/// Name of the settings file, which is the same on every path.
const SETTINGS_FILE: &str = "millrace.cnf";

/// Directory of the redo log within the data directory: a layout may put it on a separate volume.
const REDO: &str = "redo";

/// Directory of temporary files within the data directory. A server removes its contents when it starts.
const TEMPORARY: &str = "tmp";

/// MariaDB's server programs.
#[derive(Debug)]
pub(crate) struct MariaDb {
    programs: Programs,
}

impl MariaDb {
    /// As [`Programs::find`].
    pub(crate) fn find() -> Result<Self, LabError> {
        Ok(Self { programs: Programs::find()? })
    }
}

impl Engine for MariaDb {
    fn version(&self) -> &str {
        &self.programs.version
    }

    fn directory(&self) -> &Path {
        self.programs.server.parent().unwrap_or(Path::new("/"))
    }

    fn endpoint(&self, sockets: &Path) -> Endpoint {
        let socket = sockets.join("mariadb.sock");
        let dsn = format!("mysql://root@localhost/?socket={}", in_a_query(&socket.display().to_string()));
        Endpoint { socket, dsn }
    }

    fn make(&self, data: &Path, user: &User) -> Result<Command, LabError> {
        for directory in [data.to_owned(), data.join(REDO), data.join(TEMPORARY)] {
            make_directory(&directory, 0o700)?;
            own(&directory, user)?;
        }
        let mut command = Command::new(&self.programs.install);
        command
            .args(["--no-defaults", "--skip-test-db", "--skip-name-resolve", "--auth-root-authentication-method=normal"])
            .args([option("datadir", data), option("tmpdir", &data.join(TEMPORARY))])
            .arg(option("innodb-log-group-home-dir", &data.join(REDO)))
            // The created files are synced once, together with the loaded tables.
            .arg("--innodb-flush-method=nosync");
        Ok(command)
    }

    fn write_settings(&self, data: &Path, settings: &Settings, user: &User) -> Result<(), LabError> {
        let file = data.join(SETTINGS_FILE);
        let lines = settings.iter().map(|(name, value)| format!("{name} = {value}\n"));
        let text: String = ["[mariadbd]\n".to_owned()].into_iter().chain(lines).collect();
        fs::write(&file, text).map_err(LabError::file("write settings", &file))?;
        own(&file, user)
    }

    /// One server with threads.
    fn processes(&self, start: Start<'_>) -> Vec<ServerProcess> {
        let (data, endpoint) = (start.data, self.endpoint(start.sockets));
        let mut words: Vec<OsString> = vec![
            self.programs.server.clone().into(),
            option("defaults-file", &data.join(SETTINGS_FILE)),
            option("datadir", data),
            option("tmpdir", &data.join(TEMPORARY)),
            option("innodb-log-group-home-dir", &data.join(REDO)),
            option("socket", &endpoint.socket),
            option("pid-file", &start.sockets.join("mariadb.pid")),
            "--skip-networking".into(),
        ];
        // Otherwise they would be treated as databases.
        words.extend([REDO, TEMPORARY].map(|name| format!("--ignore-db-dirs={name}").into()));
        words.extend(start.overrides.iter().map(|(name, value)| format!("--{name}={value}").into()));
        vec![ServerProcess { name: "the database", words, endpoint: Some(endpoint) }]
    }

    fn open_session(&self, dsn: &str) -> Result<Box<dyn Session>, LabError> {
        Ok(Box::new(MariaDbSession::open(dsn)?))
    }

    fn signals(&self) -> Signals {
        Signals { stop: libc::SIGTERM, abort: libc::SIGKILL }
    }

    fn settings(&self, buffers_bytes: u64, users: u32) -> Settings {
        settings(buffers_bytes, users)
    }

    fn calls_alone(&self) -> Settings {
        vec![("innodb_use_native_aio".to_owned(), "OFF".to_owned())]
    }

    fn own_bytes(&self) -> u64 {
        OWN_BYTES
    }

    fn load_overrides(&self) -> &'static [(&'static str, &'static str)] {
        &LOAD_OVERRIDES
    }

    fn parts(&self) -> Parts {
        Parts { log: REDO, tablespaces: None, tables: "millrace_orders" }
    }

    fn check_knobs(&self, name: &str, tuning: &Tuning) -> Result<(), LabError> {
        self.programs.check_knobs(name, tuning)
    }
}

fn settings(buffers_bytes: u64, users: u32) -> Settings {
    [
        ("innodb_buffer_pool_size", format!("{}M", buffers_bytes >> 20)),
        ("max_connections", (users + 20).to_string()),
        ("innodb_flush_log_at_trx_commit", "1".into()),
        ("innodb_doublewrite", "ON".into()),
        ("innodb_log_file_size", "96M".into()),
        // Through the page cache on every path, like the filer's own reads: with O_DIRECT, a local read would go to the disk
        // and one over Direct NFS to the page cache of the filer's host, so the two would not be comparable.
        ("innodb_flush_method", "fsync".into()),
        // Not supported before version 10.8.
        ("loose_innodb_log_file_buffering", "ON".into()),
        // Each run starts with empty buffers.
        ("innodb_buffer_pool_dump_at_shutdown", "OFF".into()),
        ("innodb_buffer_pool_load_at_startup", "OFF".into()),
        ("skip_name_resolve", "ON".into()),
        // Times of reads and writes of data files, and the sessions that are in one; nothing else is instrumented.
        ("performance_schema", "ON".into()),
        ("performance_schema_consumer_events_waits_current", "ON".into()),
        ("performance_schema_instrument", "'%=OFF'".into()),
        ("performance_schema_instrument", "'wait/io/file/innodb/%=ON'".into()),
        ("innodb_monitor_enable", "log_checkpoints".into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

const LOAD_OVERRIDES: [(&str, &str); 7] = [
    ("innodb_flush_log_at_trx_commit", "0"),
    ("innodb_doublewrite", "OFF"),
    ("innodb_flush_method", "nosync"),
    ("innodb_buffer_pool_size", "512M"),
    ("innodb_log_file_size", "512M"),
    ("innodb_autoinc_lock_mode", "2"),
    ("skip_name_resolve", "ON"),
];

fn option(name: &str, path: &Path) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(path);
    word
}

/// A value in the query of a URL, with all special characters percent-encoded.
fn in_a_query(text: &str) -> String {
    percent_encoded(text, |byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_with_signs_of_a_url_in_its_path_is_found_again() {
        let path = "/var/a b&c=%2F/mariadb.sock";
        let url = format!("mysql://root@localhost/?socket={}", in_a_query(path));
        let options = mysql_async::Opts::from_url(&url).unwrap();
        assert_eq!(options.socket(), Some(path));
    }

    #[test]
    fn what_acknowledged_orders_depend_on_is_at_its_safe_value() {
        let settings = settings(64 << 20, 8);
        let of = |name: &str| settings.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        assert_eq!(of("innodb_flush_log_at_trx_commit"), Some("1"));
        assert_eq!(of("innodb_doublewrite"), Some("ON"));
        assert_eq!(of("innodb_buffer_pool_size"), Some("64M"));
        assert_eq!(of("max_connections"), Some("28"));
    }
}
