//! `millrace guest status`.

use std::process::ExitCode;

use anyhow::Context as _;
use lab::doctor::render;
use lab::guest::status::examine;

use super::CacheDirectory;

const EXAMPLES: &str = "\
Examples:
  millrace guest status
  millrace guest status --json
Exit codes: 0 a guest can be booted; 2 something is missing: the last line is the first command to
run.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Status {
    #[command(flatten)]
    cache: CacheDirectory,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Status) -> anyhow::Result<ExitCode> {
    let status = examine(&args.cache.open()?);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status).context("write the findings")?);
    } else {
        print!("{}", render(&status.findings));
        if let Some(fix) = &status.fix {
            println!("first: {fix}");
        }
    }
    Ok(ExitCode::from(if status.ready { 0 } else { 2 }))
}
