//! `millrace orders conform`: checks the record of a run against the rules of the specification.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Parser;
use results::orders_run::OrdersRun;

use super::text;
use crate::error_printing::hinted;

/// The text after the options in `--help`.
pub(super) const HELP: &str = "\
Rules: shares of the mix, rollbacks, lines, remote lines and payments, customers by name, skipped
deliveries, New-Orders per minute and warehouse (paced), 90th percentiles and averages of response
times, due transactions that did not start. A figure outside its range is not judged if chance
alone, with this number of draws, can explain the difference. If a run keeps every rule, its figures
are still not comparable to published TPC-C results.
Examples:
  millrace orders conform run.json
  millrace orders conform run.json --json
Exit codes: 0 every judged rule is kept, 1 some are broken, 2 could not read the record, 3 nothing
could be judged.";

/// Arguments.
#[derive(Parser)]
pub(super) struct Args {
    /// Record of a run, written by `orders run --record FILE`
    #[arg(value_name = "FILE")]
    record: PathBuf,
    /// Print the rules as JSON
    #[arg(long)]
    json: bool,
}

/// Judges the record.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = args.record.display();
    let hint = "`millrace orders run --record FILE` writes the record of a run";
    let bytes = std::fs::read(&args.record).with_context(|| format!("read the record {path}"));
    let bytes = bytes.map_err(|error| hinted(error, hint))?;
    let run: OrdersRun = serde_json::from_slice(&bytes)
        .map_err(|error| hinted(anyhow!(error).context(format!("{path} is not the record of a run")), hint))?;
    let conform = orders::conform::conform(&run);
    if args.json {
        super::print_json(&conform)?;
    } else {
        println!("{}", run.disclaimer);
        print!("{}", text::conform_table(&conform));
    }
    let nothing = conform.items.iter().all(|item| item.not_judged.is_some());
    Ok(match (conform.passed, nothing) {
        (_, true) => ExitCode::from(3),
        (true, false) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(1),
    })
}
