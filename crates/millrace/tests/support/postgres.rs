//! PostgreSQL: its programs, its user, and a cluster on the local disk.

use super::{await_until, find_program, succeed};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Folder of the newest server that Debian has installed, or `MILLRACE_TEST_PG_BIN`.
pub fn server_programs() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("MILLRACE_TEST_PG_BIN") {
        return Some(folder.into());
    }
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, folder)| folder.join("initdb").is_file())
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder)
}

/// The unprivileged user that runs databases, because PostgreSQL refuses root: `postgres`, or else
/// nobody. Without root, the test's own user.
pub fn database_user() -> (u32, u32) {
    let id = |flag: &str, name: &[&str]| -> Option<u32> {
        let output = Command::new("id").arg(flag).args(name).output().ok().filter(|output| output.status.success())?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    match (id("-u", &[]), id("-u", &["postgres"]), id("-g", &["postgres"])) {
        (Some(0), Some(uid), Some(gid)) => (uid, gid),
        (Some(0), ..) => (65534, 65534),
        (uid, ..) => (uid.unwrap(), id("-g", &[]).unwrap()),
    }
}

/// A command run as the database's user.
pub fn as_database_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let (uid, gid) = database_user();
    let mut command = Command::new(program);
    command.uid(uid).gid(gid).current_dir("/").env("LC_ALL", "C").env_remove("PGHOST").env_remove("PGPORT");
    command
}

/// Gives a folder to the database's user.
pub fn give_to_database_user(path: &Path) {
    let (uid, gid) = database_user();
    chown(path, Some(uid), Some(gid)).unwrap();
}

/// A cluster on the local disk, which is reached through a socket in its folder. Dropping it stops
/// the server.
pub struct Cluster {
    programs: PathBuf,
    data: PathBuf,
    sockets: PathBuf,
    /// The port of its sockets, and of its TCP address if it has one.
    port: u16,
    /// More options of the server.
    more: String,
    /// The postmaster of the last start. It stays known when the cluster's files cannot be read.
    postmaster: AtomicU32,
}

impl Cluster {
    /// Makes and starts a cluster below `folder`, without fsync. `None` if PostgreSQL is not installed.
    pub fn start(folder: &Path) -> Option<Self> {
        Self::start_with(folder, "-c fsync=off")
    }

    /// As [`Self::start`], with these options. A setting of the command line takes precedence over
    /// every file.
    pub fn start_with(folder: &Path, more: impl Into<String>) -> Option<Self> {
        Self::start_made_with(folder, &[], more)
    }

    /// As [`Self::start_with`], made with these options of initdb.
    pub fn start_made_with(folder: &Path, initdb: &[&str], more: impl Into<String>) -> Option<Self> {
        Self::start_at(folder, initdb, 5432, format!("-c listen_addresses='' {}", more.into()))
    }

    /// As [`Self::start_with`], also reachable at 127.0.0.1 and [`Self::port`].
    pub fn start_tcp(folder: &Path, more: &str) -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::start_at(folder, &[], port, format!("-c listen_addresses=127.0.0.1 {more}"))
    }

    fn start_at(folder: &Path, initdb: &[&str], port: u16, more: String) -> Option<Self> {
        let programs = server_programs()?;
        let (data, sockets) = (folder.join("data"), folder.join("sockets"));
        for path in [&data, &sockets] {
            std::fs::create_dir_all(path).unwrap();
            give_to_database_user(path);
        }
        succeed(
            as_database_user(programs.join("initdb"))
                .args(["--no-sync", "-A", "trust", "-U", "postgres"])
                .args(initdb)
                .arg("-D")
                .arg(&data),
        );
        let cluster = Self { programs, data, sockets, port, more, postmaster: AtomicU32::new(0) };
        cluster.restart();
        Some(cluster)
    }

    /// Starts the server again after [`Self::kill`]. Waits for the recovery.
    pub fn restart(&self) {
        let log = self.data.join("log");
        let options = self.options();
        succeed(&mut self.pg_ctl(&["start", "-w", "-t", "180", "-s", "-l", log.to_str().unwrap(), "-o", &options]));
        let file = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap();
        self.postmaster.store(file.lines().next().unwrap().parse().unwrap(), Ordering::Relaxed);
    }

    /// The directory of the cluster's data and configuration.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A libpq connection string.
    pub fn dsn(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.sockets.display(), self.port)
    }

    /// The cluster's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.data.join("log")).unwrap()
    }

    /// Runs one statement by psql. Returns its rows, unaligned.
    pub fn sql(&self, statement: &str) -> String {
        self.sql_in("postgres", statement)
    }

    /// As [`Self::sql`], in another database of the cluster.
    pub fn sql_in(&self, database: &str, statement: &str) -> String {
        succeed(as_database_user(find_program("psql").expect("psql")).args([
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            &self.dsn().replace("dbname=postgres", &format!("dbname={database}")),
            "-c",
            statement,
        ]))
    }

    /// Stops every process of the server for this time. The database does nothing meanwhile, and
    /// then continues.
    pub fn pause(&self, time: Duration) {
        let postmaster = self.postmaster();
        // The postmaster is stopped first, so that it starts no further children.
        succeed(Command::new("kill").args(["-STOP", &postmaster]));
        succeed(Command::new("pkill").args(["-STOP", "-P", &postmaster]));
        std::thread::sleep(time);
        succeed(Command::new("pkill").args(["-CONT", "-P", &postmaster]));
        succeed(Command::new("kill").args(["-CONT", &postmaster]));
    }

    fn postmaster(&self) -> String {
        self.postmaster.load(Ordering::Relaxed).to_string()
    }

    /// Sends SIGKILL to every process of the cluster, as if the host had died.
    pub fn kill(&self) {
        let postmaster = self.postmaster();
        // A stopped postmaster starts no further children.
        let _ = Command::new("kill").args(["-STOP", &postmaster]).output();
        let children = Command::new("pgrep").args(["-P", &postmaster]).output().unwrap();
        let mut all: Vec<String> = String::from_utf8_lossy(&children.stdout).lines().map(str::to_owned).collect();
        all.push(postmaster);
        let _ = Command::new("kill").arg("-KILL").args(&all).output();
        await_until("the whole database to be gone", Duration::from_secs(30), || {
            all.iter().all(|pid| !Path::new("/proc").join(pid).exists()).then_some(())
        });
    }

    fn options(&self) -> String {
        format!("-k {} -p {} {}", self.sockets.display(), self.port, self.more)
    }

    fn pg_ctl(&self, arguments: &[&str]) -> Command {
        let mut command = as_database_user(self.programs.join("pg_ctl"));
        command.arg("-D").arg(&self.data).args(arguments);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The cluster's files may be gone.
        if self.data.exists() {
            let _ = self.pg_ctl(&["stop", "-m", "immediate", "-w", "-s"]).status();
        }
    }
}
