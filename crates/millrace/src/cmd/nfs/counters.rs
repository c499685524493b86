//! `counters`: what the segments of this host's mounts tell.

pub(crate) mod gather;
mod options;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use gather::{Mounts, State};

pub(super) use gather::SlotReport;

use super::prometheus;
use crate::cmd::runtime;
use crate::cmd::values::decimal;
use crate::error_printing::refusal;

/// Longest interval that can be asked for, in seconds.
const SECONDS_MAX: f64 = 86_400.0;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Counters {
    /// Runtime directory of one mount [default: all mounts of this user, or those below MILLRACE_RUNTIME_DIR]
    runtime_dir: Option<PathBuf>,
    /// Count for this many seconds from now, instead of everything so far
    #[arg(long, value_parser = decimal("seconds", 0.001..=SECONDS_MAX, 10.0))]
    seconds: Option<f64>,
    /// Also show mounts that no program uses and that keep no data
    #[arg(long)]
    all: bool,
    /// Remove the shared memory of mounts that no program uses and that keep no data, and print their directories
    #[arg(long, conflicts_with_all = ["runtime_dir", "seconds", "all", "json", "prometheus"])]
    remove_dead: bool,
    /// Print one JSON array on stdout (docs/counters.md)
    #[arg(long)]
    json: bool,
    /// Print everything so far in the text format of Prometheus, for node_exporter's textfile collector (docs/monitoring.md)
    #[arg(long, conflicts_with_all = ["seconds", "all", "json"])]
    prometheus: bool,
}

const AFTER_HELP: &str = "\
Examples:
  millrace nfs counters                   mounts of this user, the last attached first
  millrace nfs counters --seconds 10      what happens on them in the next 10 s
  millrace nfs counters --json | jq '.[].calls_in_progress'

A call is shown as in progress once it has waited for a second. --remove-dead never removes data
that a mount has not saved yet, or an error that no program has received yet.";

pub(super) fn run(args: &Counters) -> anyhow::Result<()> {
    if args.prometheus {
        print!("{}", prometheus::page(args.runtime_dir.as_deref())?);
        return Ok(());
    }
    let runtime = match &args.runtime_dir {
        Some(directory) => directory.parent().unwrap_or(directory).to_owned(),
        None => dnfs::mount::runtime_root(),
    };
    runtime::check(&runtime)?;
    if args.remove_dead {
        for directory in gather::remove_dead(&runtime)? {
            println!("removed the shared state in {}", directory.display());
        }
        return Ok(());
    }
    let interval = args.seconds.map(Duration::from_secs_f64);
    let mut mounts = match &args.runtime_dir {
        Some(directory) => gather::one(directory, interval)?.ok_or_else(|| {
            let hint = "leave it out for all mounts of this user; it is a directory in /dev/shm/millrace-UID";
            refusal(format!("read the counters in {}: no mount was made there", directory.display()), hint)
        })?,
        None => gather::all(&runtime, interval),
    };
    if mounts.reports.is_empty() && mounts.unreadable.is_empty() {
        let what = format!("show counters: no mount of this user found below {}", runtime.display());
        return Err(refusal(what, "run a program with millrace exec first; root sees its own mounts, not those of other users"));
    }
    let count = mounts.reports.len();
    if !args.all && args.runtime_dir.is_none() {
        mounts.reports.retain(|mount| mount.state != State::Dead);
    }
    let dead = count - mounts.reports.len();
    if args.json {
        println!("{}", serde_json::to_string(&mounts.reports)?);
    } else {
        mounts.reports.iter().for_each(|report| print!("{report}"));
    }
    say_left_out(&mounts, dead);
    Ok(())
}

/// What is not among the figures goes to stderr.
fn say_left_out(mounts: &Mounts, dead: usize) {
    for (directory, error) in &mounts.unreadable {
        eprintln!("millrace: {} is not shown: {error}", directory.display());
    }
    if dead > 0 {
        let (noun, keep, verb) = if dead == 1 { ("mount", "keeps", "is") } else { ("mounts", "keep", "are") };
        eprintln!(
            "{dead} {noun} that no program uses and that {keep} no data {verb} not shown: --all shows, --remove-dead removes"
        );
    }
}
