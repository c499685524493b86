//! `counters`: shows what the segments of this host's mounts contain.

pub(crate) mod gather;
mod options;
mod text;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
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
    /// Runtime directory of one mount [default: all mounts of this user and its groups, or those below MILLRACE_RUNTIME_DIR]
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
  millrace nfs counters                   all mounts, the last attached first
  millrace nfs counters --seconds 10      what happens on them in the next 10 s
  millrace nfs counters --json | jq '.[].calls_in_progress'

A call is shown as in progress once it has waited for a second. --remove-dead never removes data
that the server has not committed, or an error that no program has received. After a refused COMMIT
the data is lost: no program can save it, and the next fsync of the file returns the error.

Exit codes: 0 printed; 2 this user has no mount, or the named mount cannot be read.";

pub(super) fn run(args: &Counters) -> anyhow::Result<()> {
    let named = args.runtime_dir.as_deref().map(of_mount).transpose()?;
    if args.prometheus {
        print!("{}", prometheus::page(named.as_deref())?);
        return Ok(());
    }
    let runtimes = match &named {
        Some(directory) => {
            let runtime = directory.parent().unwrap_or(directory);
            runtime::check(runtime)?;
            vec![runtime.to_owned()]
        }
        None => runtime::searched()?,
    };
    if args.remove_dead {
        for directory in gather::remove_dead(&runtimes)? {
            println!("removed the shared state in {}", directory.display());
        }
        return Ok(());
    }
    let interval = args.seconds.map(Duration::from_secs_f64);
    let mut mounts = match &named {
        Some(directory) => gather::one(directory, interval)?.ok_or_else(|| no_mount(directory, "no mount was made there"))?,
        None => gather::all(&runtimes, interval),
    };
    if mounts.reports.is_empty() && mounts.unreadable.is_empty() {
        let searched: Vec<_> = runtimes.iter().map(|runtime| runtime.display().to_string()).collect();
        let what = format!("show counters: no mount of this user found below {}", searched.join(" or "));
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

/// The directory that the user named, as an absolute path. Fails if it has no segment of a mount.
fn of_mount(named: &Path) -> anyhow::Result<PathBuf> {
    let directory = std::path::absolute(named).map_err(|_| no_mount(named, "the path is empty"))?;
    let runtime = dnfs::mount::runtime_root();
    if directory.parent() == Some(&runtime) {
        runtime::check(&runtime)?;
    }
    match directory.join("segment").metadata() {
        Ok(_) => Ok(directory),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let what = format!("read the counters in {}: permission denied", named.display());
            Err(refusal(what, "run it as the user whose programs made the mount"))
        }
        Err(_) if directory.is_dir() => Err(no_mount(named, "no mount was made there")),
        Err(_) => Err(no_mount(named, "no such directory")),
    }
}

fn no_mount(named: &Path, why: &str) -> anyhow::Error {
    let hint = "name the directory that `millrace nfs counters` prints after the URL of a mount; without a name it shows all mounts \
                of this user";
    refusal(format!("read the counters in {}: {why}", named.display()), hint)
}

/// Prints on stderr what the figures leave out.
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
