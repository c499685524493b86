//! `millrace mount`: an NFS export as a FUSE file system, for programs that `millrace exec` cannot reach.

mod daemon;
mod log;
mod options;

use crate::cmd::exec::group;
use crate::cmd::runtime;
use crate::error_printing::{hinted, print_error};
use anyhow::{Context as _, anyhow};
use dnfs::NfsUrl;
use fuse_mount::mounting::{self, MountHow};
use options::Options;
pub(crate) use options::of_mount_program;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// After this time a line names what the command waits for, and again after each [`REPEAT`].
const QUIET: Duration = Duration::from_secs(2);
const REPEAT: Duration = Duration::from_secs(10);
/// The line that the background process prints when the mount is ready.
const READY: &str = "ready";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The export, or a directory in it
    #[arg(value_name = "nfs://HOST[:PORT]/EXPORT[/SUB][?OPTIONS]")]
    url: String,
    /// An empty directory of this host
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Serve it in this process until it is unmounted, instead of going to the background
    #[arg(long)]
    foreground: bool,
    /// Let other users use the mount, as root's mounts always do; needs user_allow_other in /etc/fuse.conf
    #[arg(long)]
    allow_other: bool,
    /// Share locks, sizes and unsaved data with the members of this group (name or number), like `millrace exec --group`
    #[arg(long, value_name = "GROUP")]
    group: Option<OsString>,
    /// Mount even if another user's programs hold file locks on the export; this mount does not respect those locks
    #[arg(long)]
    force: bool,
    /// Options as in the fourth field of fstab(5): ro or rw, noexec or exec, allow_other, group=GROUP, log=FILE;
    /// other options of mount(8) and systemd are accepted and have no effect here
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Option<Options>,
    /// Append messages about the server to this file [default: the system's log; with
    /// --foreground stderr]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print one JSON object on stdout once it is mounted
    #[arg(long)]
    json: bool,
    /// The process in the background
    #[arg(long, hide = true)]
    daemon: bool,
    /// Called by mount(8): print nothing, and end with its exit codes
    #[arg(long, hide = true)]
    by_mount: bool,
    /// Only check the arguments, for mount(8)
    #[arg(short = 'f', hide = true, requires = "by_mount")]
    fake: bool,
}

const AFTER_HELP: &str = "\
Examples:
  millrace mount nfs://filer/vol /mnt
  millrace mount --group mysql nfs://filer/vol /mnt
  millrace mount --foreground 'nfs://127.0.0.1/vol?nfsport=2049' /mnt
  millrace mount --json nfs://filer/vol /mnt
  millrace mount -o ro nfs://filer/vol /mnt
  mount -t fuse.millrace -o ro nfs://filer/vol /mnt
  millrace unmount /mnt

For programs that `millrace exec` cannot reach: static, Go and set-uid programs, and interactive
shells. Root mounts for all users; other users mount for themselves, by fusermount3 (package fuse3).
Each request goes to the server with the ids and groups of the calling user. Nothing is cached.
Sizes, data, names, locks and files removed while open are shared with the programs under `millrace
exec` of the same user or group on this host. Calls wait for a server that is away; SIGKILL ends a
waiting process. docs/mount.md lists what programs can rely on.

If the server does not answer, the command waits for it without limit, and lines on stderr say so.
If nothing listens on its port, the command fails at once.

One process serves the mount. If it is killed, programs get ENOTCONN (\"Transport endpoint is not
connected\"); run the same `millrace mount` again. SIGTERM unmounts.

Exit codes: 0 mounted, or with --foreground unmounted again; 2 could not mount.";

/// Exit code of mount(8): the mount failed.
const MOUNT_FAILED: u8 = 32;

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let options = args.options.clone().unwrap_or_default();
    args.allow_other |= options.allow_other;
    args.group = args.group.or(options.group.map(OsString::from));
    args.log = args.log.or(options.log.map(PathBuf::from));
    if !args.by_mount {
        return mount(&args);
    }
    if args.fake || is_mounted_already(&args) {
        return Ok(ExitCode::SUCCESS);
    }
    match mount(&args) {
        Ok(code) if code == ExitCode::SUCCESS => Ok(code),
        Ok(_) => Ok(ExitCode::from(MOUNT_FAILED)),
        Err(error) => {
            print_error(&error);
            Ok(ExitCode::from(MOUNT_FAILED))
        }
    }
}

/// Whether the export is already mounted there, as with `mount -a`. The table of mounts has the URL
/// without its options.
fn is_mounted_already(args: &Args) -> bool {
    let (Ok(url), Ok(directory)) = (args.url.parse::<NfsUrl>(), resolved(&args.directory)) else { return false };
    mounting::is_mounted(&directory, &url)
}

fn mount(args: &Args) -> anyhow::Result<ExitCode> {
    let url: NfsUrl = args.url.parse().with_context(|| format!("use the URL {}", dnfs::url::without_user(&args.url)))?;
    let directory = resolved(&args.directory)?;
    if args.foreground {
        enter_group(args.group.as_deref())?;
    }
    if args.group.is_none() {
        runtime::made(&dnfs::mount::runtime_root())?;
    }
    if args.daemon || args.foreground {
        return serve(args, url, directory);
    }
    let mut child = start(args, &directory)?;
    let stdout = child.stdout.take().context("receive the answer of the process that serves the mount")?;
    if wait_until_ready(stdout, &args.url) {
        if !args.by_mount {
            tell(args, &url, &directory, child.id());
        }
        return Ok(ExitCode::SUCCESS);
    }
    // The process has printed the reason on the same stderr.
    let code = child.wait().context("wait for the process that serves the mount")?.code();
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(code) if code != 0 => Ok(ExitCode::from(code)),
        _ => Err(anyhow!("mount {url} at {}: the process that serves it ended", directory.display())),
    }
}

/// The directory without symbolic links. It is also found if a dead mount is there.
pub(super) fn resolved(directory: &Path) -> anyhow::Result<PathBuf> {
    fuse_mount::resolved(directory).map_err(|error| {
        let hint = "the directory above it must exist and be open to this user: check the path";
        hinted(anyhow!(error).context(format!("find the directory {}", directory.display())), hint)
    })
}

/// Serves the mount in this process.
fn serve(args: &Args, url: NfsUrl, directory: PathBuf) -> anyhow::Result<ExitCode> {
    let phrase = format!("mount {url} at {}", directory.display());
    let options = args.options.clone().unwrap_or_default();
    let how = MountHow { allow_other: args.allow_other, read_only: options.read_only, no_exec: options.no_exec };
    let daemon =
        daemon::Daemon { url: url.clone(), text: args.url.clone(), directory: directory.clone(), how, force: args.force };
    if args.daemon {
        log::to(args.log.as_deref(), true)?;
        daemon.serve(|| daemon::leave_terminal(READY)).context(phrase)?;
    } else {
        log::to(args.log.as_deref(), false)?;
        let ready = || {
            tell(args, &url, &directory, std::process::id());
            Ok(())
        };
        daemon.serve(ready).context(phrase)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Executes this program again with the group's runtime directory in its environment, where all its
/// parts read it.
fn enter_group(group: Option<&OsStr>) -> anyhow::Result<()> {
    let Some(group) = group else { return Ok(()) };
    let directory = group::runtime_directory(group)?;
    if std::env::var_os(group::VARIABLE).as_ref() == Some(&directory) {
        return Ok(());
    }
    let binary = std::env::current_exe().context("find this binary")?;
    let error = Command::new(binary).args(std::env::args_os().skip(1)).env(group::VARIABLE, directory).exec();
    Err(anyhow!(error).context("run this program with the directory of the group"))
}

fn tell(args: &Args, url: &NfsUrl, directory: &Path, pid: u32) {
    if args.json {
        println!("{}", json!({"mounted": directory, "url": url.to_string(), "pid": pid}));
    } else {
        println!("{url} is mounted at {}", directory.display());
    }
}

/// Starts the process in the background. Its last argument is the directory, by which `millrace
/// unmount` finds it.
fn start(args: &Args, directory: &Path) -> anyhow::Result<Child> {
    let binary = std::env::current_exe().context("find this binary")?;
    let mut command = Command::new(binary);
    command.args(["mount", "--daemon"]);
    if args.allow_other {
        command.arg("--allow-other");
    }
    if args.force {
        command.arg("--force");
    }
    if let Some(options) = &args.options {
        // The other options have arguments of their own.
        let (access, exec) = (if options.read_only { "ro" } else { "rw" }, if options.no_exec { "noexec" } else { "exec" });
        command.arg("-o").arg(format!("{access},{exec}"));
    }
    if let Some(log) = &args.log {
        command.arg("--log").arg(std::path::absolute(log).with_context(|| format!("use --log {}", log.display()))?);
    }
    if let Some(group) = &args.group {
        command.env(group::VARIABLE, group::runtime_directory(group)?);
    }
    command.arg("--").arg(&args.url).arg(directory);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().context("start the process that serves the mount")
}

/// Waits until the process is ready. Returns false if it ended before.
fn wait_until_ready(stdout: ChildStdout, url: &str) -> bool {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = sender.send(line);
    });
    let (begin, mut pause) = (Instant::now(), QUIET);
    loop {
        match receiver.recv_timeout(pause) {
            Ok(line) => return line.trim() == READY,
            Err(RecvTimeoutError::Timeout) => {
                pause = REPEAT;
                eprintln!(
                    "millrace: waiting for {}: not mounted after {} s; check that the server runs; Ctrl-C ends the wait",
                    dnfs::url::without_user(url),
                    begin.elapsed().as_secs()
                );
            }
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
