//! `millrace tune measure`: what rules bring on the order load, measured before they are kept.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use lab::compare::{Request, compare, dry_run};
use lab::effect::{self, Change, Effect, Terms};
use results::audit::{Finding, Status, Verdict};
use tune::change::setting_text;
use tune::facts::Facts;
use tune::judge::judge;
use tune::rule::{Rule, SettingKind};
use tune::rules::RuleSet;

use super::facts::{Known, Sources, known, must_exist};
use crate::cmd::compare::screen::Screen;

const HELP: &str = "\
Loads a database of its own, measures it with PostgreSQL's own defaults, then with each rule's
settings alone and all added up, interleaved, and keeps the rules whose gain is shown, alone or on
top of those before it that are kept: the 99 % interval of the difference lies above zero. Without
RULE it takes those that the audit finds against here (with --db, against that server), that set
something in PostgreSQL, lose no durability and are not contested. The report of the comparison
shows the ladder. With --apply the kept settings are given to the server of --db by ALTER SYSTEM;
OUT/revert.sql takes them back.
Examples:
  millrace tune measure postgres-shared-buffers-from-memory postgres-wal-room --dry-run
  millrace tune measure --seconds 60 --repeats 5 --budget 2h
  millrace tune measure postgres-wal-compression --db postgresql://db1/postgres --apply
Exit codes: 0 measured and at least one gain shown; 1 measured, none shown; 2 could not run; 3 ran,
but a proof or a check failed.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Rules to measure, in the order in which they are added up
    #[arg(value_name = "RULE")]
    names: Vec<String>,
    /// Path the database stands on, as `compare` takes it
    #[arg(long, value_name = "NAME[=TARGET]", default_value = "dnfs")]
    path: String,
    /// Modelled storage medium below it: a profile (fc15k, nvme, …) or PROFILE,key=value,…
    #[arg(long, value_name = "SPEC")]
    medium: Option<String>,
    /// Warehouses to load, about 110 MB each
    #[arg(long, value_name = "N", default_value_t = 8)]
    warehouses: u32,
    /// Users, each sending its next transaction when the last one ended
    #[arg(long, value_name = "N", default_value_t = 8)]
    users: u32,
    /// Seconds measured in each run
    #[arg(long, value_name = "N", default_value_t = 30)]
    seconds: u64,
    /// Seconds of warm-up in each run, not measured
    #[arg(long, value_name = "N", default_value_t = 10)]
    warmup: u64,
    /// Runs of each set of settings, interleaved
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeats: u32,
    /// Start no further round that would end later than this
    #[arg(long, value_name = "TIME", default_value = "1h")]
    budget: String,
    /// Seed of the first round
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep processors from sleeping during runs (root): on a virtual machine of a busy host they wake up late
    #[arg(long)]
    keep_awake: bool,
    /// Set what is kept on the server of --db, by ALTER SYSTEM
    #[arg(long, requires = "db")]
    apply: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Directory for the record, the report and revert.sql; must be new or empty [default: millrace-results/TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Directory below which the work directory is made
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
    /// Directory of PostgreSQL's server programs [default: PATH, then the newest installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
    /// Print what each rule brought as JSON
    #[arg(long)]
    json: bool,
}

/// Measures, says what is kept, and gives it to a server when asked to.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Found before hours of measuring.
    if args.apply && args.sources.db.len() != 1 {
        bail!("--apply gives settings to one server: name one --db");
    }
    let Known { rules, mut facts, mut findings } = known(&args.sources, None, None)?;
    if args.path.starts_with("dnfs") && !facts.host.contains_key("site.direct_nfs") {
        facts.put("site.direct_nfs", true, "--path");
        findings = judge(&rules, &facts).findings;
    }
    let changes = changes(&rules, &chosen(&rules, &findings, &args.names)?, &facts, !args.names.is_empty())?;
    let request = request(args, &changes)?;
    for change in &changes {
        let settings: Vec<String> = change.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        eprintln!("{}: {}", change.rule, settings.join(", "));
    }
    if args.dry_run {
        print!("{}", dry_run(&request)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Screen::new();
    let comparison = compare(&request, &mut |line| screen.show(line))?;
    let effects = effect::effects(&comparison, &changes);
    let kept: Vec<&Effect> = effects.iter().filter(|effect| effect.kept).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&effects)?);
    } else {
        for effect in &effects {
            println!("{}", effect.text);
        }
        println!("{} of {} kept; the ladder: {}", kept.len(), effects.len(), request.out.join(lab::report::PAGE).display());
    }
    if !comparison.valid {
        eprintln!("the comparison is not valid, so nothing is applied: {}", comparison.verdict);
        return Ok(ExitCode::from(3));
    }
    if let Some(dsn) = args.sources.db.first().filter(|_| args.apply && !kept.is_empty()) {
        give(dsn, &kept, &request.out)?;
    }
    Ok(ExitCode::from(u8::from(kept.is_empty())))
}

/// The rules named, or all that found something and may be tried unasked.
fn chosen<'r>(rules: &'r RuleSet, findings: &[Finding], names: &[String]) -> anyhow::Result<Vec<&'r Rule>> {
    if names.is_empty() {
        let fires = |rule: &Rule| findings.iter().any(|found| found.rule == rule.id && found.verdict == Verdict::Finding);
        let unasked = |rule: &&Rule| sets_postgres(rule) && !loses(rule) && rule.status != Status::Contested && fires(rule);
        let chosen: Vec<&Rule> = rules.rules().iter().map(|loaded| &loaded.rule).filter(unasked).collect();
        if chosen.is_empty() {
            bail!("the audit finds nothing against PostgreSQL's settings here: name the rules to measure, or a server by --db");
        }
        return Ok(chosen);
    }
    must_exist(rules, names)?;
    names
        .iter()
        .filter_map(|name| Some((name, rules.find(name)?)))
        .map(|(name, loaded)| {
            if !sets_postgres(&loaded.rule) {
                bail!("{name} sets nothing in PostgreSQL, so the order load cannot measure it before and after by itself");
            }
            if loses(&loaded.rule) {
                bail!("{name} may lose acknowledged transactions and is never applied by a measurement");
            }
            Ok(&loaded.rule)
        })
        .collect()
}

fn sets_postgres(rule: &Rule) -> bool {
    rule.fix.as_ref().is_some_and(|fix| fix.settings.iter().any(|setting| setting.kind == SettingKind::Postgres))
}

fn loses(rule: &Rule) -> bool {
    rule.fix.as_ref().is_some_and(|fix| fix.loses_durability)
}

/// Settings of the rules with their values here. One whose value hangs on an unknown fact is an error where it was named, else
/// it is left out.
fn changes(rules: &RuleSet, chosen: &[&Rule], facts: &Facts, named: bool) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    for rule in chosen {
        match settings(rules, rule, facts) {
            Ok(settings) => changes.push(Change { rule: rule.id.clone(), settings }),
            Err(error) if named => return Err(error),
            Err(error) => eprintln!("left out: {error:#}"),
        }
    }
    Ok(changes)
}

fn settings(rules: &RuleSet, rule: &Rule, facts: &Facts) -> anyhow::Result<Vec<(String, String)>> {
    let settings = rule.fix.iter().flat_map(|fix| &fix.settings).filter(|setting| setting.kind == SettingKind::Postgres);
    settings
        .map(|setting| {
            let value = setting_text(rules, setting, facts);
            let value = value.map_err(|why| anyhow!("{}: the value of {} is not known here: {why}", rule.id, setting.key))?;
            Ok((setting.key.clone(), value))
        })
        .collect()
}

fn request(args: &Args, changes: &[Change]) -> anyhow::Result<Request> {
    let terms = Terms {
        path: args.path.clone(),
        medium: args.medium.clone(),
        warehouses: args.warehouses,
        users: args.users,
        seconds: args.seconds,
        warmup_seconds: args.warmup,
        repeats: args.repeats,
        budget: args.budget.clone(),
        seed: args.seed,
        keep_awake: args.keep_awake,
    };
    Ok(Request {
        plan: effect::plan(changes, &terms)?,
        work_base: args.work.clone(),
        out: args.out.clone().unwrap_or_else(|| Path::new("millrace-results").join(lab::clock::utc_now().replace(':', ""))),
        resume: false,
        keep: false,
        pg_bin: args.pg_bin.clone(),
        program: std::env::current_exe().context("find this program's own file")?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("MILLRACE_COMMIT").map(str::to_owned),
        baseline: None,
        metrics: None,
    })
}

/// Gives settings to a running server and writes what takes them back, first.
///
/// **Durability**: `revert.sql` is synced before the first setting is changed.
fn give(dsn: &str, kept: &[&Effect], out: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(dsn, tokio_postgres::NoTls).await.context("reach the server of --db")?;
        let connection = tokio::spawn(connection);
        let settings: Vec<&(String, String)> = kept.iter().flat_map(|effect| &effect.change.settings).collect();
        let mut back = Vec::new();
        for (name, _) in &settings {
            let set = "SELECT setting FROM pg_file_settings WHERE name = $1 AND sourcefile LIKE '%postgresql.auto.conf'";
            let before: Option<String> = client.query_opt(set, &[name]).await?.map(|row| row.get(0));
            back.push(before.map_or_else(|| format!("ALTER SYSTEM RESET {};", name_of(name)), |value| statement(name, &value)));
        }
        back.push("SELECT pg_reload_conf();\n".to_owned());
        let file = out.join("revert.sql");
        write_synced(&file, &back.join("\n")).with_context(|| format!("write {}", file.display()))?;
        for (name, value) in &settings {
            let statement = statement(name, value);
            client.batch_execute(&statement).await.with_context(|| format!("the server refuses {statement}"))?;
        }
        client.batch_execute("SELECT pg_reload_conf()").await?;
        // stdout may be read as JSON.
        eprintln!("given to the server by ALTER SYSTEM: {} settings; {} takes them back", settings.len(), file.display());
        let names: Vec<&str> = settings.iter().map(|(name, _)| name.as_str()).collect();
        let later = "SELECT name FROM pg_settings WHERE name = ANY($1) AND context = 'postmaster' ORDER BY name";
        let later: Vec<String> = client.query(later, &[&names]).await?.iter().map(|row| row.get(0)).collect();
        if !later.is_empty() {
            eprintln!("in force after a restart of the server: {}", later.join(", "));
        }
        drop(client);
        connection.abort();
        Ok(())
    })
}

fn write_synced(file: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut made = std::fs::File::create_new(file)?;
    made.write_all(text.as_bytes())?;
    made.sync_all()
}

fn statement(name: &str, value: &str) -> String {
    format!("ALTER SYSTEM SET {} = '{}';", name_of(name), value.replace('\'', "''"))
}

/// As PostgreSQL quotes an identifier; a setting of an extension has a dot.
fn name_of(name: &str) -> String {
    name.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stay_what_they_are_in_a_statement() {
        assert_eq!(statement("max_wal_size", "16GB"), "ALTER SYSTEM SET \"max_wal_size\" = '16GB';");
        assert_eq!(statement("a.b\"c", "it's"), "ALTER SYSTEM SET \"a\".\"b\"\"c\" = 'it''s';");
    }
}
