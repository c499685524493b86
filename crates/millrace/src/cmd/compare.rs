//! `millrace compare`: measures the same database on several storage paths.

mod in_guest;
mod install;
pub(crate) mod screen;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use lab::compare::{Request, compare, dry_run, exit_code};
use lab::history::last::Last;
use lab::limits::{PAGE_CACHE_MIB_MAX, REPEATS_MAX, SECONDS_MAX, USERS_MAX, WAREHOUSES_MAX};
use lab::plan::{Overrides, Plan};
use lab::{LabError, report};
use screen::Screen;

use super::values::{time, whole};
use crate::error_printing::print_error;

const EXAMPLES: &str = "\
Examples:
  millrace compare                                  local disk, Direct NFS and iSCSI on this host,
                                                    then one round on a modelled array (12 min)
  millrace compare --full                           both with repeats, and a fixed load (45 min)
  millrace compare --dry-run                        the same plan: steps, time and space
  millrace compare --warehouses 40 --seconds 120 --repeats 5 --budget 1h
  millrace compare --quick                          one short round: does everything work here?
  millrace compare --database mariadb --quick       MariaDB in place of PostgreSQL
  millrace compare --quick --install                on a new host: asks, installs PostgreSQL
  millrace compare --path local=/mnt/nvme --path dnfs=nfs://filer/vol    storage of your own
  millrace compare --tuning untuned,tuned             every path untuned and tuned
  millrace compare --guest --quick --paths local,dnfs,knfs,iscsi,fc   with the clients of a guest
  millrace compare my-plan.toml --out results/today
  millrace compare --out runs/1234 --against last --threshold 3%      in CI: fail on a loss
The database is a temporary server that listens on no TCP port. Ctrl-C ends every process and
removes the work directory; finished runs are kept.
Exit codes: 0 measured; 1 measured, but a threshold was missed; 2 could not run (arguments, a
missing program); 3 the figures are not valid (no proof that the reads went over the path, a failed
consistency check), the verdict was withheld (two paths read blocks of the same medium at different
speeds), or a later scenario is not valid or failed; 130 ended by SIGINT (Ctrl-C), 143 by SIGTERM,
129 by SIGHUP: the last line says how to resume after the finished runs. With --guest also 124 the
time limit was reached, 125 the guest did not boot or ended by itself.";

const LOAD_HELP: &str = "Load, repeatable: users=N[,model=closed|paced|open][,rate=N/s][,arrivals=constant|poisson][,seconds=N], or a search \
    for the number of users: saturate[@PATH] (throughput stops growing), cpu=PERCENT%[@PATH] (the processors are that busy), sweep \
    (doubled from 1 to beyond saturation); PATH is the one to search on [default: users=N with the N of --users]";

/// Runs the same database, PostgreSQL or MariaDB, on several storage paths and measures what each costs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Plan in TOML, whose values the options replace [default: the built-in one, plans/compare.toml]
    plan: Option<PathBuf>,
    /// Database to run on each path: postgresql or mariadb [default: that of the plan; built-in: postgresql]
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// Paths to compare: local, dnfs (Direct NFS), iscsi, knfs (kernel NFS), fc (Fibre Channel), block (a device); the first is the
    /// reference [default: those of the plan; built-in: local,dnfs,iscsi]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    paths: Vec<String>,
    /// A path to compare; repeatable. =TARGET names your own storage: a directory, an nfs:// URL or a device (docs/lab.md). Only
    /// paths of --path and --paths are compared, if there are any
    #[arg(long = "path", value_name = "NAME[:LABEL][=TARGET]")]
    path: Vec<String>,
    /// Sets of settings, each measured on each path: untuned, tuned, or a name of the plan [default: that of the plan; built-in: untuned]
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    tuning: Vec<String>,
    /// Placement of the files on volumes: one, split (write-ahead log on its own volume), split-archive (archived log on a
    /// third), filers=N (tables spread over N filers), luns=N (path iscsi: one btrfs striped over N LUNs), mounts=N (path knfs:
    /// tables spread over N mounts of one volume, each by its own address) [default: that of the plan; built-in: one]
    #[arg(long, value_delimiter = ',', value_name = "LAYOUT,…")]
    layout: Vec<String>,
    /// Modelled storage medium below every path: a profile (fc15k, nvme, …) or PROFILE,key=value,…; repeatable [default: that of the
    /// plan; built-in: no modelled medium]
    #[arg(long, value_name = "SPEC")]
    medium: Vec<String>,
    // In a doc comment, rustdoc would read `[@PATH]` as a link.
    #[arg(long, value_name = "LOAD", help = LOAD_HELP)]
    load: Vec<String>,
    /// Warehouses to load, about 110 MB each [default: that of the plan; built-in: 8]
    #[arg(long, value_name = "N", value_parser = whole("warehouses", 1..=WAREHOUSES_MAX, 10))]
    warehouses: Option<u32>,
    /// Users, each with one connection, each sending its next transaction when the last one ended [default: that of the plan; built-in: 8]
    #[arg(long, value_name = "N", conflicts_with = "load", value_parser = whole("users", 1..=USERS_MAX, 8))]
    users: Option<u32>,
    /// Seconds measured in each run [default: that of the plan; built-in: 30]
    #[arg(long, value_name = "N", value_parser = whole("seconds", 1..=SECONDS_MAX, 60))]
    seconds: Option<u64>,
    /// Seconds of warm-up in each run, not measured [default: that of the plan; built-in: 10]
    #[arg(long, value_name = "N", value_parser = whole("seconds", 0..=SECONDS_MAX, 10))]
    warmup: Option<u64>,
    /// Runs on each path, interleaved; at most this number within --budget [default: that of the plan; built-in: 6]
    #[arg(long, value_name = "N", value_parser = whole("runs", 1..=REPEATS_MAX, 3))]
    repeats: Option<u32>,
    /// Time limit: start no round that would end after it: 90s, 12m, 1h [default: that of the plan; built-in: 12m; with --full 45m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    budget: Option<Duration>,
    /// Limit the page cache of the database and of millrace's filers, in MiB, by memory control groups (needs root) [default: that of
    /// the plan; built-in: no limit]
    #[arg(long, value_name = "MIB", value_parser = whole("MiB", 1..=PAGE_CACHE_MIB_MAX, 512))]
    page_cache: Option<u64>,
    /// Seed of the first round [default: that of the plan; built-in: 1]
    #[arg(long, value_name = "N", value_parser = whole("", 0..=u64::MAX, 7))]
    seed: Option<u64>,
    /// One short round (5 s, 2 warehouses) to check that everything works; its figures are not a result
    #[arg(long)]
    quick: bool,
    /// Run every scenario of the plan with all repeats; those of the built-in plan: this host's own storage, a modelled array, a fixed
    /// load. Without --full the array gets one round and the fixed load is left out; --quick, --medium, --load and --users leave out both
    #[arg(long, conflicts_with_all = ["quick", "medium", "load"])]
    full: bool,
    /// Keep processors out of idle states during runs (needs root). Use it on a virtual machine whose idle processors wake up
    /// late
    #[arg(long)]
    keep_awake: bool,
    /// Don't fail if a figure misses a threshold of the plan
    #[arg(long)]
    no_gates: bool,
    /// An earlier results.json or its directory: fail if a path has fewer orders or a higher CPU cost per order and the
    /// 99 % interval of the difference excludes zero, or if a path of that record was not measured
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Fail if a path is worse than in its newest earlier record under the same conditions (load, medium, host, database, …;
    /// docs/lab.md)
    #[arg(long, value_enum, value_name = "WHICH")]
    against: Option<AgainstWhich>,
    /// Directory of the earlier records, at any depth [default: the directories beside --out]
    #[arg(long, value_name = "DIR", requires = "against")]
    history: Option<PathBuf>,
    /// Largest loss of orders, or growth of processor time per order, that --against accepts
    #[arg(long, value_name = "PERCENT", requires = "against", default_value = "5%", value_parser = percent)]
    threshold: f64,
    /// Record the storage's own latency beside the measured one: prometheus:http://HOST:PORT/api/v1/query?query=EXPRESSION, or
    /// prometheus:http://HOST:PORT/metrics#NAME (#SUM/COUNT for the two counters of a histogram)
    #[arg(long, value_name = "SOURCE")]
    metrics: Option<String>,
    /// Print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Directory for results.json and report.html; must be new or empty [default: millrace-results/TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue an interrupted comparison: the directory of its record, with the same plan and options
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// Directory below which the work directory is made
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
    /// Overwrite the named block devices (--path fc=…, block=…). Without it a device that holds data is refused
    #[arg(long)]
    overwrite_devices: bool,
    /// Run in a guest whose kernel has all storage clients (kernel NFS, open-iscsi, Fibre Channel). On an emulated processor only
    /// ratios and counts are meaningful (docs/guest.md)
    #[arg(long, conflicts_with_all = ["keep", "keep_awake"])]
    guest: bool,
    /// Directory of the guest's kernel [default: millrace/guest in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR", requires = "guest")]
    guest_cache: Option<PathBuf>,
    /// Keep the work directory with data and logs
    #[arg(long)]
    keep: bool,
    /// Directory of PostgreSQL's server programs [default: PATH, then the newest installed]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
    /// Install the database from the distribution if it is missing. Asks first; without a terminal --yes is needed
    #[arg(long, conflicts_with = "dry_run")]
    install: bool,
    /// Install without asking
    #[arg(long, requires = "install")]
    yes: bool,
    /// Read blocks of a file at a modest pace and print how long they took: what a comparison runs over each path
    #[arg(long, hide = true, value_name = "FILE")]
    read_probe: Option<PathBuf>,
    /// Print the record as JSON instead of the table
    #[arg(long, conflicts_with = "dry_run")]
    json: bool,
}

/// Runs `millrace compare`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("find this program's own file")?;
    match carry_out(&args, program) {
        Ok(code) => Ok(code),
        Err(error) => {
            let code = error.exit_code();
            print_error(&error.into());
            Ok(ExitCode::from(code))
        }
    }
}

fn carry_out(args: &Args, program: PathBuf) -> Result<ExitCode, LabError> {
    if let Some(file) = &args.read_probe {
        let record = lab::measure::probe::read_blocks(file)?;
        println!("{}", serde_json::json!(record));
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::read(args.plan.as_deref(), &overrides(args))?;
    // The program in the guest prints it, so it appears once.
    if let Some(file) = plan.in_place.as_deref().filter(|_| in_guest::is_inside()) {
        eprintln!("running {}, which the plan names for guests", file.display());
    }
    if args.install {
        install::install_missing(plan.database, args.pg_bin.as_deref(), args.yes)?;
    }
    let out = args.resume.clone().or_else(|| args.out.clone()).unwrap_or_else(default_out);
    if args.guest && !in_guest::is_inside() {
        in_guest::check_visible(args.plan.as_deref())?;
        in_guest::check_visible(args.gate.as_deref())?;
        return in_guest::run(args, &program, &out, &plan);
    }
    let request = Request {
        plan,
        work_base: args.work.clone(),
        out: out.clone(),
        resume: args.resume.is_some(),
        resumable: true,
        keep: args.keep,
        pg_bin: args.pg_bin.clone(),
        overwrite_devices: args.overwrite_devices,
        program,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("MILLRACE_COMMIT").map(str::to_owned),
        last: args.against.map(|AgainstWhich::Last| last(args, &out)),
        baseline: args.gate.as_deref().map(lab::record::read).transpose()?,
        metrics: args.metrics.as_deref().map(str::parse).transpose()?,
    };
    if args.dry_run {
        print!("{}", dry_run(&request)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Screen::new();
    let comparison = compare(&request, &mut |line| screen.show(line))?;
    for arm in comparison.against_last.iter().flat_map(|held| &held.arms) {
        eprintln!("against last: {}", arm.text);
    }
    if args.json {
        print!("{}", report::json(&comparison)?);
    } else {
        println!("\n{}", screen::report(&comparison));
        println!("{}\n{}", shown(&request.out, report::RECORD), shown(&request.out, report::PAGE));
    }
    Ok(ExitCode::from(exit_code(&comparison)))
}

fn overrides(args: &Args) -> Overrides {
    let mut paths = args.paths.clone();
    paths.extend(args.path.iter().cloned());
    let some = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    Overrides {
        database: args.database.clone(),
        paths: some(&paths),
        tunings: some(&args.tuning),
        layouts: some(&args.layout),
        media: some(&args.medium),
        loads: some(&args.load),
        warehouses: args.warehouses,
        users: args.users,
        seconds: args.seconds,
        warmup_seconds: args.warmup,
        repeats: args.repeats,
        page_cache_mib: args.page_cache,
        budget: args.budget,
        seed: args.seed,
        keep_awake: args.keep_awake,
        no_gates: args.no_gates,
        quick: args.quick,
        full: args.full,
        in_guest: args.guest || in_guest::is_inside(),
    }
}

/// Records that a comparison is held against.
#[derive(Clone, Copy, clap::ValueEnum)]
enum AgainstWhich {
    /// The newest earlier one of each path
    Last,
}

fn last(args: &Args, out: &Path) -> Last {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    Last {
        directory: args.history.clone().unwrap_or_else(|| parent.to_owned()),
        beside: args.history.is_none(),
        threshold_percent: args.threshold,
    }
}

/// `5%` or `5`: above 0 and below 100.
fn percent(text: &str) -> Result<f64, String> {
    let value = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    value
        .filter(|value| *value > 0.0 && *value < 100.0)
        .ok_or_else(|| "give percent above 0 and below 100, as in 5% or 2.5%".to_owned())
}

fn default_out() -> PathBuf {
    let time = lab::clock::utc_now().replace(':', "");
    Path::new("millrace-results").join(time)
}

fn shown(out: &Path, file: &str) -> String {
    out.join(file).display().to_string()
}

#[cfg(test)]
mod tests {
    use clap::Args as _;
    use lab::plan::DEFAULT_PLAN;

    use super::*;

    #[test]
    fn help_shows_the_values_of_the_built_in_plan() {
        let plan = Plan::parse(DEFAULT_PLAN, &Overrides::default()).unwrap();
        let paths: Vec<String> = plan.arms.iter().map(|arm| arm.path.name()).collect();
        let values = [
            ("paths", paths.join(",")),
            ("tuning", plan.arms[0].tuning.clone()),
            ("layout", plan.arms[0].layout.to_string()),
            ("warehouses", plan.warehouses.to_string()),
            ("users", plan.users.to_string()),
            ("seconds", plan.seconds.to_string()),
            ("warmup", plan.warmup_seconds.to_string()),
            ("repeats", plan.repeats.to_string()),
            ("budget", format!("{}m", plan.budget.as_secs() / 60)),
            ("seed", plan.seed.to_string()),
        ];
        let command = Args::augment_args(clap::Command::new("compare"));
        for (option, value) in values {
            let argument = command.get_arguments().find(|argument| argument.get_long() == Some(option)).unwrap();
            let help = argument.get_help().unwrap().to_string();
            let default = help.split("of the plan; built-in: ").nth(1).and_then(|rest| rest.split([']', ';']).next());
            assert_eq!(default, Some(value.as_str()), "--{option}: {help}");
        }
        assert_eq!((plan.page_cache_bytes, &plan.arms[0].medium), (None, &None));
    }
}
