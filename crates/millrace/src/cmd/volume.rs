//! `millrace volume`: questions and orders to a running filer, over its admin socket.

mod manage;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use results::filer_stats::FilerStats;
use serde_json::{Value, json};

use crate::complain::refusal;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    operation: Operation,
    /// The filer's admin socket, named when it starts with --json [default: what MILLRACE_ADMIN says]
    #[arg(long, value_name = "PATH", global = true)]
    admin: Option<PathBuf>,
    /// Print the filer's own answer, one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Operation {
    #[command(flatten)]
    Manage(manage::Order),
    /// Calls, bytes and flushes since the start
    Stats,
    /// Read the configuration file again; connections stay (needs serve --config)
    Reload,
    /// Take back everything not promised stable and drop all connections (needs serve --loss-layer)
    PowerCut,
    /// Stop cleanly
    Shutdown,
}

const AFTER_HELP: &str = "\
Examples:
  millrace volume list --admin /run/filer.sock
  millrace volume show data
  millrace volume create data --dir /srv/data --clients 10.1.0.0/16,::1 --quota 500GiB squash=none
  millrace volume resize data 2TiB
  millrace volume set data access=ro clients=10.1.0.0/16 quota=
  millrace volume stats --admin /run/filer.sock
  millrace volume reload --admin /run/filer.sock
  millrace volume power-cut --admin /run/filer.sock --json
  MILLRACE_ADMIN=/run/filer.sock millrace volume shutdown

Exit codes: 0 done; 1 the filer refused, nothing has changed; 2 no filer answers there, or the command makes no sense.";

impl Operation {
    /// What is said of it, and the line for the filer.
    fn request(&self) -> anyhow::Result<(&'static str, Value)> {
        Ok(match self {
            Self::Manage(order) => order.request()?,
            Self::Stats => ("stats", json!({"op": "stats"})),
            Self::Reload => ("reload", json!({"op": "reload"})),
            Self::PowerCut => ("power-cut", json!({"op": "power-cut"})),
            Self::Shutdown => ("shutdown", json!({"op": "shutdown"})),
        })
    }

    fn print(&self, reply: Value) -> anyhow::Result<()> {
        match self {
            Self::Manage(order) => order.print(reply)?,
            Self::Stats => print_stats(&serde_json::from_value(reply).context("cannot read the counters")?),
            Self::PowerCut => println!(
                "power cut: {} writes and {} changes of names or attributes taken back; loss epoch {}",
                reply["undone_writes"], reply["undone_names"], reply["loss_epoch"]
            ),
            Self::Reload => print_reloaded(&reply),
            Self::Shutdown => println!("stopping"),
        }
        Ok(())
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (op, request) = args.operation.request()?;
    let Some(admin) = args.admin.or_else(|| std::env::var_os("MILLRACE_ADMIN").map(PathBuf::from)) else {
        let hint = "name its admin socket with --admin PATH, or in MILLRACE_ADMIN";
        return Err(refusal(format!("cannot {op}: which filer is not said"), hint));
    };
    let line = ask(&admin, &request)?;
    let reply: Value = serde_json::from_str(&line).with_context(|| format!("cannot read the answer {line:?}"))?;
    if args.json {
        println!("{}", line.trim_end());
    }
    if reply["ok"] != json!(true) {
        let error = reply["error"].as_str().unwrap_or("no reason given");
        eprintln!("millrace: the filer refused to {op}: {error}");
        return Ok(ExitCode::from(1));
    }
    if !args.json {
        args.operation.print(reply)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One line there, one line back.
fn ask(admin: &Path, request: &Value) -> anyhow::Result<String> {
    let shown = admin.display();
    let mut stream = UnixStream::connect(admin).map_err(|error| {
        let hint = "start `millrace serve` first; with --json its first line names the admin socket";
        refusal(format!("cannot reach a filer at {shown}: {error}"), hint)
    })?;
    let talked = || format!("cannot talk to the filer at {shown}");
    writeln!(stream, "{request}").with_context(talked)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).with_context(talked)?;
    if line.is_empty() {
        return Err(anyhow!("the filer hung up without an answer")).with_context(talked);
    }
    Ok(line)
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
        println!("counts from the next start: {change}");
        said = true;
    }
    if !said {
        println!("nothing has changed");
    }
}

fn print_stats(stats: &FilerStats) {
    println!("pid {}, up {:.0} s, {} connections, {} flushes", stats.pid, stats.uptime_s, stats.connections, stats.flushes);
    println!("durability {}, cache {}", stats.durability, stats.cache);
    if let Some(flushes) = stats.flushes_per_acknowledged_write() {
        println!(
            "{} durable writes, {} of them direct; {flushes:.3} flushes per write or commit acknowledged, {} shared",
            stats.stable_writes, stats.direct_writes, stats.shared_flushes
        );
    }
    println!("verifier {}, loss epoch {}", stats.verifier, stats.loss_epoch);
    println!("{:<12} {:>12} {:>8} {:>16}", "procedure", "calls", "errors", "bytes");
    for (name, row) in stats.procedures.iter().filter(|(_, row)| row.calls > 0) {
        println!("{name:<12} {:>12} {:>8} {:>16}", row.calls, row.errors, row.bytes);
    }
}
