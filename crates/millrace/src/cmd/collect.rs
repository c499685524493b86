//! `millrace collect`: writes the facts of this host that an audit needs into a capture.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use tune::collect::{LiveOptions, database_text, write_capture};

use super::audit::{databases, direct_nfs};
use crate::error_printing::{hinted, refusal};

const EXAMPLES: &str = "\
Examples:
  millrace collect                        millrace-HOST-TIME.tar.gz in the current directory
  millrace collect --out /tmp/db1.tar.gz --db postgresql:///mill
  millrace collect --out /tmp/db1         a directory: review it before you pass it on
  millrace audit --facts /tmp/db1.tar.gz  elsewhere
Names of hosts and users are kept; passwords, keys and secrets are left out. What this
user may not read is marked as unknown in the capture.
Exit codes: 0 written; 2 could not write it, or could not read a database of --db.";

/// Writes what an audit needs of this host into a capture, with secrets left out.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File to write, ending in .tar.gz or .tar, or a directory to create
    #[arg(long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
    /// Database whose settings are also collected, repeatable
    #[arg(long, value_name = "DSN")]
    db: Vec<String>,
    /// Print where it was written as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `millrace collect`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let time = lab::clock::utc_now();
    let out = args.out.unwrap_or_else(|| default_out(&time));
    is_capture(&out)?;
    let asked = databases(&args.db)?;
    let tables = asked.iter().map(|asked| database_text(asked.kind, &asked.address, &asked.rows));
    let fetched = tables.chain(direct_nfs::counters()).collect();
    let options = LiveOptions { time: Some(time), fetched, running_servers: true, ..LiveOptions::default() };
    write_capture(&out, &options).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "nothing is overwritten: choose another name with --out",
            _ => "name a new file or directory in a directory that exists and that this user may write: --out /tmp/HOST.tar.gz",
        };
        hinted(anyhow::Error::new(error).context(format!("write {}", out.display())), hint)
    })?;
    let bytes = std::fs::metadata(&out).with_context(|| format!("read {}", out.display()))?.len();
    if args.json {
        println!("{}", json!({"written": out.display().to_string(), "bytes": bytes}));
    } else {
        println!("{}", out.display());
        eprintln!("review it before you pass it on: millrace audit --facts {}", out.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a name with the suffix of another kind of archive, because a directory of that name
/// would be made.
fn is_capture(out: &Path) -> anyhow::Result<()> {
    let name = out.to_string_lossy();
    if [".tgz", ".zip", ".gz", ".xz", ".zst", ".bz2"].iter().any(|end| name.ends_with(end)) && !name.ends_with(".tar.gz") {
        let what = format!("write {name}: captures are .tar.gz and .tar files, and directories");
        return Err(refusal(what, "name a file FILE.tar.gz or FILE.tar, or a directory without such an ending"));
    }
    Ok(())
}

/// `millrace-HOST-TIME.tar.gz`.
fn default_out(time: &str) -> PathBuf {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().filter(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '.')).collect();
    let host = host.trim_start_matches('.');
    let time: String = time.chars().filter(char::is_ascii_alphanumeric).collect();
    PathBuf::from(format!("millrace-{}-{time}.tar.gz", if host.is_empty() { "host" } else { host }))
}
