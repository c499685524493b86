//! The interface to a database: how it is created, configured, started and stopped. Each database has its own file in this directory.

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use results::compare::DatabaseCounters;

use crate::database::session::Session;
use crate::error::LabError;
use crate::plan::Tuning;
use crate::sys::User;

/// Settings by name, with values in the database's notation.
pub(crate) type Settings = Vec<(String, String)>;

/// Locations in a data directory that a layout may put elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    /// Directory of the log.
    pub(crate) log: &'static str,
    /// Directory with the links to tablespaces, if the database has tablespaces.
    pub(crate) tablespaces: Option<&'static str>,
    /// Directory below which the load's tables are.
    pub(crate) tables: &'static str,
}

/// Signals that end a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signals {
    /// A clean stop: everything is written, and the exit code is 0.
    pub(crate) stop: i32,
    /// An immediate stop.
    pub(crate) abort: i32,
}

/// Where a process of a database takes sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Its Unix socket. No TCP port is opened.
    pub(crate) socket: PathBuf,
    /// Its DSN.
    pub(crate) dsn: String,
}

/// One process of a database.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    /// Its name in errors.
    pub(crate) name: &'static str,
    /// Its program and arguments.
    pub(crate) words: Vec<OsString>,
    /// Where it takes sessions; `None` for a process that serves only the others.
    pub(crate) endpoint: Option<Endpoint>,
}

/// Parameters for starting a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) data: &'a Path,
    /// Directory of the socket.
    pub(crate) sockets: &'a Path,
    /// Settings that take precedence over those in the data directory.
    pub(crate) overrides: &'a [(&'a str, &'a str)],
}

/// Server programs of one installed database.
pub(crate) trait Engine: Debug {
    /// The version that the programs report.
    fn version(&self) -> &str;

    /// Directory of the programs.
    fn directory(&self) -> &Path;

    /// Where the load and the laboratory open their sessions if the database is started with this directory of sockets.
    fn endpoint(&self, sockets: &Path) -> Endpoint;

    /// The command that creates an empty database in `data`; `user` runs it.
    ///
    /// # Errors
    /// Its prerequisites cannot be created.
    fn make(&self, data: &Path, user: &User) -> Result<Command, LabError>;

    /// Writes the settings that all paths share into the data directory, and makes the server read them.
    fn write_settings(&self, data: &Path, settings: &Settings, user: &User) -> Result<(), LabError>;

    /// The processes of a running database, in the order of their start. A process with an endpoint takes sessions there before the
    /// next one is started; one of them has [`Engine::endpoint`]. They are stopped in the opposite order.
    fn processes(&self, start: Start<'_>) -> Vec<ServerProcess>;

    /// Connects; the caller retries while the server starts.
    fn open_session(&self, dsn: &str) -> Result<Box<dyn Session>, LabError>;

    /// Signals that end a server.
    fn signals(&self) -> Signals;

    /// Settings for every path. Those for durability keep their safe defaults; they are written out so that the record
    /// shows them.
    fn settings(&self, buffers_bytes: u64, users: u32) -> Settings;

    /// Memory in bytes in addition to buffers and sessions.
    fn own_bytes(&self) -> u64;

    /// Settings that make only the load fast; the state is shut down cleanly and synced afterwards.
    fn load_overrides(&self) -> &'static [(&'static str, &'static str)];

    /// Locations in a data directory.
    fn parts(&self) -> Parts;

    /// Bytes that it read from its data files, by its own counters: those that the counters of the path must confirm. What a session
    /// reads at its start, and processes that read other files, are not among them: [`Session`] names both.
    fn read_bytes(&self, counters: &DatabaseCounters, block_bytes: u64) -> u64 {
        counters.blocks_read * block_bytes
    }

    /// Settings for copying finished log segments to a directory; empty if the database has no log archive.
    fn archive_settings(&self, directory: &Path) -> Settings {
        let _ = directory;
        Settings::new()
    }

    /// Settings with which it reads and writes only by its own calls, not through queues of the kernel (io_uring, libaio).
    fn calls_alone(&self) -> Settings {
        Settings::new()
    }

    /// Seconds from `began` to each end of a checkpoint in the server's log, negative for earlier ones.
    fn checkpoint_ends(&self, log: &Path, began: SystemTime) -> Vec<f64> {
        let _ = (log, began);
        Vec::new()
    }

    /// Refuses settings of a tuning that the server does not have, if its program can list them.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the tuning, the setting and the database.
    fn check_knobs(&self, name: &str, tuning: &Tuning) -> Result<(), LabError> {
        let _ = (name, tuning);
        Ok(())
    }
}
