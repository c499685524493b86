//! `list`: what is attached.

use super::attached::{self, Attached};
use results::sizes::bytes_text;
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(super) struct List {
    /// Print one JSON array on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &List) -> anyhow::Result<()> {
    let all = attached::all()?;
    if args.json {
        let all: Vec<Value> = all.iter().map(object).collect();
        println!("{}", Value::Array(all));
        return Ok(());
    }
    if all.is_empty() {
        eprintln!("no LUN is attached (below {})", attached::root().display());
    }
    all.iter().for_each(print);
    Ok(())
}

/// `attached`, or what is wrong.
fn state(attached: &Attached) -> &'static str {
    match (attached.is_served(), attached.record.device.is_some()) {
        (true, true) => "attached",
        (true, false) => "unfinished",
        (false, _) => "dead",
    }
}

fn object(attached: &Attached) -> Value {
    let record = &attached.record;
    let daemon = attached.daemon().unwrap_or_default();
    let pid = attached.is_served().then_some(daemon.pid);
    json!({"url": record.url, "lun": record.lun, "bytes": record.bytes, "block_bytes": record.block_bytes, "state": state(attached),
        "device": record.device, "mount": record.mount, "kind": "fuse-loop", "pid": pid, "paths": daemon.paths,
        "requests": daemon.requests, "failed": daemon.failed, "commands_under_way_max": daemon.commands_under_way_max,
        "log": attached.log()})
}

fn print(attached: &Attached) {
    let record = &attached.record;
    let device = record.device.as_deref().unwrap_or("(no device)");
    let mount = record.mount.as_ref().map(|directory| format!(" at {}", directory.display())).unwrap_or_default();
    println!("{device}{mount}  {}  {}  {}", bytes_text(record.bytes), state(attached), record.url);
    if !attached.is_served() {
        println!("  the process that served it has ended ({}): every access fails; detach it", attached.log().display());
        return;
    }
    for path in attached.daemon().unwrap_or_default().paths {
        let trouble = super::trouble(path.downs, path.failures, path.last_error.as_deref());
        println!("  {}  {}{}", path.portal, path.state, trouble.map(|what| format!("; {what}")).unwrap_or_default());
    }
}
