//! A PostgreSQL whose cluster is on the filer. Each of its programs runs under `millrace exec`.

use super::filer::Filer;
use super::postgres::{as_database_user, database_user, give_to_database_user};
use super::{Scratch, await_until, preload_library, succeed, text};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The path of the mount, which does not exist on the host.
pub const MOUNT: &str = "/millrace-db";

/// A cluster in the volume's root. Dropping it stops the server. The client's runtime files are in
/// their own folder on tmpfs.
pub struct RemoteCluster {
    programs: PathBuf,
    millrace: PathBuf,
    url: String,
    runtime: tempfile::TempDir,
    sockets: PathBuf,
    settings: String,
    inside: Option<u32>,
    /// Further words for `--mount`, for example for a log archive.
    mounts: Vec<String>,
    sessions: Mutex<BTreeSet<u32>>,
}

impl RemoteCluster {
    /// Makes a cluster over the mount, and does not start it. `settings` are further `-c
    /// name=value` words for the server.
    pub fn create(scratch: &Scratch, filer: &Filer, programs: &Path, settings: &str) -> Self {
        Self::create_by(&filer.url, scratch, filer, programs, settings)
    }

    /// As [`Self::create`], mounted by this URL.
    pub fn create_by(url: &str, scratch: &Scratch, filer: &Filer, programs: &Path, settings: &str) -> Self {
        Self::create_on(url, filer.export(), None, scratch, programs, settings)
    }

    /// As [`Self::create`], on any server that exports the folder `export` at `url`, in the
    /// namespaces of the process `inside`.
    pub fn create_on(url: &str, export: &Path, inside: Option<u32>, scratch: &Scratch, programs: &Path, settings: &str) -> Self {
        let folder = scratch.folder("bin");
        for program in [PathBuf::from(env!("CARGO_BIN_EXE_millrace")), preload_library()] {
            std::fs::copy(&program, folder.join(program.file_name().unwrap())).unwrap();
        }
        let private = std::fs::Permissions::from_mode(0o700);
        let runtime = tempfile::Builder::new().prefix("millrace-test-").permissions(private).tempdir_in("/dev/shm").unwrap();
        let sockets = scratch.folder("sockets");
        for path in [runtime.path(), &sockets, export] {
            give_to_database_user(path);
        }
        let cluster = Self {
            programs: programs.to_owned(),
            millrace: folder.join("millrace"),
            url: url.to_owned(),
            runtime,
            sockets,
            settings: settings.to_owned(),
            inside,
            mounts: Vec::new(),
            sessions: Mutex::default(),
        };
        let initdb = cluster.programs.join("initdb");
        succeed(cluster.exec(&initdb).args(["-A", "trust", "-U", "postgres", "--data-checksums", "-D", &cluster.data()]));
        cluster
    }

    /// Also mounts another volume at `path` for programs that are started from now on.
    pub fn mount(&mut self, path: &str, filer: &Filer) {
        give_to_database_user(filer.export());
        self.mounts.push(format!("{path}={}", filer.url));
    }

    /// The data directory as the database sees it.
    pub fn data(&self) -> String {
        format!("{MOUNT}/data")
    }

    /// `millrace exec … -- PROGRAM`, as the database's user.
    pub fn exec(&self, program: &Path) -> Command {
        let mut command = match self.inside {
            None => as_database_user(&self.millrace),
            Some(pid) => {
                let (uid, gid) = database_user();
                let mut command = Command::new("nsenter");
                command.args(["-t", &pid.to_string(), "-n", "-m", "-S", &uid.to_string(), "-G", &gid.to_string(), "--"]);
                command.arg(&self.millrace).current_dir("/").env("LC_ALL", "C").env_remove("PGHOST").env_remove("PGPORT");
                command
            }
        };
        command
            .env("MILLRACE_RUNTIME_DIR", self.runtime.path())
            .args(["exec", "--mount", &format!("{MOUNT}={}", self.url)])
            .args(self.mounts.iter().flat_map(|mount| ["--mount", mount]))
            .arg("--")
            .arg(program);
        command
    }

    /// Runs pg_ctl start, and waits for the end of the recovery. The server's log is on the mount.
    pub fn start(&self) {
        let options = format!("-c listen_addresses='' -k {} {}", self.sockets.display(), self.settings);
        let log = format!("{MOUNT}/log");
        succeed(&mut self.pg_ctl(&["start", "-w", "-t", "180", "-s", "-l", &log, "-o", &options]));
    }

    /// Runs pg_ctl stop in the given mode.
    pub fn stop(&self, mode: &str) {
        succeed(&mut self.pg_ctl(&["stop", "-w", "-t", "120", "-s", "-m", mode]));
    }

    /// Whether a server runs.
    pub fn is_running(&self) -> bool {
        self.pg_ctl(&["status", "-s"]).status().unwrap().success()
    }

    /// A libpq connection string.
    pub fn dsn(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.sockets.display())
    }

    /// Runs one statement by psql. Not under exec, because only the server's files are on the mount.
    pub fn sql(&self, statement: &str) -> String {
        self.try_sql(statement).unwrap_or_else(|printed| panic!("{statement}: {printed}"))
    }

    /// Number of blocks that checkpoints have written so far.
    pub fn checkpointed_blocks(&self) -> u64 {
        let count = self.try_sql("select buffers_written from pg_stat_checkpointer"); // from version 17 on
        let count = count.unwrap_or_else(|_| self.sql("select buffers_checkpoint from pg_stat_bgwriter"));
        count.trim().parse().unwrap()
    }

    /// Runs one statement by psql. Returns its output, also if it fails.
    pub fn try_sql(&self, statement: &str) -> Result<String, String> {
        let psql = super::find_program("psql").expect("psql");
        let arguments = ["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &self.dsn(), "-c", statement];
        let output = as_database_user(psql).args(arguments).output().unwrap();
        if output.status.success() { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) } else { Err(text(&output)) }
    }

    /// Process numbers of the postmaster and its children. pg_ctl makes the postmaster a session
    /// leader. A child's title overwrites its command line and environment, so the session
    /// identifies the children.
    pub fn pids(&self) -> Vec<u32> {
        let mark = format!("\0-D\0{}\0", self.data());
        let runtime = format!("MILLRACE_RUNTIME_DIR={}\0", self.runtime.path().display());
        let read = |pid: u32, name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let has = |bytes: &[u8], part: &str| bytes.windows(part.len()).any(|window| window == part.as_bytes());
        let all: Vec<u32> =
            std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let mut sessions = self.sessions.lock().unwrap();
        sessions.extend(all.iter().filter(|pid| has(&read(**pid, "cmdline"), &mark) && has(&read(**pid, "environ"), &runtime)));
        all.into_iter().filter(|pid| session(&read(*pid, "stat")).is_some_and(|session| sessions.contains(&session))).collect()
    }

    /// Sends SIGKILL to every process of the cluster, as if the host had died.
    pub fn kill(&self) {
        await_until("the whole database to be gone", Duration::from_secs(20), || {
            let pids = self.pids();
            for pid in &pids {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
            }
            pids.is_empty().then_some(())
        });
    }

    fn pg_ctl(&self, arguments: &[&str]) -> Command {
        let mut command = self.exec(&self.programs.join("pg_ctl"));
        command.args(["-D", &self.data()]).args(arguments);
        command
    }
}

impl Drop for RemoteCluster {
    fn drop(&mut self) {
        // The postmaster gets SIGQUIT first, because it then removes its shared memory even if the
        // mount does not answer.
        let leaders: Vec<u32> = { self.pids().into_iter().filter(|pid| self.sessions.lock().unwrap().contains(pid)).collect() };
        for leader in &leaders {
            let _ = Command::new("kill").args(["-QUIT", &leader.to_string()]).output();
        }
        let end = Instant::now() + Duration::from_secs(10);
        while leaders.iter().any(|pid| Path::new("/proc").join(pid.to_string()).exists()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20)); // between looks
        }
        self.kill();
    }
}

/// Session of a process, from its stat line. The fields are counted after the name, which may
/// contain anything.
fn session(stat: &[u8]) -> Option<u32> {
    let stat = String::from_utf8_lossy(stat);
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(3)?.parse().ok()
}
