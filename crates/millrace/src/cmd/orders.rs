//! `millrace orders`: the order-entry load alone, on any PostgreSQL.

mod text;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use orders::checks::CheckReport;
use orders::database::Database;
use orders::driver::{Event, RunOptions};
use orders::error::OrdersError;
use orders::loader::LoadOptions;
use orders::mix::MixRule;
use orders::postgres::Postgres;
use results::orders_run::OrdersRun;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  createdb mill
  millrace orders load  --db postgresql:///mill --warehouses 10 -j 4
  millrace orders run   --db postgresql:///mill -c 8 -T 60 --warmup 20 --json run.json
  millrace orders check --db postgresql:///mill --after-run
The load works in the schema millrace_orders and in nothing else; remove it with
DROP SCHEMA millrace_orders CASCADE. Figures are derived from the TPC-C specification and are not
comparable to published TPC-C results.
Exit codes: 0 done; 1 failed (a check, an error in a run, a load that was cut off); 2 could not run
(arguments, no database, a schema that is missing or not empty).";

/// Loads, runs and checks the order-entry work in a database.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Fill the schema millrace_orders, which must not hold anything yet
    #[command(after_help = "Example: millrace orders load --db postgresql:///mill --warehouses 10 -j 4")]
    Load(LoadArgs),
    /// Enter orders as fast as the database takes them, and measure
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Check the twelve consistency conditions, and that acknowledged orders are there
    #[command(after_help = "Example: millrace orders check --db postgresql:///mill --after-run --ack-log acks\n\
        Exit codes: 0 all passed, 1 some failed, 2 could not run.")]
    Check(CheckArgs),
}

const RUN_HELP: &str = "\
Each user is a terminal in a closed loop with its own connection; each transaction draws a warehouse
uniformly, so that few users touch the whole database. Transactions run at READ COMMITTED with row
locks.
Example: millrace orders run --db postgresql:///mill -c 8 -j 2 -T 60 --warmup 20 --progress
Exit codes: 0 measured, 1 a transaction or the run failed, 2 could not run.";

#[derive(Parser)]
struct DatabaseArgs {
    /// Database: a libpq URL or key=value list
    #[arg(long = "db", value_name = "DSN")]
    dsn: String,
}

#[derive(Parser)]
struct LoadArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Warehouses, about 100 MB each
    #[arg(long, value_name = "N", value_parser = at_least_1(orders::limits::WAREHOUSES_MAX))]
    warehouses: u32,
    /// Sessions that load side by side [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = at_least_1(orders::limits::THREADS_MAX))]
    jobs: Option<u32>,
    /// Seed of every row
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print a record of the load on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Parser)]
struct RunArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Users, each with its own connection
    #[arg(short = 'c', long, value_name = "N", value_parser = at_least_1(orders::limits::USERS_MAX))]
    users: u32,
    /// Threads that drive them
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1,
          value_parser = at_least_1(orders::limits::THREADS_MAX))]
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

#[derive(Parser)]
struct CheckArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Condition 11 counts deliveries committed since the load
    #[arg(long)]
    after_run: bool,
    /// Also look up every order in this log
    #[arg(long, value_name = "FILE")]
    ack_log: Option<PathBuf>,
    /// Print the record of the checks on stdout instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let (verb, outcome) = match args.job {
        Job::Load(args) => ("load orders", runtime.block_on(load(args))),
        Job::Run(args) => ("run orders", runtime.block_on(run_load(args))),
        Job::Check(args) => ("check orders", runtime.block_on(check(args))),
    };
    // Threads that wait for a hung database are not waited for.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => Ok(code),
        Err(error) => Ok(complain(verb, &error)),
    }
}

fn at_least_1(max: u32) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(max))
}

async fn load(args: LoadArgs) -> anyhow::Result<ExitCode> {
    let database = Postgres::parse(&args.database.dsn)?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let jobs = args.jobs.unwrap_or_else(|| cores.min(orders::limits::THREADS_MAX));
    let options = LoadOptions { warehouses: args.warehouses, jobs, seed: args.seed };
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    tokio::spawn(async move {
        wait_for_signal().await;
        flag.store(true, Ordering::Relaxed);
    });
    let live = std::io::stderr().is_terminal();
    let mut printer = text::ProgressPrinter::new(live);
    let outcome = orders::loader::load(&database, options, interrupted, |progress| {
        printer.show(progress);
    })
    .await;
    printer.end();
    let report = outcome?;
    if args.json {
        print_json(&report)?;
    } else {
        println!("{}", text::loaded(&report));
    }
    Ok(ExitCode::SUCCESS)
}

/// SIGINT or SIGTERM; never returns when signals cannot be waited for.
async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

async fn run_load(args: RunArgs) -> anyhow::Result<ExitCode> {
    let database = Postgres::parse(&args.database.dsn)?;
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
        return print_json(record);
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

fn print_json<T: Serialize>(record: &T) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(record)?);
    Ok(())
}

async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let database = Postgres::parse(&args.database.dsn)?;
    let report: CheckReport =
        orders::checks::check(&database, args.after_run, args.ack_log.as_deref()).await?;
    if args.json {
        print_json(&report)?;
    } else {
        print!("{}", text::check_table(&report));
    }
    Ok(if report.passed_all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Prints the error with its causes and its hint; gives the exit code it means.
fn complain(verb: &str, error: &anyhow::Error) -> ExitCode {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !parts.last().is_some_and(|last| last.ends_with(&cause)) {
            parts.push(cause);
        }
    }
    eprintln!("millrace: cannot {verb}: {}", parts.join(": "));
    let known = error.downcast_ref::<OrdersError>();
    if let Some(hint) = known.and_then(OrdersError::hint) {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(if known.is_none_or(OrdersError::could_not_run) { 2 } else { 1 })
}
