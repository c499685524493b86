//! The process that serves a mount.

use crate::cmd::apart::report_apart;
use anyhow::Context as _;
use dnfs::mount::{KeeperProgram, Mount, MountSpec};
use dnfs::{Credentials, Event, NfsUrl};
use fuse_mount::mounting::MountHow;
use fuse_mount::{Server, mounting};
use rustix::process::{Resource, Rlimit, configure_io_flusher_behavior, getrlimit, setrlimit};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// What to serve, and where.
pub(super) struct Daemon {
    pub(super) url: NfsUrl,
    /// The URL as it was given, with its options.
    pub(super) text: String,
    pub(super) directory: PathBuf,
    pub(super) how: MountHow,
    /// Mount although another user's programs hold file locks.
    pub(super) force: bool,
}

impl Daemon {
    /// Mounts, calls `ready`, and serves until the mount is unmounted.
    pub(super) fn serve(self, ready: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        if mounting::prepare(&self.directory)? {
            eprintln!("millrace: removed the dead mount at {}: its process had ended", self.directory.display());
        }
        allow_many_files();
        // Threads inherit this setting, so it is made before they start.
        let flusher = configure_io_flusher_behavior(true);
        dnfs::report_to(report);
        let spec = MountSpec { local_path: self.directory.as_os_str().as_bytes().to_vec(), url: self.url.clone() };
        let mount = Mount::attach_unlisted(&spec, &Credentials::of_process())?;
        report_apart(&self.url, &mount.client().parts(), &dnfs::mount::runtime_root(), self.force)?;
        ensure_keeper(&mount, &self.directory, &self.text);
        let server = Server::mount(mount, &self.url, &self.directory, self.how)?;
        if let Err(error) = obey(self.directory.clone()).and_then(|()| ready()) {
            let _ = mounting::unmount(&self.directory, true);
            return Err(error);
        }
        if let Err(error) = flusher {
            tracing::debug!(%error, "no PR_SET_IO_FLUSHER");
        }
        tracing::info!(url = %self.url, directory = %self.directory.display(), "mounted");
        let ended = server.run();
        match &ended {
            Ok(()) => tracing::info!(directory = %self.directory.display(), "unmounted"),
            Err(error) => tracing::error!(%error, "the mount is no longer served"),
        }
        Ok(ended?)
    }
}

/// Raises the limit of open files: each open file of a program has a descriptor in this process.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Starts a keeper, which commits for this process if it is killed.
fn ensure_keeper(mount: &Mount, directory: &Path, url: &str) {
    let path = directory.as_os_str().as_bytes();
    // A path with an equals sign could not be distinguished from the URL; the keeper does not need it.
    let path = if path.contains(&b'=') { b"/mount" } else { path };
    let program = std::env::current_exe().ok().and_then(|binary| {
        let spec = [path, b"=", url.as_bytes()].concat();
        KeeperProgram::new(binary.as_os_str(), &spec)
    });
    if let Some(program) = program.filter(|_| !mount.has_keeper())
        && !program.start()
    {
        tracing::warn!("cannot start a keeper: what a killed process wrote stays uncommitted until the next fsync");
    }
}

/// Unmounts on SIGTERM and SIGINT. Programs that use the mount can continue until they are done.
fn obey(directory: PathBuf) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().context("wait for signals")?;
    let (mut terminate, mut interrupt) = {
        let _guard = runtime.enter();
        (
            signal(SignalKind::terminate()).context("wait for signals")?,
            signal(SignalKind::interrupt()).context("wait for signals")?,
        )
    };
    let wait = move || loop {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        if let Err(error) = mounting::unmount(&directory, true) {
            tracing::warn!(%error, "cannot unmount");
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("start a thread for signals")?;
    Ok(())
}

/// Logs an event.
fn report(event: Event) {
    match event {
        Event::NotResponding { server, cause, silent } => {
            tracing::warn!(%server, waiting_s = silent.as_secs(), "the server {cause}");
        }
        Event::Responding { server, away } => tracing::info!(%server, away_s = away.as_secs(), "the server answers again"),
        Event::OtherVersionEnds { found } => {
            tracing::info!(layout = found, "waiting until another version of millrace has saved what programs wrote");
        }
        Event::NothingKept => {
            let directory = dnfs::mount::runtime_root();
            tracing::warn!(directory = %directory.display(), "no space left: written data is not kept until COMMIT");
        }
        Event::Unanswered { server, call, renewed } => {
            let (file, age_s) = (call.file, call.age.as_secs());
            tracing::warn!(%server, procedure = %call.procedure(), ?file, offset = call.offset, age_s, renewed, "the server leaves a call unanswered");
        }
        Event::Denied { server, denial } => tracing::error!(%server, "{denial}"),
        Event::ExportGone { server, export, waited } => {
            tracing::warn!(%server, %export, waiting_s = waited.as_secs(), "the server no longer exports {export}");
        }
        Event::ExportBack { server, export, away } => {
            tracing::info!(%server, %export, away_s = away.as_secs(), "the server exports {export} again");
        }
        Event::DirectoryRemoved { server, export } => {
            tracing::error!(%server, %export, "{export} was removed on the server: calls fail with ESTALE");
        }
        Event::VolumeReplaced { server, export } => {
            tracing::error!(%server, %export, "the server exports another volume as {export}: open files of the old one fail with ESTALE");
        }
    }
}

/// Prints on stdout that it is ready, and detaches from the terminal.
pub(super) fn leave_terminal(ready: &str) -> anyhow::Result<()> {
    // It is not a process group leader, so this cannot fail. Signals of the terminal no longer reach it.
    let _ = rustix::process::setsid();
    let mut out = io::stdout().lock();
    writeln!(out, "{ready}").and_then(|()| out.flush()).context("report that it is mounted")?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").context("open /dev/null")?;
    rustix::stdio::dup2_stdout(&null).and_then(|()| rustix::stdio::dup2_stderr(&null)).context("detach from the terminal")
}
