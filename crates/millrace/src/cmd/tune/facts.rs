//! Reads what a plan needs: rules, facts and findings.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use results::audit::Finding;
use tune::change::{Choice, Plan, Root, plan_checked};
use tune::collect::runner::HostRunner;
use tune::collect::{Checked, check_value};
use tune::facts::{Facts, Server};
use tune::judge::judge;
use tune::rules::RuleSet;

use crate::cmd::audit::{Given, gather_below, rules_of};
use crate::error_printing::refusal;

/// What facts and rules are made from, besides the host.
#[derive(clap::Args)]
pub(super) struct Sources {
    /// Site file: facts that no program can read, such as the host's role
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
    /// A database, repeatable: a libpq URL, key=value list or database name, or mysql://USER@HOST:PORT/ (?socket=PATH)
    #[arg(long, value_name = "DSN")]
    pub(super) db: Vec<String>,
    /// Use the rules of this directory instead of the built-in ones
    #[arg(long = "rules", value_name = "DIR")]
    rule_folder: Option<PathBuf>,
}

/// Rules, facts, findings.
pub(super) struct Known {
    pub(super) rules: RuleSet,
    pub(super) facts: Facts,
    pub(super) findings: Vec<Finding>,
}

/// Reads rules and facts, and judges them. `capture` is another host's. `root` is a tree that is
/// read in place of this host's.
pub(super) fn known(sources: &Sources, capture: Option<&Path>, root: Option<&Path>) -> anyhow::Result<Known> {
    match (capture, root) {
        (None, Some(root)) => holds_host(root)?,
        // A capture may have few of the host's files, or none.
        (Some(_), Some(root)) if !root.is_dir() => {
            let what = format!("use --root: there is no directory {}", root.display());
            return Err(refusal(
                what,
                "name the directory that holds the host's etc, or leave --root out for the files of the capture",
            ));
        }
        _ => {}
    }
    let rules = rules_of(sources.rule_folder.as_deref())?;
    if capture.is_none() && std::io::stderr().is_terminal() {
        eprintln!("reading the facts of {} …", root.map_or("this host".into(), Path::to_string_lossy));
    }
    let given = Given { facts: capture.map(Path::to_owned), site: sources.site.clone(), db: sources.db.clone() };
    let facts = gather_below(&given, root)?.facts;
    let findings = judge(&rules, &facts).findings;
    Ok(Known { rules, facts, findings })
}

/// Plans changes whose values the servers of this host have checked. `other` is the reason not to
/// ask the servers: the plan is for another host or tree.
pub(super) fn checked_plan(known: &Known, root: &Root, choice: &Choice, other: Option<&str>) -> Plan {
    let check = |server: &Server, name: &str, value: &str| match other {
        Some(reason) => Checked::Unchecked(reason.to_owned()),
        None => check_value(&HostRunner, server, name, value),
    };
    plan_checked(&known.rules, &known.facts, &known.findings, root, choice, &check)
}

/// The reason not to ask servers if the root is another tree.
pub(super) fn other_tree(root: &Root) -> Option<&'static str> {
    (root.host("/") != Path::new("/")).then_some("the files belong to another tree, whose programs are not run")
}

/// Refuses a directory that cannot be the root of a host. All facts would be absent there, and the
/// plan would be empty.
pub(super) fn holds_host(root: &Path) -> anyhow::Result<()> {
    if ["etc", "proc"].iter().any(|name| root.join(name).is_dir()) {
        return Ok(());
    }
    let what = format!("use --root: no Linux host found in {}", root.display());
    Err(refusal(what, "name the directory that holds the host's etc and proc, / for this host"))
}

/// Refuses names of rules that do not exist.
pub(super) fn must_exist(rules: &RuleSet, names: &[String]) -> anyhow::Result<()> {
    rules.named(names).map(|_| ()).map_err(|unknown| refusal(&unknown, unknown.hint()))
}
