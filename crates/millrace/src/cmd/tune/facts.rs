//! What a plan stands on: rules, facts, and what they come to.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use results::audit::Finding;
use tune::collect::{self, LiveOptions};
use tune::facts::Facts;
use tune::judge::judge;
use tune::rules::{self, RuleSet};

use crate::cmd::audit::of_databases;
use crate::complain::{hinted, refusal};

/// Largest site file: some lines for each mount of a large host.
const SITE_BYTES_MAX: u64 = 1 << 20;

/// What facts and rules are made from, besides the host.
#[derive(clap::Args)]
pub(super) struct Sources {
    /// What only people know: roles, and which mounts hold redo logs, data and homes
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
    /// A database, repeatable: a libpq URL or key=value list, or mysql://USER@HOST:PORT/ (?socket=PATH)
    #[arg(long, value_name = "DSN")]
    pub(super) db: Vec<String>,
    /// Rules of this directory instead of the built-in ones
    #[arg(long = "rules", value_name = "DIR")]
    rule_folder: Option<PathBuf>,
}

/// Rules, facts, findings.
pub(super) struct Known {
    pub(super) rules: RuleSet,
    pub(super) facts: Facts,
    pub(super) findings: Vec<Finding>,
}

/// Reads everything and judges it. `capture` is another host's, `root` a tree that stands for this one.
pub(super) fn known(sources: &Sources, capture: Option<&Path>, root: Option<&Path>) -> anyhow::Result<Known> {
    let rules = match &sources.rule_folder {
        Some(folder) => RuleSet::folder(folder).with_context(|| format!("cannot use the rules of {}", folder.display()))?,
        None => rules::shipped().context("cannot use the built-in rules")?,
    };
    // Read first: a mistake in it is told before the host is asked anything.
    let site = sources.site.as_deref().map(site_text).transpose()?;
    let mut facts = match capture {
        Some(path) => of_capture(path)?,
        None => of_this_host(root),
    };
    if let Some(text) = site {
        collect::site(&text, &mut facts);
    }
    of_databases(&sources.db, &mut facts)?;
    let findings = judge(&rules, &facts).findings;
    Ok(Known { rules, facts, findings })
}

/// Refuses names of rules that are not there.
pub(super) fn must_exist(rules: &RuleSet, names: &[String]) -> anyhow::Result<()> {
    let Some(missing) = names.iter().find(|name| rules.find(name).is_none()) else { return Ok(()) };
    let known = rules.rules().iter().map(|loaded| loaded.rule.id.as_str());
    let hint = match tune::nearest::nearest(missing, known) {
        Some(near) => format!("did you mean {near}?"),
        None => "`millrace audit` names the rules that found something; docs/rules.md has them all".to_owned(),
    };
    Err(refusal(format!("no rule is called {missing}"), hint))
}

fn of_capture(path: &Path) -> anyhow::Result<Facts> {
    let (facts, _) = collect::capture(path).map_err(|error| {
        hinted(
            anyhow::Error::new(error).context(format!("cannot use the capture {}", path.display())),
            "a capture is what millrace collect, a script of dist/collect or sos report wrote",
        )
    })?;
    Ok(facts)
}

fn of_this_host(root: Option<&Path>) -> Facts {
    if std::io::stderr().is_terminal() {
        eprintln!("reading the facts of {} …", root.map_or("this host".into(), Path::to_string_lossy));
    }
    // Commands answer for this host alone.
    let options = root.filter(|root| *root != Path::new("/")).map(LiveOptions::below);
    collect::live(&options.unwrap_or_default())
}

fn site_text(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let bytes = std::fs::metadata(file).with_context(|| format!("cannot read {shown}"))?.len();
    if bytes > SITE_BYTES_MAX {
        return Err(refusal(format!("{shown} is too large for a site file"), "a site file has some lines for each mount"));
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))
}
