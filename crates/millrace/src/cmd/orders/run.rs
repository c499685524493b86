//! `millrace orders run`: the load on a loaded database, measured.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use orders::database::Database;
use orders::driver::{Event, RunOptions};
use orders::mix::MixRule;
use results::orders_run::OrdersRun;

use super::text;

/// What `--help` adds.
pub(super) const HELP: &str = "\
Each user is a terminal in a closed loop with its own connection; each transaction draws a warehouse
uniformly, so that few users touch the whole database. Transactions run at READ COMMITTED with row
locks.
Example: millrace orders run --db postgresql:///mill -c 8 -j 2 -T 60 --warmup 20 --progress
Exit codes: 0 measured, 1 a transaction or the run failed, 2 could not run.";

#[derive(Parser)]
pub(super) struct Args {
    #[command(flatten)]
    database: super::DatabaseArgs,
    /// Users, each with its own connection
    #[arg(short = 'c', long, value_name = "N", value_parser = super::at_least_1(orders::limits::USERS_MAX))]
    users: u32,
    /// Threads that drive them
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1,
          value_parser = super::at_least_1(orders::limits::THREADS_MAX))]
    threads: u32,
    /// Measured seconds
    #[arg(short = 'T', long, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=orders::limits::SECONDS_MAX))]
    seconds: u64,
    /// Seconds before measuring begins
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=orders::limits::SECONDS_MAX))]
    warmup: u64,
    /// Seed of every choice [default: random, printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How transactions reach the database
    #[arg(long, value_enum, default_value_t = super::ModeArg::Statements)]
    mode: super::ModeArg,
    /// How transactions are mixed
    #[arg(long, value_enum, default_value_t = MixArg::Deck)]
    mix: MixArg,
    /// Append `warehouse district order` for each order whose commit was acknowledged
    #[arg(long, value_name = "FILE")]
    ack_log: Option<PathBuf>,
    /// Open lost connections again; give up after 60 s without any success
    #[arg(long)]
    reconnect: bool,
    /// Write the record of the run, `-` for stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print orders and losses once a second on stderr
    #[arg(long)]
    progress: bool,
    /// Print `measuring` and `measured` on stderr when the interval begins and ends
    #[arg(long)]
    marks: bool,
    /// Write these marks to an open descriptor instead
    #[arg(long, value_name = "FD")]
    marks_fd: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum MixArg {
    /// A shuffled deck of 23 per terminal: 10, 10, 1, 1, 1
    Deck,
    /// A weighted draw: 44.6, 43.1, 4.1, 4.1, 4.1 per cent
    Weighted,
}

/// Runs the load and writes its record.
pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let database = args.database.open(args.mode)?;
    let seed = args.seed.unwrap_or_else(random_seed);
    let options = RunOptions {
        users: args.users,
        threads: args.threads,
        warmup_s: args.warmup,
        measured_s: args.seconds,
        seed,
        mix: match args.mix {
            MixArg::Deck => MixRule::Deck,
            MixArg::Weighted => MixRule::Weighted,
        },
        ack_log: args.ack_log.clone(),
        reconnect: args.reconnect,
        first_user: 0,
    };
    let mut marks = args.marks_fd.map(open_marks).transpose()?;
    for setting in database.unsafe_settings().await? {
        eprintln!("note: {setting}: an acknowledged order may be lost in a crash");
    }
    let outcome = orders::driver::run(&database, &options, |event| match event {
        Event::Measuring => mark(args.marks, marks.as_mut(), "measuring"),
        Event::Measured => mark(args.marks, marks.as_mut(), "measured"),
        Event::Trouble(text) => eprintln!("millrace: {text}"),
        Event::Tick { elapsed_s, orders, connection_losses } if args.progress => {
            eprintln!("{elapsed_s:>5} s  {orders:>9} orders  {connection_losses} connections lost");
        }
        Event::Tick { .. } | Event::Connected => {}
    })
    .await?;
    write_record(&outcome, args.json.as_deref())?;
    let transactions = &outcome.transactions;
    let errors: u64 = text::rows(transactions).iter().map(|(_, record)| record.errors).sum();
    if errors > 0 || outcome.unfinished > 0 {
        eprintln!(
            "millrace: {errors} transactions ended by an error, {} did not end",
            outcome.unfinished
        );
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

/// A seed that is printed in the record; the clock is chance enough.
fn random_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64 % 1_000_000_000)
}

fn open_marks(fd: u32) -> anyhow::Result<std::fs::File> {
    std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/dev/fd/{fd}"))
        .with_context(|| format!("descriptor {fd} of --marks-fd is not open for writing"))
}

fn mark(on_stderr: bool, descriptor: Option<&mut std::fs::File>, text: &str) {
    if let Some(file) = descriptor {
        // A reader that went away does not end the run.
        let _ = writeln!(file, "{text}");
    }
    if on_stderr {
        eprintln!("{text}");
    }
}

fn write_record(record: &OrdersRun, path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else {
        print!("{}", text::run_table(record));
        return Ok(());
    };
    if path == Path::new("-") {
        eprint!("{}", text::run_table(record));
        return super::print_json(record);
    }
    print!("{}", text::run_table(record));
    let mut json = serde_json::to_vec_pretty(record)?;
    json.push(b'\n');
    // Written beside and renamed: a reader never meets half a record.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    std::fs::write(&beside, json)
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("cannot write the record {}", path.display()))
}
