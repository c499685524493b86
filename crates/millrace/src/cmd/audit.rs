//! `millrace audit`: the settings between database and disk, checked against the rules.

mod compared;
pub(super) mod direct_nfs;
mod gather;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use results::audit::{Audit, SCHEMA, Severity, Verdict};
use tune::baseline::Baseline;
use tune::facts::Facts;
use tune::judge::{Judgement, judge};
use tune::measured::{self, MeasuredError};
use tune::report::{self, Look};
use tune::rules::{self, RuleSet};
use tune::stored::StoredError;
use tune::stored_audit;
use tune::waivers::{self, Day, Waivers};

use super::output_file;
use crate::closed_output::TO_STDOUT;
use crate::error_printing::{hinted, refusal};

pub(super) use gather::{Given, databases, gather_below};

const EXAMPLES: &str = "\
Examples:
  millrace audit                                   this host, what this user may read
  millrace audit --db mill -v --rule postgres-fsync-on  one rule, with reason, source and fix
  millrace audit --db postgresql:///mill --site site.toml  also its database, and a site file
  millrace audit --facts db1.tar.gz --format html --out db1.html
  millrace audit --format json --out last-week.json; millrace audit --baseline last-week.json
  millrace audit --waivers waivers.toml --fail-on high --format sarif --out audit.sarif
  millrace audit --db postgresql:///mill --measured millrace-results/2026-11-20T080000Z
  millrace audit diff last-week.json today.json
`millrace collect`, dist/collect/collect.sh and sos report write captures. A waiver file:
  schema = 1
  [[waiver]]
  rule = \"linux-nfs-attribute-cache-on\"
  subject = \"mount /u0*\"
  reason = \"the cluster needs it until it moves\"
  expires = 2027-03-31
Exit codes: 0 nothing found; 1 findings (of the severity of --fail-on or worse, neither waived nor
in the baseline; those for information never count); 2 could not run. Rules that cannot be judged
because facts are missing do not count; -v lists them.";

/// Checks the settings between database and disk against rules, each with its reason and source.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Option<Job>,
    #[command(flatten)]
    audit: AuditArgs,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Show the differences between two audits (--format json)
    #[command(after_help = compared::HELP)]
    Diff(compared::Args),
}

#[derive(clap::Args)]
struct AuditArgs {
    #[command(flatten)]
    given: Given,
    /// Format of the audit
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to a file; a line with the counts goes to stderr [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// For each finding, show the value found, reason, effect, sources, sources that disagree, and fix; list the rules that could
    /// not be judged
    #[arg(short, long)]
    verbose: bool,
    /// Include the rules that passed
    #[arg(long)]
    passed: bool,
    /// File of waivers: accepted findings, each with a reason and an expiry date
    #[arg(long, value_name = "FILE")]
    waivers: Option<PathBuf>,
    /// An earlier audit (--format json): its findings do not count again, unless they are worse now
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Directory of a `tune measure`: findings show the measured effect of their rules and are ordered by it
    #[arg(long, value_name = "DIR")]
    measured: Option<PathBuf>,
    /// Use the rules of this directory instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// Lowest severity that makes the exit code 1
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t)]
    fail_on: FailOn,
    /// Judge only this rule, repeatable
    #[arg(long = "rule", value_name = "ID")]
    only: Vec<String>,
}

/// How an audit is written.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each finding, for people
    #[default]
    Text,
    /// For --baseline and `audit diff`
    Json,
    /// SARIF 2.1.0, for scanners' consoles
    Sarif,
    /// JUnit XML, for viewers of test results
    Junit,
    /// One page for a browser
    Html,
}

/// A severity that can count.
#[derive(Clone, Copy, Default, ValueEnum)]
enum FailOn {
    #[default]
    Low,
    Medium,
    High,
    Critical,
}

impl From<FailOn> for Severity {
    fn from(fail_on: FailOn) -> Self {
        match fail_on {
            FailOn::Low => Self::Low,
            FailOn::Medium => Self::Medium,
            FailOn::High => Self::High,
            FailOn::Critical => Self::Critical,
        }
    }
}

/// Runs `millrace audit`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.job {
        Some(Job::Diff(args)) => compared::run(&args),
        None => audit(&args.audit),
    }
}

fn audit(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    // Files that the user named are read first, so a mistake in them is reported before the host is read.
    let rules = rules_of(args.rules.as_deref())?;
    rules.named(&args.only).map_err(|unknown| refusal(&unknown, unknown.hint()))?;
    let waivers = args.waivers.as_deref().map(|file| waivers_of(file, &rules)).transpose()?;
    let baseline = args.baseline.as_deref().map(stored_audit::read).transpose().map_err(no_baseline)?;
    let baseline = baseline.as_ref().map(Baseline::of);
    let measured = args.measured.as_deref().map(measured::read).transpose().map_err(not_measured)?;
    let gathered = gather::gather(&args.given)?;
    let judged = chosen(judge(&rules, &gathered.facts), &rules, &args.only);
    // A directory that is not a capture may still hold one file that a rule reads. Its findings are
    // then all unknown.
    let all_unknown = judged.findings.iter().all(|finding| finding.verdict == Verdict::Unknown);
    if judged.findings.is_empty() || args.given.facts.is_some() && args.only.is_empty() && all_unknown {
        return Err(nothing_judged(args, &gathered.facts));
    }
    let mut audit = stored_form(judged, &gathered, args.passed);
    if let Some(effects) = &measured {
        measured::note(effects, &mut audit);
    }
    let today = Day::parse(&lab::clock::utc_now()).context("read the date")?;
    let unused = waivers.map(|waivers| waivers::apply(&waivers, &mut audit, today).unused).unwrap_or_default();
    if args.verbose {
        audit.remarks.extend(unused);
    }
    let look =
        Look { verbose: args.verbose, fail_on: args.fail_on.into(), baseline: baseline.as_ref(), facts: Some(&gathered.facts) };
    write(args, &audit, &look)?;
    Ok(ExitCode::from(u8::from(look.fails(&audit))))
}

/// The built-in rules, or those of a directory.
pub(super) fn rules_of(directory: Option<&Path>) -> anyhow::Result<RuleSet> {
    let Some(directory) = directory else { return rules::built_in().context("use the built-in rules") };
    let found = RuleSet::folder(directory).map_err(|error| {
        let what = anyhow::Error::new(error).context(format!("use the rules of {}", directory.display()));
        hinted(what, "correct the path or the file, or leave out --rules for the built-in rules")
    })?;
    if found.rules().is_empty() {
        return Err(refusal(
            format!("use the rules of {}: it contains no rules", directory.display()),
            "name the directory that holds *.toml or its parent",
        ));
    }
    Ok(found)
}

fn waivers_of(file: &Path, rules: &RuleSet) -> anyhow::Result<Waivers> {
    let ids = rules.rules().iter().map(|loaded| loaded.rule.id.as_str());
    Waivers::read(file, ids).map_err(|error| {
        let hint =
            error.hint().unwrap_or_else(|| "name the file with --waivers FILE; `millrace audit --help` shows one".to_owned());
        hinted(anyhow::Error::new(error).context(format!("use the waivers of {}", file.display())), hint)
    })
}

fn no_baseline(error: StoredError) -> anyhow::Error {
    let what = anyhow::Error::new(error).context("use the baseline");
    hinted(what, "a baseline is written with: millrace audit --format json --out FILE")
}

fn not_measured(error: MeasuredError) -> anyhow::Error {
    hinted(anyhow::Error::new(error).context("use the measured effects"), "name the --out directory of a millrace tune measure")
}

/// Keeps the judgements of the rules in `only`, or all of them if it is empty.
fn chosen(mut judged: Judgement, rules: &RuleSet, only: &[String]) -> Judgement {
    if only.is_empty() {
        return judged;
    }
    judged.findings.retain(|finding| only.contains(&finding.rule));
    let asked = rules.rules().iter().map(|loaded| &loaded.rule.id).filter(|id| only.contains(id));
    judged.not_applicable = asked.filter(|id| judged.findings.iter().all(|finding| finding.rule != **id)).count();
    judged
}

/// The error if no rule could be judged: such an audit must not read like one without findings.
fn nothing_judged(args: &AuditArgs, facts: &Facts) -> anyhow::Error {
    if !args.only.is_empty() {
        return refusal(
            format!("judge these facts: {} does not apply to them", args.only.join(", ")),
            "millrace tune explain RULE says when it applies",
        );
    }
    let of_servers: usize = facts.servers.iter().map(|server| server.facts.host.len()).sum();
    let names = facts.host.len() + of_servers + facts.things.values().map(std::collections::BTreeMap::len).sum::<usize>();
    refusal(
        format!("judge anything: no rule applies to the {names} facts that were found"),
        "is the capture that of a Linux, Solaris, AIX, HP-UX or ONTAP host, or of a database? millrace collect writes one",
    )
}

/// The audit as it is stored.
fn stored_form(judged: Judgement, gathered: &gather::Gathered, keep_passed: bool) -> Audit {
    let passed = judged.findings.iter().filter(|finding| finding.verdict == Verdict::Passed).count();
    let mut findings = judged.findings;
    findings.retain(|finding| keep_passed || finding.verdict != Verdict::Passed);
    let commit = option_env!("MILLRACE_COMMIT").map(|commit| format!(" ({commit})")).unwrap_or_default();
    let mut remarks = gathered.facts.remarks.clone();
    remarks.extend(judged.remarks);
    Audit {
        schema: SCHEMA,
        program: format!("millrace {}{commit}", env!("CARGO_PKG_VERSION")),
        host: gathered.host.clone(),
        system: gathered.system.clone(),
        taken: gathered.taken.clone(),
        from: gathered.from.clone(),
        findings,
        passed,
        not_applicable: judged.not_applicable,
        remarks,
    }
}

fn write(args: &AuditArgs, audit: &Audit, look: &Look<'_>) -> anyhow::Result<()> {
    let text = match args.format {
        _ if args.json => report::json(audit, look),
        Format::Text => report::text(audit, look),
        Format::Json => report::json(audit, look),
        Format::Sarif => report::sarif(audit, look),
        Format::Junit => report::junit(audit, look),
        Format::Html => report::html(audit, look),
    };
    let Some(file) = &args.out else {
        return std::io::stdout().write_all(text.as_bytes()).context(TO_STDOUT);
    };
    output_file::write(file, "--out", &text)?;
    eprintln!("{}: {}", file.display(), report::Counts::of(audit, look).words(look));
    Ok(())
}
