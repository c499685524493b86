//! `millrace predict`: predicts the effect of another load, more slots or another medium.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use lab::limits::USERS_MAX;
use lab::predict::what_if::{WhatIf, render, what_if};

use super::values::{decimal, whole};

const EXAMPLES: &str = "\
Examples:
  millrace predict millrace-results/TIME   the same load, and a curve over users
  millrace predict results.json --configuration dnfs --users 64   with 64 users
  millrace predict results.json --configuration dnfs --slots 16   the slots of an old client
  millrace predict results.json --spindles 80 --latency 8000  80 spindles at 8 ms
  millrace predict results.json --cores 8 --json
The model is a closed queueing network fitted to the measurements of one path (docs/lab.md says
how, and its error on measured points that were left out).
Exit codes: 0 predicted; 2 could not predict (no such record, a path that can't be fitted,
arguments); 3 predicted, but the prediction must not be trusted: lines that begin with NOT TO BE
TRUSTED, and `doubts` of --json, say why.";

/// Exit code of a prediction with doubts: a result that is not valid.
const NOT_TRUSTED: u8 = 3;

/// Predicts from the record of a comparison, by a queueing model.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory or results.json of a comparison
    run: PathBuf,
    /// Configuration of the record that the model is fitted to: a path, with label and settings as the report names it [default: the
    /// first measured one]
    #[arg(long = "configuration", alias = "arm", value_name = "NAME")]
    arm: Option<String>,
    /// Users, each sending its next transaction when the last one ended
    #[arg(long, value_name = "N", value_parser = whole("users", 1..=USERS_MAX, 64))]
    users: Option<u32>,
    /// Maximum of calls outstanding on the mount; 0: no limit
    #[arg(long, value_name = "N", value_parser = whole("calls", 0..=u32::MAX, 16))]
    slots: Option<u32>,
    /// Replace the measured storage by this many spindles with a queue each
    #[arg(long, value_name = "N", value_parser = whole("spindles", 1..=usize::MAX, 80))]
    spindles: Option<usize>,
    /// Time of one block read in microseconds; with --spindles, the service time of a spindle
    #[arg(long, value_name = "US", value_parser = decimal("microseconds", 0.001..=1e9, 8000.0))]
    latency: Option<f64>,
    /// Processors of the same speed
    #[arg(long, value_name = "N", value_parser = decimal("processors", 0.001..=1e6, 8.0))]
    cores: Option<f64>,
    /// Time of one flush of the log in microseconds
    #[arg(long, value_name = "US", value_parser = decimal("microseconds", 0.001..=1e9, 500.0))]
    flush: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `millrace predict`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let change = WhatIf {
        arm: args.arm,
        users: args.users,
        slots: args.slots,
        spindles: args.spindles,
        latency_us: args.latency,
        cores: args.cores,
        flush_us: args.flush,
    };
    let answer = lab::record::read(&args.run).and_then(|comparison| what_if(&comparison, &change)).context("predict")?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        print!("{}", render(&answer));
    }
    Ok(if answer.doubts.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NOT_TRUSTED) })
}
