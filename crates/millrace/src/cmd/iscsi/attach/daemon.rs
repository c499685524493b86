//! The process that serves an attached LUN to the kernel.

use super::super::attached::{Attached, Daemon};
use super::super::url_and_options;
use super::start::{Order, Ready, Said};
use crate::error_printing::{hints, text};
use anyhow::Context as _;
use initiator::Device;
use initiator::attach::{Server, Stop, keep_in_memory};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(in super::super) struct AttachDaemon {
    /// The directory of the attachment; the URL comes on stdin
    directory: PathBuf,
}

pub(in super::super) fn run(args: &AttachDaemon) -> anyhow::Result<()> {
    // This process is not a process group leader, so the call cannot fail. Signals of the terminal
    // no longer reach it.
    let _ = rustix::process::setsid();
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).log_internal_errors(false).init();
    let _lock = Attached::lock(&args.directory)?;
    let mut reporter = Reporter { directory: args.directory.clone(), last: Daemon::default() };
    // `detach` needs the process number to end this process while it logs in.
    reporter.report(Daemon { pid: std::process::id(), ..Daemon::default() });
    let (server, lacking) = match start(&args.directory) {
        Ok(started) => started,
        Err(error) => {
            let refused = error.downcast_ref::<initiator::Error>().is_some_and(initiator::Error::is_refusal);
            say(&Said::Failed { why: text(&error), refused, hints: hints(&error) })?;
            return Err(error);
        }
    };
    let ready = Ready::of(server.device(), lacking);
    // The state is written before `attach` reports success, so that `list` can show it from then on.
    reporter.report(Daemon::of(server.device(), initiator::attach::Activity::default()));
    say(&Said::Ready(ready))?;
    let ended = server.run(|device, activity| reporter.report(Daemon::of(device, activity)));
    match &ended {
        Ok(()) => tracing::info!("stopped"),
        Err(error) => tracing::error!(%error, "the LUN is no longer served"),
    }
    ended?;
    Ok(())
}

/// Logs in, mounts the FUSE file system, and stops on SIGTERM from then on. Also returns what could
/// not be done to keep the process running when memory is short.
fn start(directory: &Path) -> anyhow::Result<(Server, Vec<String>)> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).context("read what to serve")?;
    let order: Order = serde_json::from_str(&line).context("read what to serve")?;
    let (url, mut options) = url_and_options(&order.url, order.initiator.as_deref())?;
    options.depth = order.depth;
    options.of_use = Order::of_use(&url);
    let device = Device::open(&url, options)?;
    let lacking = keep_in_memory();
    for error in &lacking {
        tracing::warn!(%error, "I/O may hang when memory is short");
    }
    let server = Server::mount(device, &directory.join("fuse"))?;
    obey(server.stopper())?;
    Ok((server, lacking.iter().map(ToString::to_string).collect()))
}

/// Stops the server when SIGTERM comes.
fn obey(stop: Stop) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().context("wait for signals")?;
    let mut terminate = {
        let _guard = runtime.enter();
        signal(SignalKind::terminate()).context("wait for signals")?
    };
    let wait = move || {
        runtime.block_on(terminate.recv());
        tracing::info!("stopping on SIGTERM");
        stop.stop();
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("start a thread for signals")?;
    Ok(())
}

/// Prints a line for `attach`, which ends after it. Nothing else is printed on stdout.
fn say(said: &Said) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(said)?).and_then(|()| out.flush()).context("report to `attach`")
}

/// Writes each change to the file that `list` reads, and changes of paths to the log.
struct Reporter {
    directory: PathBuf,
    last: Daemon,
}

impl Reporter {
    fn report(&mut self, now: Daemon) {
        if now == self.last {
            return;
        }
        for (number, path) in now.paths.iter().enumerate() {
            if self.last.paths.get(number).is_none_or(|last| last.state != path.state) {
                tracing::info!(portal = path.portal, state = path.state, error = path.last_error, "path");
            }
        }
        if let Err(error) = Attached::save_daemon(&self.directory, &now) {
            tracing::warn!(error = text(&error), "`millrace iscsi list` does not show the latest state");
        }
        self.last = now;
    }
}
