//! `millrace orders`: loads, runs and checks the order-entry workload on any PostgreSQL or MariaDB.

mod conform;
mod connection;
mod coordinated;
mod like;
mod record;
mod run;
mod text;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use orders::checks::CheckReport;
use orders::database::Mode;
use orders::error::OrdersError;
use orders::loader::LoadOptions;
use serde::Serialize;

use super::interrupts::Interrupts;
use crate::cmd::values::whole;
use crate::error_printing::print_error;
use connection::DatabaseArgs;

const EXAMPLES: &str = "\
Examples:
  createdb mill
  millrace orders load  -d mill --warehouses 10 -j 4
  millrace orders run   -d mill -c 8 -T 60 --warmup 20 -P 5 --record run.json
  millrace orders check -d mill
  millrace orders run   -d 'host=db1.example user=clerk dbname=mill sslmode=verify-full' -c 8 -T 60
  millrace orders load  -d 'mysql://root@localhost/?socket=/run/mysqld.sock' --warehouses 10
Connections to PostgreSQL are made as psql makes them: by options, the connection string, a service
(service=NAME, PGSERVICE), PGHOST, PGPORT, PGUSER, PGPASSWORD, PGSSLMODE and so on, ~/.pgpass and
the defaults, in this order. sslmode, sslrootcert (a file, or system), sslcert and sslkey mean what
they mean to libpq. -h is the host; help is --help. No password is asked for or printed.
A load that was interrupted continues with --resume. On MariaDB and MySQL the schema is the
database millrace_orders, whatever the DSN names. The load works in the schema millrace_orders and
in nothing else; remove it with DROP SCHEMA millrace_orders CASCADE, on MariaDB and MySQL with
DROP DATABASE millrace_orders. A pooler in front of PostgreSQL has to keep sessions
(pool_mode = session). Figures are derived from the TPC-C specification and are not comparable to
published TPC-C results.
Exit codes: 0 done; 1 failed (a check, an error in a run, an interrupted load); 2 could not run
(arguments, no database, a schema that is missing or not empty); 3 incomplete (`--help` of
conform, run, like and merge); 130 and 143: SIGINT (Ctrl-C) or SIGTERM ended a run, which prints
what it measured until then.";

/// Loads the order-entry workload into a database, runs it and checks the result.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

const LOAD_HELP: &str = "\
Examples:
  millrace orders load -d mill --warehouses 10 -j 4
  millrace orders load -d mill --warehouses 10 --plan       size and time; loads nothing
  millrace orders load -d mill --warehouses 10 --resume     after an interrupted load
Exit codes: 0 loaded, loaded before (--existing), or planned (--plan); 1 the load was interrupted or
failed; 2 could not load (arguments, no database, too little space, a schema that is not empty).";

const CHECK_HELP: &str = "\
Examples:
  millrace orders check -d mill --ack-log acks
  millrace orders check -d mill --isolation
Exit codes: 0 all passed; 1 some failed, or the database returned an error; 2 could not check
(arguments, no database, no schema).";

#[derive(clap::Subcommand)]
enum Job {
    /// Fill the schema millrace_orders, which must be empty
    #[command(disable_help_flag = true, after_help = LOAD_HELP)]
    Load(LoadArgs),
    /// Run the five transactions and measure: as fast as the database takes them, paced or at a rate
    #[command(disable_help_flag = true, after_help = run::HELP)]
    Run(Box<run::Args>),
    /// Check the record of a run against the rules of the TPC-C specification
    #[command(after_help = conform::HELP)]
    Conform(conform::Args),
    /// Check the twelve consistency conditions, and that acknowledged orders are there
    #[command(
        disable_help_flag = true,
        after_help = CHECK_HELP
    )]
    Check(CheckArgs),
    /// Compare the I/O of this load with that of a live PostgreSQL, from its own counters, read-only
    #[command(disable_help_flag = true, after_help = like::HELP)]
    Like(like::Args),
    /// Merge the records that the drivers of one run left in a results database
    #[command(disable_help_flag = true, after_help = coordinated::MERGE_HELP)]
    Merge(coordinated::MergeArgs),
}

/// How transactions reach the database.
#[derive(Clone, Copy, Default, ValueEnum)]
enum ModeArg {
    /// Statements sent by the driver, one to three round trips for a transaction
    #[default]
    Statements,
    /// Stored functions, one round trip for a transaction
    Functions,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Statements => Self::Statements,
            ModeArg::Functions => Self::Functions,
        }
    }
}

#[derive(Parser)]
struct LoadArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Warehouses, about 110 MB each
    #[arg(long, value_name = "N", value_parser = whole("warehouses", 1..=orders::limits::WAREHOUSES_MAX, 10))]
    warehouses: u32,
    /// Sessions that load in parallel [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = whole("sessions", 1..=orders::limits::THREADS_MAX, 4))]
    jobs: Option<u32>,
    /// Seed of the random contents of all rows
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole("", 0..=u64::MAX, 7))]
    seed: u64,
    /// With `functions`, also make the stored functions; a run makes them if they are missing
    #[arg(long, value_enum, default_value_t = ModeArg::Statements)]
    mode: ModeArg,
    /// Another PostgreSQL server that keeps a share of the warehouses, repeatable; runs and checks
    /// then need only --db, which reaches it by postgres_fdw
    #[arg(long, value_name = "DSN")]
    node: Vec<String>,
    /// Continue an interrupted load; warehouses and seed must be the same
    #[arg(long)]
    resume: bool,
    /// Load only if the schema does not exist; do nothing if it has a complete load with these warehouses and this seed
    #[arg(long, conflicts_with = "resume")]
    existing: bool,
    /// Load even if the server's file system has too little free space
    #[arg(long, alias = "no-room-check")]
    no_space_check: bool,
    /// Print size and time of the load and load nothing
    #[arg(long)]
    plan: bool,
    /// Print the record of the load as JSON on stdout
    #[arg(long, conflicts_with = "plan")]
    json: bool,
}

#[derive(Parser)]
struct CheckArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Run the nine isolation tests of clause 3.4.2 instead, on a database that nothing else uses; they add orders,
    /// payments and deliveries
    #[arg(long, conflicts_with_all = ["after_run", "ack_log"])]
    isolation: bool,
    /// Without effect: condition 11 counts the deliveries committed since the load in any case
    #[arg(long, hide = true)]
    after_run: bool,
    /// Also look up every order in this log
    #[arg(long, value_name = "FILE")]
    ack_log: Option<PathBuf>,
    /// Print the record of the checks as JSON on stdout instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let (verb, outcome) = match args.job {
        Job::Load(args) => ("load the database", runtime.block_on(load(args))),
        Job::Run(args) => (run::VERB, runtime.block_on(run::run(*args))),
        Job::Conform(args) => ("judge the run", conform::run(&args)),
        Job::Check(args) => ("check the database", runtime.block_on(check(args))),
        Job::Like(args) => ("compare with the database", runtime.block_on(like::run(args))),
        Job::Merge(args) => ("merge the records of the drivers", runtime.block_on(coordinated::merge(args))),
    };
    // The command does not wait for threads that wait for a hung database.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => Ok(code),
        Err(error) => Ok(refused(verb, error)),
    }
}

async fn load(args: LoadArgs) -> anyhow::Result<ExitCode> {
    let database = args.database.open(args.mode.into())?.with_nodes(&args.node)?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let jobs = args.jobs.unwrap_or_else(|| cores.min(orders::limits::THREADS_MAX));
    let LoadArgs { warehouses, seed, resume, no_space_check, .. } = args;
    let options = LoadOptions { warehouses, jobs, seed, resume, no_space_check };
    if args.existing && orders::loader::is_loaded(&database, options).await? {
        if args.json {
            print_json(&serde_json::json!({"schema": 1, "warehouses": warehouses, "seed": seed, "existing": true}))?;
        } else {
            println!("already loaded: {} with seed {seed}", text::counted(warehouses, "warehouse"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.plan || !resume {
        let plan = orders::loader::plan(&database, options).await?;
        eprintln!("{}", text::planned(warehouses, &plan));
        if args.plan {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let interrupts = Interrupts::watch("interrupted: ending the load; a second signal ends the program at once");
    let live = std::io::stderr().is_terminal();
    let mut printer = text::ProgressPrinter::new(live);
    let outcome = orders::loader::load(&database, options, interrupts.flag(), |progress| {
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

fn print_json<T: Serialize>(record: &T) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(record)?);
    Ok(())
}

async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let database = args.database.open(Mode::default())?;
    if args.isolation {
        let outcomes = orders::isolation::run(&database).await?;
        if args.json {
            print_json(&outcomes)?;
        } else {
            print!("{}", text::isolation_table(&outcomes));
        }
        let passed = outcomes.iter().all(|outcome| outcome.passed);
        return Ok(ExitCode::from(u8::from(!passed)));
    }
    let report: CheckReport = orders::checks::check(&database, args.ack_log.as_deref()).await?;
    if args.json {
        print_json(&report)?;
    } else {
        print!("{}", text::check_table(&report));
    }
    Ok(if report.passed_all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Prints the error with its causes and its hint. Returns its exit code.
fn refused(verb: &str, error: anyhow::Error) -> ExitCode {
    let could_not_run = error.downcast_ref().is_none_or(OrdersError::could_not_run);
    print_error(&error.context(verb.to_owned()));
    ExitCode::from(if could_not_run { 2 } else { 1 })
}
