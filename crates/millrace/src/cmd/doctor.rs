//! `millrace doctor`: what this host can measure.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use lab::doctor::{Options, all_good, examine, render};

const EXAMPLES: &str = "\
Examples:
  millrace doctor
  millrace doctor --work /srv/fast --json
Exit codes: 0 no line begins with NO; 1 one does: it says what is missing, and how to fix it; 2
could not check.";

/// Checks what can be measured here, what not, why, and what fixes it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory below which a comparison would put its work directory
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
    /// Directory of PostgreSQL's server programs [default: PATH, then the newest installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `millrace doctor`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("find this program's own file")?;
    let findings = examine(&Options { program, work_base: args.work, pg_bin: args.pg_bin });
    if args.json {
        println!("{}", serde_json::to_string_pretty(&findings).context("write the findings")?);
    } else {
        print!("{}", render(&findings));
    }
    Ok(ExitCode::from(u8::from(!all_good(&findings))))
}
