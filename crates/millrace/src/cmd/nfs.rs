//! `millrace nfs`: files on an NFS server, without a mount.

mod bench;
mod copy;
pub(crate) mod counters;
mod fill;
mod give_up;
mod list;
mod prometheus;
mod target;

use std::io::IsTerminal;
use std::process::ExitCode;

use super::interrupts::Stopped;
use crate::error_printing::print_error;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

const AFTER_HELP: &str = "\
Examples:
  millrace nfs ls -l nfs://127.0.0.1/vol
  millrace nfs cat nfs://filer/vol/etc/motd
  millrace nfs cp dump.sql 'nfs://filer/vol/dump.sql?uid=1000'
  millrace nfs stat --json nfs://filer:2049/vol/db
  millrace nfs bench --create --size 1GiB --rw randread --bs 8k --depth 32 nfs://filer/vol/x.bench
  millrace nfs bench --depth 64 'nfs://filer/vol/x.bench?slots=16'
  millrace nfs counters --seconds 10
  millrace nfs counters --prometheus            for Prometheus (docs/monitoring.md)
  millrace nfs give-up /db                      end a mount whose server is gone for good

URL: nfs://HOST[:PORT]/EXPORT[/PATH][?option=value&…]. docs/nfs-url.md lists all options, among them
rsize, wsize, channels (connections of one process), stable, uid, gid, nfsport, mountport, timeo
(tenths of a second), retrans, soft, and limits of older clients: slots (calls in progress on the
whole mount), split (largest call), writers=one (one write to a file at a time). The MOUNT protocol
is tried on the NFS port first.

Exit codes: 0 done; 1 the server refused it (no such file, no space, …); 2 could not run
(arguments, no server, no export); 130 and 143: ended by SIGINT (Ctrl-C) or SIGTERM; `cp` then
removes the incomplete copy, and `bench --create` the incomplete file.";

#[derive(clap::Subcommand)]
enum Action {
    /// List a directory
    Ls(list::Ls),
    /// Show attributes of a file or directory
    Stat(list::Stat),
    /// Write a file to stdout
    Cat(copy::Cat),
    /// Copy a file, to or from the server
    Cp(copy::Cp),
    /// Measure reads or writes: IOPS, latency, client CPU
    Bench(bench::Bench),
    /// Show what all programs did on their mounts: calls by size, latency, slots
    Counters(counters::Counters),
    /// End a mount: have the server commit its data, or list the data that is not saved
    GiveUp(give_up::GiveUp),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let outcome = match &args.action {
        Action::Ls(ls) => list::ls(ls),
        Action::Stat(stat) => list::stat(stat),
        Action::Cat(cat) => copy::cat(cat),
        Action::Cp(cp) => copy::cp(cp),
        Action::Bench(bench) => bench::run(bench),
        Action::Counters(counters) => counters::run(counters),
        Action::GiveUp(give_up) => give_up::run(give_up),
    };
    let Err(error) = outcome else { return Ok(ExitCode::SUCCESS) };
    print_error(&error);
    let is_refusal = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<dnfs::Error>().is_some_and(|error| error.fs_error().is_some())
    };
    if let Some(Stopped(code)) = error.chain().find_map(|cause| cause.downcast_ref()) {
        return Ok(ExitCode::from(*code));
    }
    let refused = error.chain().any(is_refusal);
    Ok(ExitCode::from(if refused { 1 } else { 2 }))
}

/// Progress on stderr once work takes longer than two seconds. On a terminal it is one line that is
/// overwritten.
struct Progress {
    begun: std::time::Instant,
    shown: Option<std::time::Instant>,
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self { begun: std::time::Instant::now(), shown: None, terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, text: impl FnOnce() -> String) {
        let now = std::time::Instant::now();
        let next = std::time::Duration::from_millis(if self.terminal { 500 } else { 2_000 });
        let due = self.shown.map_or(self.begun + std::time::Duration::from_secs(2), |shown| shown + next);
        if now < due {
            return;
        }
        self.shown = Some(now);
        if self.terminal {
            eprint!("\r{}\x1b[K", text());
        } else {
            eprintln!("{}", text());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal && self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
