//! A temporary database cluster: created, started, stopped.
//!
//! The server listens only on a Unix socket in the work directory, so it uses no port of the
//! host. The settings are the same on every path; only the location of the files differs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use crate::database::engine::{Endpoint, Engine, ServerProcess, Settings, Start};
use crate::database::session::Session;
use crate::error::LabError;
use crate::host::interrupt;
use crate::host::process::{Launch, Process};
use crate::host::procfs;
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

/// A running database: its processes in the order of their start, and the laboratory's session with it.
pub(crate) struct Server {
    processes: Vec<Process>,
    session: Box<dyn Session>,
    stop_signal: i32,
}

impl ClusterPlace {
    /// The DSN of a database that is started here.
    pub(crate) fn dsn(&self) -> String {
        self.engine.endpoint(&self.socket_directory).dsn
    }

    /// Refuses a socket directory whose path is too long for a socket address.
    pub(crate) fn check_socket_path(&self) -> Result<(), LabError> {
        let path = self.engine.endpoint(&self.socket_directory).socket;
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

    /// Starts the database's processes on `data` under `prefix` (a program and arguments put before each, for
    /// example `millrace exec … --`) and waits for their first response. The first one writes to `log`, the others beside it.
    pub(crate) fn start(
        &self,
        prefix: &[OsString],
        data: &Path,
        overrides: &[(&str, &str)],
        log: PathBuf,
    ) -> Result<Server, LabError> {
        let (dsn, signals) = (self.dsn(), self.engine.signals());
        let (mut processes, mut session) = (Vec::new(), None);
        let orders = self.engine.processes(Start { data, sockets: &self.socket_directory, overrides });
        for (number, ServerProcess { name, words, endpoint }) in orders.into_iter().enumerate() {
            let mut words = prefix.iter().cloned().chain(words);
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words);
            self.clean_environment(&mut command);
            let log = if number == 0 { log.clone() } else { log.with_extension(format!("{number}.log")) };
            let mut launch = Launch::new(name, command, log);
            launch.user = Some(&self.user);
            launch.stop_signal = signals.abort;
            processes.push(launch.start()?);
            let Some(endpoint) = endpoint else { continue };
            let opened = self.await_session(&mut processes, &endpoint)?;
            session = session.or(opened.filter(|_| endpoint.dsn == dsn));
        }
        let session = session.ok_or_else(|| LabError::Program {
            program: "the database".to_owned(),
            outcome: "takes no sessions".to_owned(),
            detail: String::new(),
        })?;
        Ok(Server { processes, session, stop_signal: signals.stop })
    }

    /// Waits until the last of these processes takes sessions at its endpoint. An error if one of them has ended.
    fn await_session(&self, processes: &mut [Process], endpoint: &Endpoint) -> Result<Option<Box<dyn Session>>, LabError> {
        let opened = interrupt::wait_for(DATABASE_START_MAX, || {
            processes.iter_mut().try_for_each(Process::expect_alive)?;
            Ok(self.engine.open_session(&endpoint.dsn).ok())
        })?;
        match (&opened, processes.last()) {
            (None, Some(last)) => Err(last.failure(&format!("did not answer within {} s", DATABASE_START_MAX.as_secs()))),
            _ => Ok(opened),
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
    /// Pid of each of its processes; these may have children.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::pid).collect()
    }

    /// Bytes that its processes got from read calls since their start, without those of a process that reads other files than the
    /// tables'; `None` if the kernel does not say.
    pub(crate) fn bytes_from_read_calls(&mut self) -> Result<Option<u64>, LabError> {
        let other = self.session.reader_of_other_files()?;
        let counted = self.processes.iter().filter_map(|process| procfs::tree_read_bytes(process.pid(), other));
        Ok(counted.reduce(|one, more| one + more))
    }

    /// The laboratory's own session.
    pub(crate) fn session(&mut self) -> &mut dyn Session {
        &mut *self.session
    }

    /// An error if one of its processes has ended.
    pub(crate) fn expect_alive(&mut self) -> Result<(), LabError> {
        self.processes.iter_mut().try_for_each(Process::expect_alive)
    }

    /// Shuts the database down cleanly, the last process first: sessions are ended, everything is written, the exit codes must be 0.
    pub(crate) fn stop(self) -> Result<(), LabError> {
        drop(self.session);
        self.processes.into_iter().rev().try_for_each(|process| process.stop(self.stop_signal, DATABASE_STOP_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::kind::DatabaseKind;
    use crate::sys;

    #[test]
    fn a_database_of_several_processes_is_started_in_order_and_stopped_backwards() {
        let base = tempfile::tempdir().unwrap();
        let place = ClusterPlace {
            engine: DatabaseKind::named("dummydb").system().find(None).unwrap(),
            user: sys::user_by_uid(sys::effective_uid()).unwrap(),
            socket_directory: base.path().to_owned(),
            runtime_directory: base.path().to_owned(),
        };
        let log = base.path().join("database.log");
        let mut server = place.start(&[], base.path(), &[], log.clone()).unwrap();
        assert_eq!(server.pids().len(), 2);
        assert!(place.engine.endpoint(base.path()).socket.exists(), "sessions are opened at the endpoint");
        let counters = server.session().counters().unwrap();
        assert_eq!(place.engine.read_bytes(&counters, 4096), 3 * 4096);
        server.expect_alive().unwrap();
        assert!(server.bytes_from_read_calls().unwrap().is_some_and(|bytes| bytes > 0));
        server.stop().unwrap();
        let stopped = |file: &Path| std::fs::read_to_string(file).unwrap();
        assert!(stopped(&log).contains("stopped") && stopped(&base.path().join("database.1.log")).contains("stopped"));
    }
}
