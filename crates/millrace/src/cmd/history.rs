//! `millrace history`: figures of many comparisons over commits or dates.

mod add;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use lab::history::{Choice, find, history, store, text};
use lab::report;
use results::history::{LeftOut, PointBy};

use super::output_file;
use crate::error_printing::refusal;

const EXAMPLES: &str = "\
Examples:
  millrace history millrace-results                      a table of each series on the terminal
  millrace history runs --html history.html              a page with lines, for a browser
  millrace history runs --since 2026-11-01 --path dnfs --by date
  millrace history add runs --db postgresql:///results   keep the records in a database
  millrace history --db postgresql:///results --json
Records are compared only if path, tuning, layout, medium, load, warehouses, seconds, database and
host are the same (docs/lab.md lists every condition): each such set is a series of its own. A step
is a change from one point to the next: its 99 % interval excludes zero, and the points around it
confirm it. `millrace compare --against last` fails on a loss.
Exit codes: 0 shown or kept; 2 no record, or something could not be read or written.";

/// Shows the figures of many comparisons over commits or dates.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Directories with results of millrace compare, at any depth, or single records (a directory named add is ./add)
    #[arg(value_name = "DIR")]
    places: Vec<PathBuf>,
    /// Read the records that `millrace history add` keeps in this PostgreSQL database
    #[arg(long, value_name = "DSN", conflicts_with = "places")]
    db: Option<String>,
    /// Only records begun on this day or later: 2026-11-01
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
    /// Only this path: its name (dnfs) or its name with label and settings, as the table shows it
    #[arg(long, value_name = "NAME")]
    path: Option<String>,
    /// Only records of this plan: the name of its file without .toml, or of the report that it repeats
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
    /// One point for all records of a commit, or one for each record at its date
    #[arg(long, value_enum, default_value_t = By::Commit)]
    by: By,
    /// Write an HTML page in one self-contained file, - for stdout
    #[arg(long, visible_alias = "out", value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Keep the records of directories in a PostgreSQL database, each once
    Add(add::Args),
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    Commit,
    Date,
}

/// Runs `millrace history`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(Command::Add(args)) = args.command {
        return add::run(&args);
    }
    let on_stdout = args.html.as_deref() == Some(Path::new("-"));
    if on_stdout && args.json {
        bail!("write both the page and JSON to stdout");
    }
    let by = match args.by {
        By::Commit => PointBy::Commit,
        By::Date => PointBy::Date,
    };
    let choice = Choice { by, since: args.since, path: args.path, plan: args.plan };
    choice.check()?;
    let mut progress = Progress::new();
    let found = match &args.db {
        Some(dsn) => store::read(dsn, &mut |done, all| progress.show(done, all))?,
        None if args.places.is_empty() => {
            return Err(refusal(
                "show a history: neither a directory nor a database is named",
                "millrace history DIR reads the records below a directory, --db DSN those of a database",
            ));
        }
        None => find(&args.places, &mut |done, all| progress.show(done, all))?,
    };
    let history = history(&found, &choice)?;
    if let Some(file) = &args.html {
        let page = report::history_html(&history);
        output_file::write_or_print(file, "--html", &page)?;
        if !on_stdout {
            eprintln!("{}", file.display());
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&history)?);
    } else if args.html.is_none() {
        print!("{}", text(&history));
    }
    say_left_out(&history.left_out);
    Ok(ExitCode::SUCCESS)
}

/// Prints each record that is not shown, one per line.
fn say_left_out(left_out: &[LeftOut]) {
    for left in left_out {
        eprintln!("left out: {}: {}", left.record, left.reason);
    }
}

/// Prints every two seconds how many records have been read.
struct Progress {
    next: Instant,
}

impl Progress {
    const EVERY: Duration = Duration::from_secs(2);

    fn new() -> Self {
        Self { next: Instant::now() + Self::EVERY }
    }

    fn show(&mut self, done: usize, all: usize) {
        let now = Instant::now();
        if now >= self.next {
            eprintln!("read {done} of {all} records");
            self.next = now + Self::EVERY;
        }
    }
}
