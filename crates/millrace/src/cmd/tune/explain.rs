//! `millrace tune explain`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tune::change::{Choice, Root, explain, plan_of};

use super::facts::{Known, Sources, known, must_exist};

const HELP: &str = "\
Examples:
  millrace tune explain linux-rpc-slots-enough
  millrace tune explain oracle-filesystemio-setall --facts db1.tar.gz --json
Exit codes: 0 printed; 2 could not run, or no such rule.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The rule's name, as audit and plan print it
    #[arg(value_name = "RULE")]
    rule: String,
    #[command(flatten)]
    sources: Sources,
    /// A capture instead of this host: a directory, .tar or .tar.gz
    #[arg(long, value_name = "DIR|TAR")]
    facts: Option<PathBuf>,
    /// Root of the file tree that is compared [default: that of this host]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Known { rules, facts, findings } = known(&args.sources, args.facts.as_deref(), args.root.as_deref())?;
    let names = [args.rule];
    must_exist(&rules, &names)?;
    let [name] = &names;
    let loaded = rules.find(name).context("find the rule")?;
    let root = Root::new(args.root.unwrap_or_else(|| PathBuf::from("/")));
    let plan = plan_of(&rules, &facts, &findings, &root, &Choice { rules: names.to_vec() });
    let explanation = explain(&loaded.rule, &loaded.layer, &findings, &plan);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&explanation).context("write the explanation")?);
    } else {
        print!("{}", explanation.text());
    }
    Ok(ExitCode::SUCCESS)
}
