//! Runs with several drivers: the options of `orders run`, and `orders merge`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use orders::coordination::{self, CoordinationEvent, SharedRun};
use orders::database::Database;
use orders::driver::RunOptions;
use orders::mix::MixRule;
use orders::model::LoadModel;
use results::orders_run::OrdersRun;

use super::{connection, text};
use crate::cmd::values::whole;

/// The text after the options in `orders merge --help`.
pub(super) const MERGE_HELP: &str = "\
Computes the record of a run again from what its drivers left in the results database, for example
if a driver that was counted as lost has stored its record later.
Examples:
  millrace orders merge --results-db postgresql:///results --run friday --json
Exit codes: 0 every driver finished, 1 no driver left a record, 2 there is no run of this name, 3 a
driver is missing.";

/// How the drivers of one run are coordinated.
#[derive(Parser)]
pub(super) struct CoordinationArgs {
    /// PostgreSQL database through which the drivers of one run are coordinated; -c counts the users of all of them
    #[arg(long, value_name = "DSN", requires = "run_name", requires = "drivers")]
    results_db: Option<String>,
    /// Name of the run, a new one for each
    #[arg(long = "run", id = "run_name", value_name = "NAME", requires = "results_db")]
    run: Option<String>,
    /// Number of drivers of the run; each is started with the same options
    #[arg(long, value_name = "N", requires = "results_db",
          value_parser = whole("drivers", 1..=orders::limits::DRIVERS_MAX, 3))]
    drivers: Option<u32>,
    /// Number of this driver, from 1 [default: the first that is free]
    #[arg(long, value_name = "K", requires = "results_db",
          value_parser = whole("", 1..=orders::limits::DRIVERS_MAX, 2))]
    driver: Option<u32>,
    /// Seconds to wait for the other drivers
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "results_db",
          value_parser = whole::<u64>("seconds", 1..=86_400, 120))]
    barrier_timeout: u64,
}

impl CoordinationArgs {
    /// The run that this driver shares with others. `None` without --results-db.
    pub(super) fn shared_run(&self) -> anyhow::Result<Option<SharedRun>> {
        let (Some(dsn), Some(run), Some(drivers)) = (&self.results_db, &self.run, self.drivers) else {
            return Ok(None);
        };
        Ok(Some(SharedRun {
            results: connection::postgres(dsn)?,
            run: run.clone(),
            drivers,
            driver: self.driver,
            host: host(),
            barrier_timeout: Duration::from_secs(self.barrier_timeout),
        }))
    }
}

#[derive(Parser)]
pub(super) struct MergeArgs {
    /// PostgreSQL database through which the drivers were coordinated
    #[arg(long, value_name = "DSN")]
    results_db: String,
    /// Name of the run
    #[arg(long, value_name = "NAME")]
    run: String,
    /// Print the merged record on stdout instead of a table
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs `orders merge`.
pub(super) async fn merge(args: MergeArgs) -> anyhow::Result<ExitCode> {
    let merged = coordination::merged(&connection::postgres(&args.results_db)?, &args.run).await?;
    if args.json {
        super::print_json(&merged)?;
    } else {
        print!("{}{}", text::run_table(&merged), table(&merged));
    }
    Ok(exit_code(&merged))
}

/// Options that must be the same for all drivers, by their names.
pub(super) fn common_options(options: &RunOptions, database: &impl Database) -> BTreeMap<String, String> {
    let mut common = BTreeMap::new();
    let mut add = |name: &str, value: String| common.insert(name.to_owned(), value);
    add("--model", options.model.name().to_owned());
    match options.model {
        LoadModel::Closed => {}
        LoadModel::Paced { time_scale } => {
            add("--time-scale", time_scale.to_string());
        }
        LoadModel::Open { rate, queue_limit, .. } => {
            add("--rate", rate.to_string());
            add("--queue", queue_limit.to_string());
        }
    }
    if options.connections != options.model.connections_for(options.users) {
        add("--connections", options.connections.to_string());
    }
    add("--terminals", options.terminals.name().to_owned());
    add("--active-warehouses", options.active_warehouses.map_or_else(|| "all".to_owned(), |count| count.to_string()));
    add("--deliveries", if options.deferred_deliveries { "deferred" } else { "direct" }.to_owned());
    add("--mode", database.mode().name().to_owned());
    add("--isolation-level", database.isolation().to_owned());
    add("--mix", options.mix.name().to_owned());
    if let MixRule::Weights(weights) = options.mix {
        add("--weights", format!("{weights:?}"));
    }
    common
}

/// Exit code 0 if every driver finished, else 3.
pub(super) fn exit_code(merged: &OrdersRun) -> ExitCode {
    if coordination::is_whole(merged) { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// Prints the progress of the coordination on stderr.
pub(super) fn print_event(event: &CoordinationEvent) {
    match event {
        CoordinationEvent::Joined { driver, users } => eprintln!("driver {driver}, {users} users; connecting"),
        CoordinationEvent::Waiting { ready, drivers, missing, waited_s } => {
            eprintln!("{waited_s:>5} s  {ready} of {drivers} drivers ready, waiting for {}", numbers(missing));
        }
        CoordinationEvent::Ending { at_work } => eprintln!("waiting for {} to end", numbers(at_work)),
        CoordinationEvent::Warning(text) => eprintln!("millrace: results database: {text}; trying again"),
    }
}

/// The table of the drivers of a merged record. Empty for the record of a single driver.
pub(super) fn table(run: &OrdersRun) -> String {
    let mut out = String::new();
    if run.drivers.is_empty() {
        return out;
    }
    let _ = writeln!(out, "\n{:<8}{:<20}{:>7}{:>12}{:>12}  status", "driver", "host", "users", "orders/min", "counted s");
    for driver in &run.drivers {
        let _ = write!(
            out,
            "{:<8}{:<20}{:>7}{:>12.0}{:>12.0}  {}",
            driver.name, driver.host, driver.users, driver.oets_per_minute, driver.counted_s, driver.status
        );
        if let Some(from_s) = driver.missing_from_s {
            let _ = write!(out, " from second {from_s:.1} of the interval, {:.1} s without it", driver.lost_s);
        }
        if let Some(reason) = &driver.reason {
            let _ = write!(out, " ({reason})");
        }
        out.push('\n');
    }
    let missing: Vec<&str> =
        run.drivers.iter().filter(|driver| driver.status != "finished").map(|driver| driver.name.as_str()).collect();
    if !missing.is_empty() {
        let _ = writeln!(
            out,
            "INCOMPLETE: driver {} did not finish. The figures above are those of the first {:.0} s of the interval, \
             by the drivers counted there; what the others did after that is left out.",
            missing.join(", "),
            run.measured_s
        );
    }
    out
}

fn numbers(drivers: &[u32]) -> String {
    let numbers: Vec<String> = drivers.iter().map(|number| format!("driver {number}")).collect();
    numbers.join(", ")
}

/// The name of this host. Drivers on one host differ by their numbers.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}
