//! A throw-away PostgreSQL cluster: made, started, stopped.
//!
//! The server listens on a Unix socket in the work directory only, so no port of the host
//! is taken. The same settings hold on every path; where the files lie is the difference.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::database::postgres::binaries::Binaries;
use crate::database::postgres::counters::Session;
use crate::error::LabError;
use crate::host::interrupt;
use crate::host::process::{Launch, Process, describe};
use crate::limits::{DATABASE_START_MAX, DATABASE_STOP_MAX};
use crate::sys::User;

/// Number in the name of the socket file. No TCP port is opened.
const SOCKET_NUMBER: u16 = 54_320;

/// Longest path of a Unix socket on Linux, the final NUL apart.
const SOCKET_PATH_MAX: usize = 107;

/// Name of the settings file that is the same on every path.
const SETTINGS_FILE: &str = "millrace.conf";

/// What a cluster needs from its surroundings.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPlace {
    pub(crate) binaries: Binaries,
    pub(crate) user: User,
    /// Directory of the socket; belongs to `user`.
    pub(crate) socket_directory: PathBuf,
    /// Where the Direct NFS clients of the server's processes meet; belongs to `user`.
    pub(crate) runtime_directory: PathBuf,
}

/// A running server.
pub(crate) struct Server {
    process: Process,
    session: Session,
}

impl ClusterPlace {
    /// The DSN that reaches a server started here.
    pub(crate) fn dsn(&self) -> String {
        // A value between quotes may hold blanks; quotes and backslashes are escaped.
        let directory = self.socket_directory.display().to_string();
        let directory = directory.replace('\\', "\\\\").replace('\'', "\\'");
        format!("host='{directory}' port={SOCKET_NUMBER} user=postgres dbname=postgres")
    }

    /// Refuses a socket directory whose path is too long for a socket address.
    pub(crate) fn check_socket_path(&self) -> Result<(), LabError> {
        let path = self.socket_directory.join(format!(".s.PGSQL.{SOCKET_NUMBER}"));
        let length = path.as_os_str().len();
        if length <= SOCKET_PATH_MAX {
            return Ok(());
        }
        Err(LabError::Plan {
            what: format!("use {}: a socket path there has {length} bytes, more than {SOCKET_PATH_MAX}", path.display()),
            hint: "choose a shorter directory with --work".to_owned(),
        })
    }

    /// Makes a cluster with data checksums in `data` as the unprivileged user.
    pub(crate) fn initdb(&self, data: &Path, log: PathBuf) -> Result<(), LabError> {
        let mut command = Command::new(self.binaries.program("initdb"));
        command
            .args(["--data-checksums", "--username=postgres", "--auth=trust"])
            .args(["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions", "--pgdata"])
            .arg(data);
        self.clean_environment(&mut command);
        let mut launch = Launch::new("initdb", command, log);
        launch.user = Some(&self.user);
        launch.run(Duration::from_secs(120))
    }

    /// Writes the settings that every path shares and has the cluster read them.
    pub(crate) fn write_settings(&self, data: &Path, settings: &[(String, String)]) -> Result<(), LabError> {
        let file = data.join(SETTINGS_FILE);
        let lines: String = settings.iter().map(|(name, value)| format!("{name} = '{value}'\n")).collect();
        fs::write(&file, lines).map_err(LabError::file("write settings", &file))?;
        std::os::unix::fs::chown(&file, Some(self.user.uid), Some(self.user.gid))
            .map_err(LabError::file("change the owner of", &file))?;
        let main = data.join("postgresql.conf");
        let text = fs::read_to_string(&main).map_err(LabError::file("read", &main))?;
        let include = format!("include = '{SETTINGS_FILE}'\n");
        if text.ends_with(&include) {
            return Ok(());
        }
        fs::write(&main, text + "\n" + &include).map_err(LabError::file("write", &main))
    }

    /// Starts a server on `data` under `prefix` (a program and arguments put before it, for
    /// example `millrace exec … --`) and waits for its first answer.
    pub(crate) fn start(
        &self,
        prefix: &[OsString],
        data: &Path,
        overrides: &[(&str, &str)],
        log: PathBuf,
    ) -> Result<Server, LabError> {
        let mut words: Vec<OsString> = prefix.to_vec();
        words.push(self.binaries.program("postgres").into());
        words.push("-D".into());
        words.push(data.into());
        for (name, value) in [("listen_addresses", ""), ("unix_socket_permissions", "0700")].iter().chain(overrides) {
            words.push("-c".into());
            words.push(format!("{name}={value}").into());
        }
        words.push("-k".into());
        words.push(self.socket_directory.clone().into());
        words.push("-p".into());
        words.push(SOCKET_NUMBER.to_string().into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        self.clean_environment(&mut command);
        let mut launch = Launch::new("the database", command, log);
        launch.user = Some(&self.user);
        launch.stop_signal = libc::SIGQUIT; // immediate shutdown: the server ends its own children
        let mut process = launch.start()?;
        let dsn = self.dsn();
        let session = interrupt::wait_for(DATABASE_START_MAX, || {
            process.expect_alive()?;
            Ok(Session::open(&dsn).ok())
        })?;
        match session {
            Some(session) => Ok(Server { process, session }),
            None => Err(process.failure(&format!("did not answer within {} s", DATABASE_START_MAX.as_secs()))),
        }
    }

    /// Runs a program as the server would be run, to its end; gives what it printed.
    pub(crate) fn run(&self, name: &str, words: &[OsString], log: PathBuf, limit: Duration) -> Result<String, LabError> {
        let Some((program, arguments)) = words.split_first() else { return Ok(String::new()) };
        let mut command = Command::new(program);
        command.args(arguments);
        self.clean_environment(&mut command);
        let mut launch = Launch::new(name, command, log);
        launch.user = Some(&self.user);
        launch.pipe_stdout = true;
        let mut process = launch.start()?;
        let Some(stdout) = process.take_stdout() else { return Err(process.failure("has no output")) };
        let reader = std::thread::spawn(move || std::io::read_to_string(stdout));
        match process.wait(limit)? {
            Some(status) if status.success() => Ok(reader.join().ok().and_then(Result::ok).unwrap_or_default()),
            Some(status) => Err(process.failure(&describe(status))),
            None => Err(process.failure(&format!("did not end within {} s", limit.as_secs()))),
        }
    }

    /// The server sees no variable of the caller that could change its behaviour.
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
    /// Pid of the postmaster.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The laboratory's own session.
    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// An error when the server has ended.
    pub(crate) fn expect_alive(&mut self) -> Result<(), LabError> {
        self.process.expect_alive()
    }

    /// Fast shutdown: sessions are ended, a checkpoint is written, the exit code must be 0.
    pub(crate) fn stop(self) -> Result<(), LabError> {
        drop(self.session);
        self.process.stop(libc::SIGINT, DATABASE_STOP_MAX)
    }
}

/// Settings that hold on every path. Durability settings stay at their safe defaults and
/// are named so that the record shows them.
pub(crate) fn settings(buffers_bytes: u64, users: u32) -> Vec<(String, String)> {
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

/// What makes the one load fast; the state is shut down cleanly and synced afterwards.
pub(crate) const LOAD_OVERRIDES: [(&str, &str); 8] = [
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("synchronous_commit", "off"),
    ("shared_buffers", "512MB"),
    ("max_wal_size", "2GB"),
    ("maintenance_work_mem", "256MB"),
];
