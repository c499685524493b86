//! `millrace diff`: two comparisons side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use lab::diff::{diff, render};

const EXAMPLES: &str = "\
Examples:
  millrace diff millrace-results/monday millrace-results/tuesday
  millrace diff old/results.json new/results.json --json
Each figure has the 95 % interval of its difference, from the runs of both. A difference is claimed
only if the 99 % interval, which is not printed, excludes zero. `millrace compare --gate
old/results.json` fails if orders or CPU cost are worse by that rule.
Exit codes: 0 compared; 2 could not read a record.";

/// Shows what differs between two comparisons.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory or results.json of the first comparison
    a: PathBuf,
    /// Directory or results.json of the second one
    b: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `millrace diff`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let read = |path: &PathBuf| lab::record::read(path).context("compare two records");
    let found = diff(&read(&args.a)?, &read(&args.b)?);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", render(&found));
    }
    Ok(ExitCode::SUCCESS)
}
