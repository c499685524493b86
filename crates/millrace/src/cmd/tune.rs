//! `millrace tune`: what the audit found, changed and changed back.

mod apply;
mod explain;
mod facts;
mod measure;
mod plan;
mod revert;

use std::path::PathBuf;
use std::process::ExitCode;

use tune::change::{Root, State};

const EXAMPLES: &str = "\
Examples:
  millrace tune plan                                   what would change on this host, with differences
  millrace tune plan --facts db1.tar.gz                the same for a capture, foreign systems included
  millrace tune apply                                  asks for each group; --yes for all
  millrace tune apply --rule linux-nfs-slot-table      this rule alone
  millrace tune revert                                 takes the newest apply back, byte for byte
  millrace tune measure --dry-run                      what a measurement of PostgreSQL's rules would do
  millrace tune explain linux-nfs-slot-table           all that a rule says, and its fix for this host
Exit codes: 0 done, or nothing to do; 1 something was left or refused; 2 could not run.";

/// Plans what the audit found, applies it, and takes it back.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// The exact changes, running and persistent, grouped by what they take; changes nothing
    Plan(plan::Args),
    /// Do what plan shows, group by group; every file is backed up and recorded before
    Apply(apply::Args),
    /// Take an apply back: contents, mode, owner and time of each file, and running values
    Revert(revert::Args),
    /// What rules bring on the order load, measured one by one and added up; only a shown gain is kept
    Measure(measure::Args),
    /// Everything a rule says: reason, sources, who says otherwise, and its fix for this host
    Explain(explain::Args),
}

/// Where records of applies are kept.
#[derive(clap::Args)]
struct Place {
    /// The tree that is read and changed instead of this host's own
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Directory of the backups and of the record of each apply [default: /var/lib/millrace/tune below the root]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl Place {
    fn state(&self) -> State {
        let default = || self.tree().host("/var/lib/millrace/tune");
        State::new(self.state.clone().unwrap_or_else(default))
    }

    fn tree(&self) -> Root {
        Root::new(self.root.clone().unwrap_or_else(|| PathBuf::from("/")))
    }
}

/// Runs `millrace tune`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.job {
        Job::Plan(args) => plan::run(args),
        Job::Apply(args) => apply::run(args),
        Job::Revert(args) => revert::run(args),
        Job::Measure(args) => measure::run(&args),
        Job::Explain(args) => explain::run(args),
    }
}
