//! `millrace history add`: keeps records in a database.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::history::store;

use super::{Progress, say_left_out};
use crate::error_printing::refusal;

const EXAMPLES: &str = "\
Examples:
  millrace history add millrace-results --db postgresql:///results
The records are kept in the schema millrace_history, which is created if it is missing. Of the
figures of each second only the orders are kept. A record that is already stored is not added again.
Exit codes: 0 kept, or already stored; 2 no record was found, or the database refused.";

/// Keeps the records of directories in a PostgreSQL database.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directories with results of millrace compare, at any depth, or single records
    #[arg(value_name = "DIR", required = true)]
    places: Vec<PathBuf>,
    /// The database: a libpq URL or key=value list, as in postgresql://USER@HOST/NAME
    #[arg(long, value_name = "DSN")]
    db: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `millrace history add`.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::new();
    let found = store::add(&args.db, &args.places, &mut |done, all| progress.show(done, all))?;
    say_left_out(&found.left_out);
    let store::Added { added, known, left_out } = found;
    if args.json {
        println!("{}", serde_json::json!({"added": added, "known": known, "left_out": left_out}));
    } else {
        println!("{added} added, {known} already stored, {} left out", left_out.len());
    }
    if added + known == 0 {
        return Err(refusal("keep records: no record was found", "name a directory with results of millrace compare"));
    }
    Ok(ExitCode::SUCCESS)
}
