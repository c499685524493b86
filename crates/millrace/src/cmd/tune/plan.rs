//! `millrace tune plan`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tune::change::{Choice, Root, render};

use super::facts::{Sources, checked_plan, known, other_tree};

const HELP: &str = "\
Changes are grouped by the action that puts them in force: live, reload, db-restart, remount,
nic-restart, reboot. Each group lists the steps that apply would leave to you. One diff for each
file follows, which `patch -p1 -d /` applies. Settings that are contested (sources disagree) or may
lose acknowledged data are listed apart: name their rule with --rule to plan them. For systems other
than Linux, and for storage and databases that are set in their own console, the plan is text to run
there.
Examples:
  millrace tune plan --db postgresql:///mill --site site.toml
  millrace tune plan --rule linux-rpc-slots-enough --json
  millrace tune plan --facts db1.tar.gz
Exit codes: 0 planned, or nothing to change; 2 could not run.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// A capture instead of this host: a directory, .tar or .tar.gz
    #[arg(long, value_name = "DIR|TAR")]
    facts: Option<PathBuf>,
    /// Root of the file tree that is compared [default: that of this host; of a capture directory, its copies of files]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Plan only this rule, repeatable; also allows a rule whose sources disagree or that may lose data
    #[arg(long = "rule", value_name = "ID")]
    rules: Vec<String>,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let known = known(&args.sources, args.facts.as_deref(), args.root.as_deref())?;
    super::facts::must_exist(&known.rules, &args.rules)?;
    let root = Root::new(args.root.unwrap_or_else(|| tree_of(args.facts.as_deref())));
    let other = if args.facts.is_some() { Some("the plan is of a capture") } else { other_tree(&root) };
    let plan = checked_plan(&known, &root, &Choice { rules: args.rules }, other);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&plan).context("write the plan")?);
    } else {
        print!("{}", render(&plan));
    }
    Ok(ExitCode::SUCCESS)
}

/// The files of this host, or those in a capture. An archive is not read, so its files count as absent.
fn tree_of(capture: Option<&std::path::Path>) -> PathBuf {
    let Some(capture) = capture else { return PathBuf::from("/") };
    let files = capture.join("files");
    if files.is_dir() || !capture.is_dir() { files } else { capture.to_owned() }
}
