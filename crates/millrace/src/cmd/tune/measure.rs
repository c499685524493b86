//! `millrace tune measure`: measures the effect of rules on the order-entry load, and keeps those
//! with a gain.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use lab::compare::{Request, compare, dry_run};
use lab::limits::{REPEATS_MAX, SECONDS_MAX, USERS_MAX, WAREHOUSES_MAX};
use lab::rule_effects::{Chosen, Effect, Given, RuleChange, Terms, choose, effects, give, plan, record};
use results::compare::Comparison;

use super::facts::{Known, Sources, known};
use crate::cmd::compare::screen::Screen;
use crate::cmd::values::{time, whole};
use crate::error_printing::print_error;

const HELP: &str = "\
Loads a database of its own, measures it with PostgreSQL's own defaults, then with each rule's
settings alone and cumulatively, interleaved. It keeps each rule whose gain is shown, either alone
or on top of the kept rules before it: the 99 % interval of the difference lies above zero. Without
RULE it takes the rules with a finding here (with --db, on that server) that set something in
PostgreSQL, lose no durability and are not contested. The report of the comparison shows these
steps, and `millrace audit --measured OUT` shows them from OUT/effects.json. --apply sets the kept
settings on the server of --db by ALTER SYSTEM; OUT/revert.sql reverts them.
Examples:
  millrace tune measure postgres-shared-buffers-from-memory postgres-max-wal-size --dry-run
  millrace tune measure --seconds 60 --repeats 5 --budget 2h
  millrace tune measure postgres-wal-compression --db postgresql://db1/postgres --apply
Exit codes: 0 measured and at least one gain shown, or --dry-run; 1 measured, no gain shown; 2 could
not run; 3 the figures are not valid (no proof that the reads went over the path, a failed
consistency check); 130 ended by SIGINT (Ctrl-C), 143 by SIGTERM, 129 by SIGHUP.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Rules to measure, in the order of the cumulative steps
    #[arg(value_name = "RULE")]
    names: Vec<String>,
    /// Storage path of the database, as in `compare`
    #[arg(long, value_name = "NAME[=TARGET]", default_value = "dnfs")]
    path: String,
    /// Modelled storage medium below it: a profile (fc15k, nvme, …) or PROFILE,key=value,…
    #[arg(long, value_name = "SPEC")]
    medium: Option<String>,
    /// Warehouses to load, about 110 MB each
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole("warehouses", 1..=WAREHOUSES_MAX, 8))]
    warehouses: u32,
    /// Users, each sending its next transaction when the last one ended
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole("users", 1..=USERS_MAX, 8))]
    users: u32,
    /// Seconds measured in each run
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = whole("seconds", 1..=SECONDS_MAX, 60))]
    seconds: u64,
    /// Seconds of warm-up in each run, not measured
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole("seconds", 0..=SECONDS_MAX, 10))]
    warmup: u64,
    /// Runs of each set of settings, interleaved
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole("runs", 1..=REPEATS_MAX, 3))]
    repeats: u32,
    /// Time limit: start no round that would end after it
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    budget: Duration,
    /// Seed of the first round
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole("", 0..=u64::MAX, 7))]
    seed: u64,
    /// Keep processors out of idle states during runs (needs root). Use it on a virtual machine whose idle processors wake up
    /// late
    #[arg(long)]
    keep_awake: bool,
    /// Apply the kept settings to the server of --db by ALTER SYSTEM
    #[arg(long, requires = "db")]
    apply: bool,
    /// Print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Directory for the record, the report, effects.json and revert.sql; must be new or empty [default: millrace-results/TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Directory below which the work directory is made
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
    /// Directory of PostgreSQL's server programs [default: PATH, then the newest installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
    /// Print the effect of each rule as JSON
    #[arg(long, conflicts_with = "dry_run")]
    json: bool,
}

/// Measures, prints the rules that are kept, and with --apply sets them on a server.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // This mistake is reported before hours of measurement.
    if args.apply && args.sources.db.len() != 1 {
        bail!("apply what is kept: settings go to one server, name it with one --db");
    }
    let Known { rules, facts, .. } = known(&args.sources, None, None)?;
    let Chosen { changes, left_out } = choose(&rules, facts, &args.path, &args.names)?;
    let request = request(args, &changes)?;
    for why in left_out {
        eprintln!("left out: {why}");
    }
    for change in &changes {
        let settings: Vec<String> = change.settings.iter().map(|change| format!("{} = {}", change.key, change.to)).collect();
        eprintln!("{}: {}", change.rule, settings.join(", "));
    }
    if args.dry_run {
        print!("{}", dry_run(&request)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Screen::new();
    let comparison = match compare(&request, &mut |line| screen.show(line)) {
        Ok(comparison) => comparison,
        Err(error) => {
            let error = error.without_resuming();
            let code = error.exit_code();
            print_error(&error.into());
            return Ok(ExitCode::from(code));
        }
    };
    let effects = effects(&comparison, &changes);
    store(&effects, &comparison, &request.out)?;
    let kept = effects.iter().filter(|effect| effect.kept).count();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&effects)?);
    } else {
        for effect in &effects {
            println!("{}", effect.text);
        }
        println!("{kept} of {} kept; step by step: {}", effects.len(), request.out.join(lab::report::PAGE).display());
    }
    if !comparison.valid {
        eprintln!("the comparison is not valid, so nothing is applied: {}", comparison.verdict);
        return Ok(ExitCode::from(3));
    }
    if let Some(dsn) = args.sources.db.first().filter(|_| args.apply && kept > 0) {
        print_given(&give(dsn, &effects, &request.out).context("give the settings to the server of --db")?);
    }
    Ok(ExitCode::from(u8::from(kept == 0)))
}

/// Writes the effects beside the report, where `audit --measured` reads them.
fn store(effects: &[Effect], comparison: &Comparison, out: &Path) -> anyhow::Result<()> {
    let program = format!("millrace {}", env!("CARGO_PKG_VERSION"));
    let record = record(effects, &program, &lab::clock::utc_now(), comparison.valid);
    let file = out.join(tune::measured::FILE);
    let text = serde_json::to_string_pretty(&record)? + "\n";
    std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))
}

/// Prints on stderr, because a program may read stdout as JSON.
fn print_given(given: &Given) {
    eprintln!("set on the server by ALTER SYSTEM: {} settings; {} reverts them", given.settings, given.revert.display());
    if !given.after_restart.is_empty() {
        eprintln!("in force after a restart of the server: {}", given.after_restart.join(", "));
    }
}

fn request(args: &Args, changes: &[RuleChange]) -> anyhow::Result<Request> {
    let terms = Terms {
        path: args.path.clone(),
        medium: args.medium.clone(),
        warehouses: args.warehouses,
        users: args.users,
        seconds: args.seconds,
        warmup_seconds: args.warmup,
        repeats: args.repeats,
        budget: args.budget,
        seed: args.seed,
        keep_awake: args.keep_awake,
    };
    Ok(Request {
        plan: plan(changes, &terms)?,
        work_base: args.work.clone(),
        out: args.out.clone().unwrap_or_else(|| Path::new("millrace-results").join(lab::clock::utc_now().replace(':', ""))),
        resume: false,
        resumable: false,
        keep: false,
        pg_bin: args.pg_bin.clone(),
        program: std::env::current_exe().context("find this program's own file")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("MILLRACE_COMMIT").map(str::to_owned),
        overwrite_devices: false,
        baseline: None,
        last: None,
        metrics: None,
    })
}
