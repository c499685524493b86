//! `millrace audit diff`: what differs between two audits.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use results::audit::Audit;
use tune::difference::{self, difference};
use tune::stored_audit;

use crate::error_printing::hinted;

pub(super) const HELP: &str = "\
Examples:
  millrace audit diff last-week.json today.json
  millrace audit diff db1.json db2.json --json
A finding whose facts are missing in the second audit counts as changed, not as gone: nothing shows
that it was fixed.
Exit codes: 0 nothing is worse; 1 a finding is new, worse, or no longer waived (those for
information never count); 2 could not read one of the two.";

/// Shows what differs between two audits.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The first audit, written with --format json
    a: PathBuf,
    /// The second one
    b: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `millrace audit diff`.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = difference(&read(&args.a)?, &read(&args.b)?);
    print!("{}", if args.json { difference::json(&found) } else { difference::text(&found) });
    Ok(ExitCode::from(u8::from(found.is_worse())))
}

fn read(file: &Path) -> anyhow::Result<Audit> {
    stored_audit::read(file).map_err(|error| {
        let what = anyhow::Error::new(error).context("compare two audits");
        hinted(what, "an audit is stored with: millrace audit --format json --out FILE")
    })
}
