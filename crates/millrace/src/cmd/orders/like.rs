//! `millrace orders like`: compares the I/O of this load with that of a live database.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use orders::like::{self, Likeness};

use crate::cmd::output_file;
use crate::cmd::values::whole;
use crate::error_printing::hinted;

/// The text after the options in `--help`.
pub(super) const HELP: &str = "\
Reads the server's own counters twice, --seconds apart, in a read-only session, and compares
the I/O of one commit there with the I/O of one commit of this load. Choose a time in which the
database does its usual work and, if that matters, makes a checkpoint. The load's figures are built
in (measured before), or come from the file of --load-record: results.json of millrace compare, the
record of orders run, or a saved reading of orders like.
Examples:
  millrace orders like -h db1 -d shop --seconds 600
  millrace orders like -h db1 -d shop --load-record out/results.json --configuration dnfs --json
  millrace orders like -d mill --save mill.json     (while the load runs there)
Exit codes: 0 compared; 1 the database returned an error; 2 could not compare (arguments, no
database, a record that cannot be used); 3 too few commits, or the statistics were reset.";

#[derive(Parser)]
pub(super) struct Args {
    #[command(flatten)]
    database: super::DatabaseArgs,
    /// Seconds between the two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = whole("seconds", 1..=orders::limits::LIKE_S_MAX, 600))]
    seconds: u64,
    /// Record to take the load's figures from [default: built in]
    #[arg(long = "load-record", alias = "ours", value_name = "FILE")]
    ours: Option<PathBuf>,
    /// Configuration of a comparison's record to take the figures from [default: the first that was measured]
    #[arg(long = "configuration", alias = "arm", value_name = "NAME", requires = "ours")]
    arm: Option<String>,
    /// Save the reading of the database, for a later --load-record
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print the comparison as a record on stdout
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    // The record is read first, so that an unreadable one fails before the wait.
    let ours = match &args.ours {
        Some(path) => read_record(path, args.arm.as_deref())?,
        None => like::built_in(),
    };
    let database = args.database.open_postgres()?;
    let live = std::io::stderr().is_terminal();
    let reading = like::read(&database, args.seconds, |second| {
        if live {
            eprint!("\rwatching the database: {second} of {} s", args.seconds);
        } else if second % 10 == 0 {
            eprintln!("watching the database: {second} of {} s", args.seconds);
        }
    })
    .await?;
    if live {
        eprintln!();
    }
    if let Some(path) = &args.save {
        let json = format!("{}\n", serde_json::to_string_pretty(&reading)?);
        output_file::write(path, "--save", &json)?;
    }
    let likeness = like::compare(reading, &ours);
    if args.json {
        super::print_json(&likeness)?;
    } else {
        print!("{}", table(&likeness));
    }
    Ok(if likeness.theirs.valid { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn read_record(path: &Path, arm: Option<&str>) -> anyhow::Result<like::Ours> {
    let read = || {
        let text = std::fs::read_to_string(path).with_context(|| format!("read the record {}", path.display()))?;
        like::of_record(&text, arm).with_context(|| format!("use the record {}", path.display()))
    };
    let hint = "name results.json of millrace compare, a record of orders run --record, or a reading of orders like --save";
    read().map_err(|error| hinted(error, hint))
}

fn table(likeness: &Likeness) -> String {
    let (theirs, ours) = (&likeness.theirs.figures, &likeness.ours);
    let mut out = String::new();
    let _ = writeln!(out, "{}", likeness.verdict);
    let _ = writeln!(
        out,
        "yours: {} over {:.0} s; this load: {}\n",
        likeness.theirs.database_version, likeness.theirs.seconds, likeness.ours_from
    );
    let _ = writeln!(out, "{:<28}{:>12}{:>12}{:>12}", "", "yours", "this load", "times");
    let times = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} x", like::digits(ratio)));
    let rows = [
        ("I/O per commit, blocks", theirs.io_per_commit, ours.io_per_commit, likeness.io_ratio),
        ("  read", theirs.reads_per_commit, ours.reads_per_commit, likeness.reads_ratio),
        ("  written", theirs.writes_per_commit, ours.writes_per_commit, likeness.writes_ratio),
        ("log bytes per commit", theirs.log_bytes_per_commit, ours.log_bytes_per_commit, likeness.log_ratio),
        ("commits per second", theirs.commits_per_s, ours.commits_per_s, likeness.commits_ratio),
    ];
    for (name, yours, load, ratio) in rows {
        let digits = if yours.max(load) < 100.0 { 2 } else { 0 };
        let _ = writeln!(out, "{name:<28}{yours:>12.digits$}{load:>12.digits$}{:>12}", times(ratio));
    }
    let percent = |share: f64| share * 100.0;
    for (name, yours, load) in [
        ("found in buffers, %", percent(theirs.hit_ratio), percent(ours.hit_ratio)),
        ("read share of bytes, %", percent(theirs.read_share), percent(ours.read_share)),
    ] {
        let _ = writeln!(out, "{name:<28}{yours:>12.2}{load:>12.2}");
    }
    if theirs.block_read_us.is_some() || ours.block_read_us.is_some() {
        let us = |time: Option<f64>| time.map_or_else(|| "not timed".to_owned(), |time| format!("{time:.0}"));
        let (yours, load) = (us(theirs.block_read_us), us(ours.block_read_us));
        let _ = writeln!(out, "{:<28}{yours:>12}{load:>12}", "block read, us");
    }
    for note in &likeness.theirs.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}
