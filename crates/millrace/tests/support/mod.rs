//! Shared by end-to-end tests: a scratch folder, a running filer, a temporary PostgreSQL. Dropping
//! a value stops everything that was started, and removes everything that was made, for it.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test file uses its part, and a panic is a test's verdict"
)]

pub mod any_server;
pub mod attached;
pub mod behaved;
pub mod browser;
pub mod compare;
pub mod configured;
pub mod filer;
pub mod fuse;
pub mod ganesha;
pub mod keepers;
pub mod lesser_server;
pub mod lun_load;
pub mod mariadb;
pub mod mounted;
pub mod namespaces;
pub mod orders;
pub mod pgbouncer;
pub mod postgres;
pub mod private_files;
pub mod process;
pub mod proxy;
pub mod redirector;
pub mod remote;
pub mod rules;
pub mod scsi;
pub mod shares;
pub mod swallow;
pub mod target;
pub mod tgt;
pub mod tls;
pub mod wire;
pub mod withdrawn;
pub mod world;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The binary under test.
pub fn millrace() -> Command {
    Command::new(env!("CARGO_BIN_EXE_millrace"))
}

/// The binary under test where the host has no configuration of a database, if this user can make mount namespaces: a test finds its own servers alone,
/// and changes no others.
pub fn millrace_without_databases_of_host() -> Command {
    const HIDE: &str =
        "for d in /etc/postgresql /etc/mysql /etc/my.cnf.d; do [ ! -d $d ] || mount -t tmpfs none $d; done; exec \"$@\"";
    if !may_make_namespaces() {
        return millrace();
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", HIDE, "sh", env!("CARGO_BIN_EXE_millrace")]);
    command
}

/// The binary under test, in the network namespace of a process.
pub fn millrace_inside(pid: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{pid}/ns/net")).arg("--").arg(env!("CARGO_BIN_EXE_millrace"));
    command
}

/// The preload library that `cargo build --workspace` puts beside the binary.
pub fn preload_library() -> PathBuf {
    let library = Path::new(env!("CARGO_BIN_EXE_millrace")).with_file_name("libmillrace_preload.so");
    assert!(library.exists(), "{} is missing: run cargo build -p preload first", library.display());
    library
}

pub use sim::{skip, skip_unsupported};

/// Seeds of an end-to-end sweep: only `MILLRACE_SEED`, or else as many as `count` returns for
/// `MILLRACE_E2E_SEEDS` (2 by default).
pub fn seeds(count: impl Fn(u64) -> u64) -> Vec<u64> {
    match environment_number("MILLRACE_SEED") {
        Some(seed) => vec![seed],
        None => (1..=count(seed_count())).collect(),
    }
}

/// `MILLRACE_E2E_SEEDS`, 2 by default.
pub fn seed_count() -> u64 {
    environment_number("MILLRACE_E2E_SEEDS").unwrap_or(2)
}

/// A number in the environment.
pub fn environment_number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// A program's path, if it is installed.
pub fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Python with the packages that `scripts/setup peers` installs beside the binaries.
pub fn peers_python() -> Option<PathBuf> {
    beside_target("peers-venv/bin/python3")
}

/// fsx, which `scripts/setup nightly` installs beside the binaries.
pub fn peers_fsx() -> Option<PathBuf> {
    beside_target("peers-fsx/bin/fsx")
}

/// Login plugins of MariaDB, which `scripts/setup peers` unpacks beside the binaries where the server's package is not installed.
pub fn peers_mariadb() -> Option<PathBuf> {
    beside_target("peers-mariadb")
}

fn beside_target(name: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_millrace")).ancestors().nth(2).unwrap();
    Some(target.join(name)).filter(|program| program.exists())
}

/// A folder that other users may enter. Dropping it removes the folder.
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub fn new(label: &str) -> Self {
        let folder = tempfile::Builder::new().prefix(&format!("millrace-{label}-")).tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A new folder inside.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

/// Whether the tests run as root, and may change to any user.
pub fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

/// Whether the tests may make their own mount and PID namespaces. Prints a message if not.
pub fn may_make_namespaces() -> bool {
    let tried = Command::new("unshare").args(["--mount", "--pid", "--mount-proc", "--fork", "true"]).output();
    let may = tried.is_ok_and(|output| output.status.success());
    if !may {
        skip_unsupported("this user may not make mount and PID namespaces");
    }
    may
}

/// Turns a directory into a runtime directory that a group shares.
pub fn share_with_group(directory: &Path, gid: u32) {
    std::os::unix::fs::chown(directory, None, Some(gid)).unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o2770)).unwrap();
}

/// Runs a command to its end. If it fails, panics with its complete output.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Lets this process, and those that it starts from now on, open this many descriptors, or as many
/// as the host allows. Returns the number.
pub fn descriptors_up_to(wanted: u64) -> u64 {
    let pid = std::process::id().to_string();
    let hard = succeed(Command::new("prlimit").args(["--pid", &pid, "--nofile", "--noheadings", "--output", "HARD"]));
    let allowed = wanted.min(hard.trim().parse().unwrap_or(u64::MAX));
    succeed(Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={allowed}:{}", hard.trim())]));
    allowed
}

/// Lets this process, and those that it starts from now on, open this many descriptors. Returns
/// false, and skips the test, if the host does not allow that.
pub fn has_descriptors(wanted: u64) -> bool {
    let is_allowed = descriptors_up_to(wanted) >= wanted;
    if !is_allowed {
        skip_unsupported(&format!("a process may not have {wanted} descriptors"));
    }
    is_allowed
}

/// Runs asynchronous work to its end.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The complete output of a program.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Waits until `condition` returns a value. After `limit`, panics and names `what`.
pub fn await_until<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(10)); // the pause between checks; the condition ends the wait
    }
}
