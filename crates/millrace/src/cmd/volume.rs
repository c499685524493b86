//! `millrace volume`: requests to a running filer, over its admin socket.

mod admin_socket;
mod manage;
mod running;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use results::filer_stats::FilerStats;
use serde_json::{Value, json};
use volume::faults::{FaultInjection, FaultReport, FaultSpec};

use admin_socket::ask;

use super::values::whole;
use crate::error_printing::{as_cause, print_error, refusal};

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    operation: Operation,
    /// The filer's admin socket; `millrace serve` prints its path [default: MILLRACE_ADMIN, else the socket of the only filer
    /// that this user runs]
    #[arg(long, value_name = "PATH", global = true)]
    admin: Option<PathBuf>,
    /// Print the filer's reply, one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Operation {
    #[command(flatten)]
    Manage(manage::Order),
    /// Show calls, bytes and flushes since the start
    Stats,
    /// Read the configuration file again; connections stay (needs serve --config)
    Reload,
    /// Simulate a power cut of the filer: discard every write and change of all its volumes that is not on stable storage, and
    /// close all connections (needs serve --loss-layer, or loss_layer = true in the file)
    PowerCut,
    /// Copy a volume as a power cut now would leave it; the volume stays in service (needs serve --loss-layer, or
    /// loss_layer = true in the file)
    PowerCutCopy {
        /// The volume
        volume: String,
        /// Destination: an empty directory, or one to create
        dir: PathBuf,
    },
    /// Inject faults: add, list, clear
    Fault {
        #[command(subcommand)]
        order: FaultOrder,
        /// The volume [default: the only one]
        #[arg(long, value_name = "NAME", global = true)]
        volume: Option<String>,
    },
    /// Ask the filer to stop; its process ends after the last flush, which `serve` reports
    Shutdown,
}

#[derive(clap::Subcommand)]
enum FaultOrder {
    /// Add a fault: KIND,key=value,… (docs/faults.md)
    Add {
        /// Such as eio,on=write,path=base/5/1259,rate=0.01,seed=7
        fault: String,
    },
    /// List the faults and how many calls each has hit
    List,
    /// Clear one fault, or all
    Clear {
        /// Number of the fault, as `list` prints it [default: all]
        #[arg(value_parser = whole("", 0..=u64::MAX, 3))]
        id: Option<u64>,
    },
}

const AFTER_HELP: &str = "\
Examples:
  millrace volume list                            (of the only filer this user runs)
  millrace volume list --admin /run/filer.sock
  millrace volume show data
  millrace volume create data --dir /srv/data --clients 10.1.0.0/16,::1 --quota 500GiB squash=none
  millrace volume resize data 2TiB
  millrace volume set data access=ro clients=10.1.0.0/16 quota=
  millrace volume stats --admin /run/filer.sock
  millrace volume reload --admin /run/filer.sock
  millrace volume power-cut --admin /run/filer.sock --json
  millrace volume fault add slow-flush,delay_ms=50,rate=0.1,seed=7
  millrace volume fault add eio,on=flush,after=100,times=1
  millrace volume fault list
  millrace volume fault clear
  millrace volume power-cut-copy vol /tmp/after-the-cut
  MILLRACE_ADMIN=/run/filer.sock millrace volume shutdown

Exit codes: 0 done; 1 the filer refused, and its settings are as before; 2 no filer answers, several
run and --admin does not choose one, or an argument is wrong.";

impl Operation {
    /// The phrase for its errors, and the request to the filer.
    fn request(&self) -> anyhow::Result<(String, Value)> {
        Ok(match self {
            Self::Manage(order) => order.request()?,
            Self::Stats => ("read the counters of the filer".into(), json!({"op": "stats"})),
            Self::Reload => ("have the filer read its file again".into(), json!({"op": "reload"})),
            Self::PowerCut => ("cut the power of the filer".into(), json!({"op": "power-cut"})),
            Self::Shutdown => ("stop the filer".into(), json!({"op": "shutdown"})),
            Self::PowerCutCopy { volume, dir } => {
                let to = std::path::absolute(dir).with_context(|| format!("find {}", dir.display()))?;
                let phrase = format!("copy volume {volume} to {} as a power cut would leave it", dir.display());
                (phrase, json!({"op": "power-cut-copy", "volume": volume, "to": to}))
            }
            Self::Fault { order, volume } => {
                let (phrase, op, key, value) = match order {
                    FaultOrder::Add { fault } => (format!("set the fault {fault}"), "fault-add", "fault", json!(parse(fault)?)),
                    FaultOrder::List => ("list the faults".into(), "fault-list", "id", Value::Null),
                    FaultOrder::Clear { id: None } => ("clear all faults".into(), "fault-clear", "id", Value::Null),
                    FaultOrder::Clear { id: Some(id) } => (format!("clear fault {id}"), "fault-clear", "id", json!(id)),
                };
                (phrase, json!({"op": op, "volume": volume, key: value}))
            }
        })
    }

    fn print(&self, reply: Value) -> anyhow::Result<()> {
        match self {
            Self::Manage(order) => order.print(reply)?,
            Self::Stats => print_stats(&serde_json::from_value(reply).context("read the counters")?),
            Self::PowerCut => println!(
                "power cut of {}: {} writes and {} changes of names or attributes discarded; loss epoch {}",
                volumes(&reply["volumes"]),
                reply["undone_writes"],
                reply["undone_names"],
                reply["loss_epoch"]
            ),
            Self::PowerCutCopy { dir, .. } => println!(
                "copied {} objects, {} bytes, to {}: {} writes and {} changes of names or attributes are missing there",
                reply["objects"],
                reply["bytes"],
                dir.display(),
                reply["undone_writes"],
                reply["undone_names"]
            ),
            Self::Fault { order: FaultOrder::Add { .. }, .. } => println!("fault {} set", reply["id"]),
            Self::Fault { order: FaultOrder::Clear { .. }, .. } => println!("{} cleared", reply["cleared"]),
            Self::Fault { order: FaultOrder::List, .. } => {
                print_faults(&serde_json::from_value(reply["report"].clone()).context("read the faults")?);
            }
            Self::Reload => print_reloaded(&reply),
            Self::Shutdown => println!("stopping; the process ends after the last flush"),
        }
        Ok(())
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (phrase, request) = args.operation.request()?;
    let Some(reply) = order(args.admin, args.json, &phrase, &request)? else { return Ok(ExitCode::from(1)) };
    if !args.json {
        args.operation.print(reply)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends a request to a filer. If the filer refuses, prints the reason on stderr and returns
/// `None`; otherwise prints the reply as it is if `prints` is set. `phrase` completes "cannot".
///
/// # Errors
/// No filer answers, or several run and the user chose none of them.
pub(super) fn order(admin: Option<PathBuf>, prints: bool, phrase: &str, request: &Value) -> anyhow::Result<Option<Value>> {
    let admin = match admin.or_else(|| std::env::var_os("MILLRACE_ADMIN").filter(|path| !path.is_empty()).map(PathBuf::from)) {
        Some(named) => named,
        None => running::only_admin_socket(phrase)?,
    };
    let line = ask(&admin, request)?;
    let reply: Value = serde_json::from_str(&line).with_context(|| format!("read the answer {line:?}"))?;
    if reply["ok"] != json!(true) {
        let error = reply["error"].as_str().unwrap_or("no reason given");
        print_error(&anyhow!("{phrase}: the filer refused: {}", as_cause(error)));
        return Ok(None);
    }
    if prints {
        println!("{}", line.trim_end());
    }
    Ok(Some(reply))
}

fn parse(text: &str) -> anyhow::Result<FaultSpec> {
    let hint = "as in eio,on=write,path=base/5/1259,rate=0.01,seed=7; more in `millrace help volume fault`";
    FaultSpec::parse(text).map_err(|error| refusal(format!("set the fault {text}: {error}"), hint))
}

fn print_reloaded(reply: &Value) {
    let names = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let mut said = false;
    for what in ["added", "removed", "changed"] {
        let volumes = names(&reply["volumes"][what]);
        if !volumes.is_empty() {
            println!("{what}: {}", volumes.join(", "));
            said = true;
        }
    }
    for change in names(&reply["at_next_start"]) {
        println!("takes effect at the next start: {change}");
        said = true;
    }
    if !said {
        println!("nothing has changed");
    }
}

/// The names of the volumes in a reply. A filer of an earlier version sends none.
fn volumes(names: &Value) -> String {
    let names: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "all volumes".to_owned() } else { names.join(", ") }
}

fn print_stats(stats: &FilerStats) {
    println!("pid {}, up {:.0} s, {} connections", stats.pid, stats.uptime_s, stats.connections);
    let of_names = stats.flushes.saturating_sub(stats.data_flushes);
    println!("{} flushes of data, {of_names} of names and attributes", stats.data_flushes);
    println!("durability {}, cache {}", stats.durability, stats.cache);
    if let Some(flushes) = stats.flushes_per_acknowledged_write() {
        println!(
            "{} durable writes, {} of them direct; {flushes:.3} flushes of data per write or commit acknowledged, {} shared",
            stats.stable_writes, stats.direct_writes, stats.shared_flushes
        );
    }
    println!("verifier {}, loss epoch {}", stats.verifier, stats.loss_epoch);
    if stats.poisoned {
        println!("POISONED: a flush failed, no write is acknowledged as stable until the filer is restarted");
    }
    if !stats.faults.is_empty() {
        println!("injected faults: {}", stats.faults.join(", "));
    }
    println!("{:<12} {:>12} {:>8} {:>16} {:>10} {:>10}", "procedure", "calls", "errors", "bytes", "p50 us", "p99 us");
    for (name, row) in stats.procedures.iter().chain(&stats.scsi).filter(|(_, row)| row.calls > 0) {
        let took = row.latency.unwrap_or_default();
        let (calls, errors, bytes) = (row.calls, row.errors, row.bytes);
        println!("{name:<12} {calls:>12} {errors:>8} {bytes:>16} {:>10.1} {:>10.1}", took.p50_us, took.p99_us);
    }
}

fn print_faults(report: &FaultReport) {
    for set in &report.faults {
        println!("{:>4}  {}: injected into {} of {} matching operations", set.id, set.fault, set.injected, set.matched);
    }
    let latest = if report.injections.is_empty() { String::new() } else { format!("; the latest {}:", report.injections.len()) };
    let word = if report.injected == 1 { "injection" } else { "injections" };
    println!("{} {word} since the volume was opened{latest}", report.injected);
    for FaultInjection { id, kind, nth, on, file, offset, length, detail } in &report.injections {
        let place = |word: &str, value: &Option<u64>| value.map_or_else(String::new, |value| format!(" {word} {value}"));
        let (file, offset, length) = (place("file", file), place("at", offset), place("bytes", length));
        let line = format!("{id:>4}  {} of {on} {nth}{file}{offset}{length} {detail}", kind.name());
        println!("{}", line.trim_end());
    }
}
