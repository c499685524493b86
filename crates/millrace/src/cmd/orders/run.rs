//! `millrace orders run`: runs the load on a loaded database, and measures it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use orders::database::{Database, Isolation};
use orders::driver::{Event, RunOptions};
use orders::error::OrdersError;
use orders::limits::{TIME_SCALE_MAX, TIME_SCALE_MIN};
use orders::mix::{MixRule, WEIGHTS_DEFAULT, Weights};
use orders::model::{LoadModel, Terminals};
use orders::open::{Arrivals, Rate};

use super::record::RecordFile;
use super::{coordinated, text};
use crate::cmd::interrupts::Interrupts;
use crate::cmd::values::{decimal, whole};
use crate::error_printing::{hinted, print_error, refusal};

/// Workers of an open load if the options name no number.
const OPEN_USERS: u32 = 16;

/// The phrase of this command's errors.
pub(super) const VERB: &str = "run the load";
const INTERRUPTED: &str = "interrupted: waiting for the transactions in progress; a second signal ends the program at once";

/// The text after the options in `--help`.
pub(super) const HELP: &str = "\
Load models:
  closed  each user sends its next transaction when the last one ended; a stall stops arrivals, so
          percentiles leave out the transactions that it delayed (coordinated omission)
  paced   keying and think times of the TPC-C specification, ten terminals per warehouse; thousands
          of terminals share few sessions; response time counts from when a transaction is due
  open    transactions become due at --rate whatever the database does; response time counts from
          then, too; a transaction that finds the queue full is counted as refused
Transactions run at READ COMMITTED with row locks unless --isolation-level says otherwise. The
result is printed first, then the rules of the specification that the run breaks (with
--record FILE, `millrace orders conform FILE` shows all).
Examples:
  millrace orders run -d mill -c 8 -j 2 -T 60 --warmup 20 -P 5
  millrace orders run -h db1 -U clerk -d mill --model paced --deliveries deferred -T 1200
  millrace orders run -d mill --model open --rate 200/s --arrivals poisson -T 60
Several drivers, on one or more hosts, share the users (and the rate) of one run:
  millrace orders run -d DSN -c 90 -T 60 --results-db DSN --run friday --drivers 3
Ctrl-C (SIGINT) and SIGTERM end the measured interval. The run waits for the transactions in
progress and prints the result so far, marked as interrupted. A second signal ends the program at
once.
Exit codes: 0 measured, 1 a transaction or the run failed, or the record could not be written, 2
could not run, 3 one of several drivers is missing, 130 interrupted by SIGINT, 143 by SIGTERM.";

#[derive(Parser)]
pub(super) struct Args {
    #[command(flatten)]
    database: super::DatabaseArgs,
    /// Load model
    #[arg(long, value_enum, default_value_t = ModelArg::Closed)]
    model: ModelArg,
    /// Users: terminals (closed, paced) or workers (open) [default: paced: ten per active warehouse; open: 16]
    #[arg(short = 'c', long, value_name = "N", value_parser = whole("users", 1..=orders::limits::USERS_MAX, 8))]
    users: Option<u32>,
    /// Database sessions the users share [default: one per user; paced: one per hundred, 4 to 64]
    #[arg(long, value_name = "N", value_parser = whole("sessions", 1..=orders::limits::CONNECTIONS_MAX, 8))]
    connections: Option<u32>,
    /// Open model: transactions of all kinds, as N/s or N/min
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Open model: distribution of the times between arrivals [default: constant]
    #[arg(long, value_enum)]
    arrivals: Option<ArrivalsArg>,
    /// Open model: due transactions that may wait; more are refused and counted [default: 100000]
    #[arg(long, value_name = "N", value_parser = whole("transactions", 1..=orders::limits::DUE_QUEUE_MAX, 1_000))]
    queue: Option<u32>,
    /// Paced model: factor of keying and think times; with another factor than 1 the record says that times are scaled [default: 1]
    #[arg(long, value_name = "X", value_parser = decimal("", TIME_SCALE_MIN..=TIME_SCALE_MAX, 0.1))]
    time_scale: Option<f64>,
    /// Work on the first N warehouses only [default: all]
    #[arg(long, value_name = "N", value_parser = whole("warehouses", 1..=orders::limits::WAREHOUSES_MAX, 10))]
    active_warehouses: Option<u32>,
    /// How a terminal chooses its warehouse [default: home in the paced model, else all]
    #[arg(long, value_enum)]
    terminals: Option<TerminalsArg>,
    /// Execute a Delivery at once (direct), or queue it and execute it in the background (deferred)
    #[arg(long, value_enum, default_value_t = DeliveriesArg::Direct)]
    deliveries: DeliveriesArg,
    /// Threads that drive the users
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1,
          value_parser = whole("threads", 1..=orders::limits::THREADS_MAX, 2))]
    threads: u32,
    /// Measured seconds
    #[arg(short = 'T', long, value_name = "SECONDS",
          value_parser = whole("seconds", 1..=orders::limits::SECONDS_MAX, 60))]
    seconds: u64,
    /// Seconds of load before measuring begins
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = whole("seconds", 0..=orders::limits::SECONDS_MAX, 20))]
    warmup: u64,
    /// Seed of all random choices [default: random, printed]
    #[arg(long, value_name = "N", value_parser = whole("", 0..=u64::MAX, 7))]
    seed: Option<u64>,
    /// How transactions reach the database
    #[arg(long, value_enum, default_value_t = super::ModeArg::Statements)]
    mode: super::ModeArg,
    /// Isolation level of the transactions, on PostgreSQL and engines of its wire protocol; above
    /// read-committed, transactions that fail by a conflict are retried and counted [default: PostgreSQL
    /// read-committed, others their own default]
    #[arg(long, value_enum, value_name = "LEVEL")]
    isolation_level: Option<IsolationArg>,
    /// How the next transaction is chosen [default: deck]
    #[arg(long, value_enum)]
    mix: Option<MixArg>,
    /// Weights of New-Order, Payment, Order-Status, Delivery, Stock-Level; means --mix weights
    #[arg(long, value_name = "N,P,O,D,S")]
    weights: Option<Weights>,
    /// Append `warehouse district order` to this file for each order whose commit was acknowledged
    #[arg(long, value_name = "FILE")]
    ack_log: Option<PathBuf>,
    /// Reconnect when a connection is lost; give up after 60 s without a successful transaction
    #[arg(long)]
    reconnect: bool,
    /// Write the record of the run to this file, as JSON
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print the record as JSON; the tables go to stderr
    #[arg(long)]
    json: bool,
    /// Print a line every SECONDS seconds on stderr: transactions per second, response time, failures [without a
    /// number: 1]
    #[arg(short = 'P', long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = whole("seconds", 1..=orders::limits::SECONDS_MAX, 60))]
    progress: Option<u64>,
    /// Print `measuring` and `measured` on stderr when the interval begins and ends
    #[arg(long)]
    marks: bool,
    /// Write these two lines to this open file descriptor instead
    #[arg(long, value_name = "FD", value_parser = whole("", 0..=i32::MAX as u32, 3))]
    marks_fd: Option<u32>,
    /// Check the options and end: what a comparison does with those of its tunings before it creates anything
    #[arg(long, hide = true)]
    check_options: bool,
    #[command(flatten)]
    coordination: coordinated::CoordinationArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ModelArg {
    /// The next transaction when the last one ended
    Closed,
    /// Keying and think times of the specification
    Paced,
    /// At a fixed rate, independent of the database
    Open,
}

#[derive(Clone, Copy, ValueEnum)]
enum ArrivalsArg {
    /// At equal intervals
    Constant,
    /// As a Poisson process
    Poisson,
}

#[derive(Clone, Copy, ValueEnum)]
enum TerminalsArg {
    /// Its own, as in the specification
    Home,
    /// Any active one, drawn for each transaction
    All,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum DeliveriesArg {
    /// The terminal waits for the whole delivery
    Direct,
    /// The terminal waits until the delivery is queued
    Deferred,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum MixArg {
    /// A shuffled deck of 23 per terminal: 10, 10, 1, 1, 1
    Deck,
    /// A weighted draw: 44.6, 43.1, 4.1, 4.1, 4.1 per cent, unless --weights says otherwise
    #[value(alias = "weighted")]
    Weights,
}

#[derive(Clone, Copy, ValueEnum)]
enum IsolationArg {
    /// Row locks; the load does not conflict with itself
    ReadCommitted,
    /// A transaction reads one snapshot; of two transactions that change a row, the second is retried
    RepeatableRead,
    /// As if transactions ran one after the other; one that would break this is retried
    Serializable,
}

impl IsolationArg {
    const fn level(self) -> Isolation {
        match self {
            Self::ReadCommitted => Isolation::ReadCommitted,
            Self::RepeatableRead => Isolation::RepeatableRead,
            Self::Serializable => Isolation::Serializable,
        }
    }
}

impl Args {
    fn model(&self) -> anyhow::Result<LoadModel> {
        let of_open = [
            ("--rate", self.rate.is_some(), "no rate of their own"),
            ("--arrivals", self.arrivals.is_some(), "no arrivals of their own"),
            ("--queue", self.queue.is_some(), "no queue of due transactions"),
        ];
        if let Some((option, _, lack)) = of_open.iter().find(|(_, is_given, _)| *is_given && self.model != ModelArg::Open) {
            anyhow::bail!("{option} is for --model open: the other models have {lack}");
        }
        if self.model != ModelArg::Paced && self.time_scale.is_some() {
            anyhow::bail!("--time-scale is for --model paced: the other models have no keying and think times");
        }
        Ok(match self.model {
            ModelArg::Closed => LoadModel::Closed,
            ModelArg::Paced => LoadModel::Paced { time_scale: self.time_scale.unwrap_or(1.0) },
            ModelArg::Open => {
                let rate = self.rate.context("--model open needs --rate, such as --rate 200/s")?;
                let arrivals = match self.arrivals {
                    None | Some(ArrivalsArg::Constant) => Arrivals::Constant,
                    Some(ArrivalsArg::Poisson) => Arrivals::Poisson,
                };
                LoadModel::Open { rate, arrivals, queue_limit: self.queue.unwrap_or(orders::limits::DUE_QUEUE_DEFAULT) }
            }
        })
    }

    fn mix(&self) -> anyhow::Result<MixRule> {
        Ok(match (self.mix, self.weights) {
            (Some(MixArg::Deck), Some(_)) => {
                return Err(refusal(
                    "--weights is for --mix weights: a deck has fixed numbers of each transaction",
                    "leave one out",
                ));
            }
            (_, Some(weights)) => MixRule::Weights(weights),
            (Some(MixArg::Weights), None) => MixRule::Weights(WEIGHTS_DEFAULT),
            (Some(MixArg::Deck) | None, None) => MixRule::Deck,
        })
    }

    async fn options<D: Database>(&self, database: &D) -> anyhow::Result<RunOptions> {
        let model = self.model()?;
        let users = match (self.users, self.model) {
            (Some(users), _) => users,
            (None, ModelArg::Closed) => {
                return Err(refusal(
                    "--model closed needs the number of users: -c N",
                    "start with two for each processor, as in -c 8",
                ));
            }
            (None, ModelArg::Open) => self.connections.unwrap_or(OPEN_USERS),
            (None, ModelArg::Paced) => {
                let warehouses = database.config().await?.warehouses;
                Terminals::of_warehouses(self.active_warehouses.unwrap_or(warehouses).min(warehouses))
            }
        };
        Ok(RunOptions {
            model,
            terminals: match self.terminals {
                Some(TerminalsArg::Home) => Terminals::HomeWarehouse,
                Some(TerminalsArg::All) => Terminals::AllWarehouses,
                None => model.usual_terminals(),
            },
            users,
            connections: self.connections.unwrap_or_else(|| model.connections_for(users)),
            active_warehouses: self.active_warehouses,
            deferred_deliveries: self.deliveries == DeliveriesArg::Deferred,
            threads: self.threads,
            warmup_s: self.warmup,
            measured_s: self.seconds,
            seed: self.seed.unwrap_or_else(random_seed),
            mix: self.mix()?,
            ack_log: self.ack_log.clone(),
            reconnect: self.reconnect,
            first_user: 0,
            progress_s: self.progress,
            interrupted: Arc::default(),
        })
    }
}

/// Runs the load and writes its record.
pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    args.model()?;
    args.mix()?;
    if args.check_options {
        return Ok(ExitCode::SUCCESS);
    }
    let record = args.record.as_deref().map(RecordFile::prepare).transpose()?;
    let isolation = args.isolation_level.map(IsolationArg::level);
    let database = args.database.open(args.mode.into())?.with_isolation(isolation)?;
    let mut options = args.options(&database).await?;
    let mut marks = args.marks_fd.map(open_marks).transpose()?;
    for setting in database.unsafe_settings().await? {
        eprintln!("note: {setting}");
    }
    let on_event = |event: &Event| match event {
        Event::Measuring => mark(args.marks, marks.as_mut(), "measuring"),
        Event::Measured => mark(args.marks, marks.as_mut(), "measured"),
        Event::Warning(text) => eprintln!("millrace: {text}"),
        Event::Progress(progress) => eprintln!("{}", text::progress(progress)),
        Event::Connected => {}
    };
    let interrupts = Interrupts::watch(INTERRUPTED);
    options.interrupted = interrupts.flag();
    let outcome = match args.coordination.shared_run()? {
        None => orders::driver::run(&database, &options, on_event).await,
        Some(shared_run) => {
            let alike = coordinated::common_options(&options, &database);
            let what = (&options, args.seed, alike);
            orders::coordination::run(&shared_run, &database, what, on_event, coordinated::print_event).await
        }
    };
    let outcome = match outcome {
        Err(error @ OrdersError::NothingMeasured) => {
            super::refused(VERB, error.into());
            return Ok(interrupts.exit_code());
        }
        outcome => outcome?,
    };
    let recorded = record.map_or(Ok(()), |record| record.write(&outcome));
    let tables = format!("{}{}", text::run_table(&outcome), coordinated::table(&outcome));
    if args.json {
        eprint!("{tables}");
        super::print_json(&outcome)?;
    } else {
        print!("{tables}");
    }
    // The figures are printed first, so they are not lost if the file cannot be written.
    if let Err(error) = recorded {
        print_error(&error);
        return Ok(ExitCode::from(1));
    }
    if outcome.interrupted {
        return Ok(interrupts.exit_code());
    }
    let transactions = &outcome.transactions;
    let errors: u64 = text::rows(transactions).iter().map(|(_, record)| record.errors).sum();
    if errors > 0 || outcome.unfinished > 0 {
        eprintln!("millrace: {errors} transactions ended by an error, {} did not end", outcome.unfinished);
        return Ok(ExitCode::from(1));
    }
    Ok(coordinated::exit_code(&outcome))
}

/// A seed from the clock, which is random enough. The record has it.
fn random_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64 % 1_000_000_000)
}

fn open_marks(fd: u32) -> anyhow::Result<std::fs::File> {
    let open = std::fs::OpenOptions::new().write(true).open(format!("/dev/fd/{fd}"));
    open.with_context(|| format!("descriptor {fd} of --marks-fd is not open for writing")).map_err(|error| {
        hinted(error, format!("open it where the command is started, as in: millrace orders run … --marks-fd {fd} {fd}>FILE"))
    })
}

fn mark(on_stderr: bool, descriptor: Option<&mut std::fs::File>, text: &str) {
    if let Some(file) = descriptor {
        // A reader that closed the descriptor does not end the run.
        let _ = writeln!(file, "{text}");
    }
    if on_stderr {
        eprintln!("{text}");
    }
}
