//! PostgreSQL for the laboratory: its programs, counters, archive and tablespaces.

mod alter_system;
mod archive;
pub(crate) mod binaries;
mod checkpoints;
pub(crate) mod client;
mod session;
pub(crate) mod system;
mod tablespaces;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::database::engine::{Endpoint, Engine, Parts, ServerProcess, Settings, Signals, Start};
use crate::database::session::Session;
use crate::error::LabError;
use crate::placement::workdir::own;
use crate::plan::{DATABASE, Tuning};
use crate::sys::User;
use binaries::Binaries;
use session::PostgresSession;

/// Number in the name of the socket file. No TCP port is opened.
const SOCKET_NUMBER: u16 = 54_320;

/// Memory in addition to its buffers and sessions, if its page cache is limited: the server's own processes and shared structures.
const OWN_BYTES: u64 = 96 << 20;

/// Name of the settings file, which is the same on every path.
const SETTINGS_FILE: &str = "millrace.conf";

/// PostgreSQL's server programs.
#[derive(Debug)]
pub(crate) struct Postgres {
    binaries: Binaries,
}

impl Postgres {
    /// As [`Binaries::find`].
    pub(crate) fn find(chosen: Option<&Path>) -> Result<Self, LabError> {
        Ok(Self { binaries: Binaries::find(chosen)? })
    }
}

impl Engine for Postgres {
    fn version(&self) -> &str {
        &self.binaries.version
    }

    fn directory(&self) -> &Path {
        &self.binaries.directory
    }

    fn endpoint(&self, sockets: &Path) -> Endpoint {
        // A value between quotes may contain blanks; quotes and backslashes are escaped.
        let directory = sockets.display().to_string();
        let directory = directory.replace('\\', "\\\\").replace('\'', "\\'");
        let dsn = format!("host='{directory}' port={SOCKET_NUMBER} user=postgres dbname=postgres");
        Endpoint { socket: sockets.join(format!(".s.PGSQL.{SOCKET_NUMBER}")), dsn }
    }

    /// With data checksums.
    fn make(&self, data: &Path, _user: &User) -> Result<Command, LabError> {
        let mut command = Command::new(self.binaries.program("initdb"));
        command
            .args(["--data-checksums", "--username=postgres", "--auth=trust"])
            .args(["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions", "--pgdata"])
            .arg(data);
        Ok(command)
    }

    fn write_settings(&self, data: &Path, settings: &Settings, user: &User) -> Result<(), LabError> {
        let file = data.join(SETTINGS_FILE);
        let lines: String = settings.iter().map(|(name, value)| format!("{name} = '{value}'\n")).collect();
        fs::write(&file, lines).map_err(LabError::file("write settings", &file))?;
        own(&file, user)?;
        let main = data.join("postgresql.conf");
        let text = fs::read_to_string(&main).map_err(LabError::file("read", &main))?;
        let include = format!("include = '{SETTINGS_FILE}'\n");
        if text.ends_with(&include) {
            return Ok(());
        }
        fs::write(&main, text + "\n" + &include).map_err(LabError::file("write", &main))
    }

    /// One server, which starts its own children.
    fn processes(&self, start: Start<'_>) -> Vec<ServerProcess> {
        let mut words: Vec<OsString> = vec![self.binaries.program("postgres").into(), "-D".into(), start.data.into()];
        for (name, value) in [("listen_addresses", ""), ("unix_socket_permissions", "0700")].iter().chain(start.overrides) {
            words.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        words.extend(["-k".into(), start.sockets.into(), "-p".into(), SOCKET_NUMBER.to_string().into()]);
        vec![ServerProcess { name: "the database", words, endpoint: Some(self.endpoint(start.sockets)) }]
    }

    fn open_session(&self, dsn: &str) -> Result<Box<dyn Session>, LabError> {
        Ok(Box::new(PostgresSession::open(dsn)?))
    }

    /// A fast shutdown, and an immediate one, in which the server ends its own children.
    fn signals(&self) -> Signals {
        Signals { stop: libc::SIGINT, abort: libc::SIGQUIT }
    }

    fn settings(&self, buffers_bytes: u64, users: u32) -> Settings {
        settings(buffers_bytes, users)
    }

    fn own_bytes(&self) -> u64 {
        OWN_BYTES
    }

    fn load_overrides(&self) -> &'static [(&'static str, &'static str)] {
        &LOAD_OVERRIDES
    }

    fn parts(&self) -> Parts {
        Parts { log: "pg_wal", tablespaces: Some("pg_tblspc"), tables: "base" }
    }

    fn archive_settings(&self, directory: &Path) -> Settings {
        archive::settings(directory).into()
    }

    /// Only a running server knows all of its settings, so only settings that are clearly MariaDB's are refused here.
    fn check_knobs(&self, name: &str, tuning: &Tuning) -> Result<(), LabError> {
        let of_mariadb =
            |knob: &&String| ["innodb_", "aria_", "performance_schema"].iter().any(|prefix| knob.starts_with(prefix));
        match tuning.of(DATABASE).keys().find(of_mariadb) {
            Some(knob) => Err(LabError::plan(
                format!("use tuning.{name}.database with PostgreSQL: {knob} is a variable of MariaDB"),
                "a tuning sets what the database of the comparison has; --database mariadb runs MariaDB",
            )),
            None => Ok(()),
        }
    }

    fn checkpoint_ends(&self, log: &Path, began: SystemTime) -> Vec<f64> {
        checkpoints::ends(log, began)
    }
}

/// Settings for every path. Durability settings keep their safe defaults and
/// are written out so that the record shows them.
fn settings(buffers_bytes: u64, users: u32) -> Settings {
    let kib = buffers_bytes / 1024;
    [
        ("shared_buffers", format!("{kib}kB")),
        ("max_connections", (users + 20).to_string()),
        ("fsync", "on".into()),
        ("synchronous_commit", "on".into()),
        ("full_page_writes", "on".into()),
        ("wal_sync_method", "fdatasync".into()),
        ("wal_level", "replica".into()),
        ("max_wal_size", "2GB".into()),
        ("checkpoint_timeout", "30s".into()),
        ("checkpoint_completion_target", "0.9".into()),
        ("track_io_timing", "on".into()),
        ("track_wal_io_timing", "on".into()),
        ("huge_pages", "off".into()),
        ("jit", "off".into()),
        ("log_checkpoints", "on".into()),
        ("logging_collector", "off".into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Settings that make only the load fast; the state is shut down cleanly and synced afterwards.
const LOAD_OVERRIDES: [(&str, &str); 8] = [
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("synchronous_commit", "off"),
    ("shared_buffers", "512MB"),
    ("max_wal_size", "2GB"),
    ("maintenance_work_mem", "256MB"),
];
