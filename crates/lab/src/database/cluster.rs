//! A temporary database cluster: created, started, stopped.
//!
//! The server listens only on a Unix socket in the work directory, so it uses no port of the
//! host. The settings are the same on every path; only the location of the files differs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use crate::database::engine::{Engine, Settings, Start};
use crate::database::session::Session;
use crate::error::LabError;
use crate::host::interrupt;
use crate::host::process::{Launch, Process};
use crate::limits::{DATABASE_MAKE_MAX, DATABASE_START_MAX, DATABASE_STOP_MAX};
use crate::sys::User;

/// Longest path of a Unix socket on Linux, without the final NUL.
const SOCKET_PATH_MAX: usize = 107;

/// Parameters of a cluster's environment.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPlace {
    pub(crate) engine: Rc<dyn Engine>,
    pub(crate) user: User,
    /// Directory of the socket, owned by `user`.
    pub(crate) socket_directory: PathBuf,
    /// Directory of the shared state of the Direct NFS clients in the server's processes, owned by `user`.
    pub(crate) runtime_directory: PathBuf,
}

/// A running server.
pub(crate) struct Server {
    process: Process,
    session: Box<dyn Session>,
    stop_signal: i32,
}

impl ClusterPlace {
    /// The DSN of a server that is started here.
    pub(crate) fn dsn(&self) -> String {
        self.engine.dsn(&self.socket_directory)
    }

    /// Refuses a socket directory whose path is too long for a socket address.
    pub(crate) fn check_socket_path(&self) -> Result<(), LabError> {
        let path = self.engine.socket(&self.socket_directory);
        let length = path.as_os_str().len();
        if length <= SOCKET_PATH_MAX {
            return Ok(());
        }
        Err(LabError::Plan {
            what: format!("use {}: a socket path there has {length} bytes, more than {SOCKET_PATH_MAX}", path.display()),
            hint: "choose a shorter directory with --work".to_owned(),
        })
    }

    /// Creates an empty database in `data` as the unprivileged user.
    pub(crate) fn make(&self, data: &Path, log: PathBuf) -> Result<(), LabError> {
        let mut command = self.engine.make(data, &self.user)?;
        let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.clean_environment(&mut command);
        let mut launch = Launch::new(&name, command, log);
        launch.user = Some(&self.user);
        launch.run(DATABASE_MAKE_MAX)?;
        // The load has its own settings.
        self.write_settings(data, &Settings::new())
    }

    /// Writes the settings that all paths share, and makes the server read them.
    pub(crate) fn write_settings(&self, data: &Path, settings: &Settings) -> Result<(), LabError> {
        self.engine.write_settings(data, settings, &self.user)
    }

    /// Starts a server on `data` under `prefix` (a program and arguments put before it, for
    /// example `millrace exec … --`) and waits for its first response.
    pub(crate) fn start(
        &self,
        prefix: &[OsString],
        data: &Path,
        overrides: &[(&str, &str)],
        log: PathBuf,
    ) -> Result<Server, LabError> {
        let mut words: Vec<OsString> = prefix.to_vec();
        words.extend(self.engine.words(Start { data, sockets: &self.socket_directory, overrides }));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        self.clean_environment(&mut command);
        let mut launch = Launch::new("the database", command, log);
        launch.user = Some(&self.user);
        let signals = self.engine.signals();
        launch.stop_signal = signals.abort;
        let mut process = launch.start()?;
        let dsn = self.dsn();
        let session = interrupt::wait_for(DATABASE_START_MAX, || {
            process.expect_alive()?;
            Ok(self.engine.open_session(&dsn).ok())
        })?;
        match session {
            Some(session) => Ok(Server { process, session, stop_signal: signals.stop }),
            None => Err(process.failure(&format!("did not answer within {} s", DATABASE_START_MAX.as_secs()))),
        }
    }

    /// Runs a program like the server, until it ends. Returns its output.
    pub(crate) fn run(&self, name: &str, words: &[OsString], log: PathBuf, limit: Duration) -> Result<String, LabError> {
        let Some((program, arguments)) = words.split_first() else { return Ok(String::new()) };
        let mut command = Command::new(program);
        command.args(arguments);
        self.clean_environment(&mut command);
        let mut launch = Launch::new(name, command, log);
        launch.user = Some(&self.user);
        launch.output(limit)
    }

    /// Removes variables of the caller that could change the server's behaviour.
    fn clean_environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("HOME", &self.runtime_directory)
            .env("USER", &self.user.name)
            .env("MILLRACE_RUNTIME_DIR", &self.runtime_directory)
            .current_dir("/");
        for name in ["MILLRACE_LOG", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
    }
}

impl Server {
    /// Pid of its first process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The laboratory's own session.
    pub(crate) fn session(&mut self) -> &mut dyn Session {
        &mut *self.session
    }

    /// An error if the server has ended.
    pub(crate) fn expect_alive(&mut self) -> Result<(), LabError> {
        self.process.expect_alive()
    }

    /// Shuts the server down cleanly: sessions are ended, everything is written, the exit code must be 0.
    pub(crate) fn stop(self) -> Result<(), LabError> {
        drop(self.session);
        self.process.stop(self.stop_signal, DATABASE_STOP_MAX)
    }
}
