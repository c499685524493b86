//! `millrace tune`: applies changes for what the audit found, and reverts them.

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
  millrace tune plan                               the changes on this host, files as diffs
  millrace tune plan --facts db1.tar.gz            the same for a capture, also of Solaris or AIX
  millrace tune apply                              asks for each group; --yes for all
  millrace tune apply --rule linux-swappiness      this rule alone
  millrace tune revert                             reverts the newest apply, byte for byte
  millrace tune measure --dry-run                  the steps to measure PostgreSQL's rules
  millrace tune explain linux-rpc-slots-enough     the complete rule, and its fix for this host
Exit codes: 0 done, or nothing to do; 1 a group was declined or refused, or something was not
reverted; 2 could not run; 4 applied, and steps are left to you. `measure` has its own.";

/// Plans the changes for what the audit found, applies them, and reverts them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Show the exact changes, running and persistent, grouped by what they need (reload, restart, remount, reboot); change
    /// nothing
    Plan(plan::Args),
    /// Apply what plan shows, group by group; each file is backed up and recorded first
    Apply(apply::Args),
    /// Revert an apply: contents, mode, owner and time of each file, and running values
    Revert(revert::Args),
    /// Measure the effect of rules on the order-entry load, one by one and cumulatively; keep only those with a significant gain
    Measure(measure::Args),
    /// Show a rule: reason, sources, sources that disagree, and its fix for this host
    Explain(explain::Args),
}

/// Where records of applies are kept.
#[derive(clap::Args)]
struct Place {
    /// Root of the file tree that is read and changed [default: /; `revert` takes that of the apply]
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
