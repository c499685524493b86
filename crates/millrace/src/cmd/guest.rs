//! `millrace guest`: boots a stock kernel in QEMU for its storage clients.

mod fetch;
pub(crate) mod run;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use lab::guest::cache::Cache;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

const AFTER_HELP: &str = "\
Examples:
  millrace guest status
  millrace guest fetch
  millrace guest run -- uname -r

A kernel of the distribution boots in QEMU with this host's root read-only: this host's programs are
available, changes are discarded at the end, and no privilege on this host is needed. docs/guest.md
shows how to mount an NFS export, log in to a LUN by open-iscsi and set up Fibre Channel inside, and
what figures measured there mean.

Exit codes: 0 done; 2 could not run; `guest run` ends with the code of its command (its --help).";

#[derive(clap::Subcommand)]
enum Action {
    /// Show what a guest needs, what is missing, and the command to get it
    Status(status::Status),
    /// Fetch the kernel from the distribution into the cache; nothing is installed
    Fetch(fetch::Fetch),
    /// Boot a guest and run a command in it as root
    Run(run::Run),
}

/// Where the kernel is kept.
#[derive(clap::Args)]
struct CacheDirectory {
    /// Directory of the kernel [default: millrace/guest in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl CacheDirectory {
    fn open(&self) -> anyhow::Result<Cache> {
        Ok(Cache::at(self.cache.clone())?)
    }
}

/// Runs `millrace guest`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Status(status) => status::run(&status),
        Action::Fetch(fetch) => fetch::run(&fetch),
        Action::Run(run) => run::run(&run),
    }
}
