//! What a comparison asks of a database, whichever it is: how it is made, set, started and stopped. One file for each beside this.

use std::ffi::OsString;
use std::fmt::Debug;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::SystemTime;

use crate::database::kind::DatabaseKind;
use crate::database::mariadb::MariaDb;
use crate::database::postgres::Postgres;
use crate::database::session::Session;
use crate::error::LabError;
use crate::plan::Tuning;
use crate::sys::User;

/// Settings by name, with values as the database takes them.
pub(crate) type Settings = Vec<(String, String)>;

/// Which part of a data directory lies where, as far as a layout may put it elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// Directory of the log.
    pub(crate) log: &'static str,
    /// Directory whose links lead to tablespaces, where the database has such.
    pub(crate) tablespaces: Option<&'static str>,
    /// Directory below which the load's tables are.
    pub(crate) tables: &'static str,
}

/// Signals that end a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signals {
    /// A clean stop: everything is written, the exit code is 0.
    pub(crate) stop: i32,
    /// An end at once.
    pub(crate) abort: i32,
}

/// What a server is started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) data: &'a Path,
    /// Directory of the socket.
    pub(crate) sockets: &'a Path,
    /// Settings over those in the data directory.
    pub(crate) overrides: &'a [(&'a str, &'a str)],
}

/// Server programs of one installed database.
pub(crate) trait Engine: Debug {
    /// The programs' version, as they say it.
    fn version(&self) -> &str;

    /// Where they are.
    fn directory(&self) -> &Path;

    /// The socket a server listens on that is started with this directory of sockets. No TCP port is opened.
    fn socket(&self, sockets: &Path) -> PathBuf;

    /// The DSN that reaches it there, as the load takes it.
    fn dsn(&self, sockets: &Path) -> String;

    /// The command that makes an empty database in `data`, for `user`, who runs it.
    ///
    /// # Errors
    /// When what it needs beforehand can't be made.
    fn make(&self, data: &Path, user: &User) -> Result<Command, LabError>;

    /// Writes the settings that every path shares into the data directory, and has the server read them.
    fn write_settings(&self, data: &Path, settings: &Settings, user: &User) -> Result<(), LabError>;

    /// The server's program and arguments.
    fn words(&self, start: Start<'_>) -> Vec<OsString>;

    /// Connects; the caller retries while the server starts.
    fn open_session(&self, dsn: &str) -> Result<Box<dyn Session>, LabError>;

    /// Signals that end a server.
    fn signals(&self) -> Signals;

    /// Settings that hold on every path. Those of durability stay at their safe defaults and are named so that the record
    /// shows them.
    fn settings(&self, buffers_bytes: u64, users: u32) -> Settings;

    /// Memory in bytes beside buffers and sessions.
    fn own_bytes(&self) -> u64;

    /// What makes the one load fast; the state is shut down cleanly and synced afterwards.
    fn load_overrides(&self) -> &'static [(&'static str, &'static str)];

    /// Which part of a data directory lies where.
    fn parts(&self) -> Parts;

    /// Settings that have finished log copied to a directory; none where the database has no such thing.
    fn archive_settings(&self, directory: &Path) -> Settings {
        let _ = directory;
        Settings::new()
    }

    /// Settings with which it reads and writes by calls of its own alone, not through queues of the kernel (io_uring, libaio).
    fn calls_alone(&self) -> Settings {
        Settings::new()
    }

    /// Seconds from `began` to each end of a checkpoint that the server's log tells of, negative before it.
    fn checkpoint_ends(&self, log: &Path, began: SystemTime) -> Vec<f64> {
        let _ = (log, began);
        Vec::new()
    }

    /// Refuses settings of a tuning that the server does not have, where its program can be asked.
    ///
    /// # Errors
    /// [`LabError::Plan`] naming the tuning, the setting and the database.
    fn check_knobs(&self, name: &str, tuning: &Tuning) -> Result<(), LabError> {
        let _ = (name, tuning);
        Ok(())
    }
}

/// The programs of a database: in `chosen`, else where they are looked for.
///
/// # Errors
/// [`LabError::Missing`] naming the package, or saying what `chosen` lacks.
pub(crate) fn find(kind: DatabaseKind, chosen: Option<&Path>) -> Result<Rc<dyn Engine>, LabError> {
    Ok(match kind {
        DatabaseKind::Postgresql => Rc::new(Postgres::find(chosen)?),
        DatabaseKind::MariaDb => Rc::new(MariaDb::find()?),
    })
}

/// Packages that a comparison lacks, by Debian's names: none when the database's programs are here, or a directory is named.
#[must_use]
pub fn missing_packages(kind: DatabaseKind, chosen: Option<&Path>) -> Vec<&'static str> {
    if chosen.is_some() || find(kind, None).is_ok() { Vec::new() } else { vec![kind.package()] }
}

/// Whether a file is there that can be run.
pub(super) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}
