//! `list`: shows the attached LUNs.

use super::attached::{self, Attached, Daemon};
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

/// The state of an attachment: attached, unfinished or dead.
fn state(attached: &Attached) -> &'static str {
    match (attached.is_alive(), attached.record.device.is_some()) {
        (true, true) => "attached",
        (true, false) => "unfinished",
        (false, _) => "dead",
    }
}

fn object(attached: &Attached) -> Value {
    let record = &attached.record;
    let (pid, paths) = attached.pid_and_paths();
    let pid = attached.is_served().then_some(pid);
    // With open-iscsi the kernel counts requests elsewhere (/sys/block/NAME/stat), and there is no log.
    let daemon = record.kernel.is_none().then(|| attached.daemon().unwrap_or_default());
    let of = |count: fn(&Daemon) -> u64| daemon.as_ref().map(count);
    json!({"url": record.url, "lun": record.lun, "bytes": record.bytes, "block_bytes": record.block_bytes, "state": state(attached),
        "device": record.device, "mount": record.mount, "kind": attached.kind(), "client": attached.client(),
        "client_reason": record.client_reason, "pid": pid, "paths": paths, "requests": of(|daemon| daemon.requests),
        "failed": of(|daemon| daemon.failed), "commands_under_way_max": of(|daemon| daemon.commands_under_way_max as u64),
        "log": daemon.as_ref().map(|_| attached.log())})
}

fn print(attached: &Attached) {
    let record = &attached.record;
    let device = record.device.as_deref().unwrap_or("(no device)");
    let mount = record.mount.as_ref().map(|directory| format!(" at {}", directory.display())).unwrap_or_default();
    println!("{device}{mount}  {}  {}  {}", bytes_text(record.bytes), state(attached), record.url);
    let client = record.client_reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    println!("  by {}{client}", attached.client());
    if let Some(kernel) = &record.kernel {
        kernel.paths().iter().for_each(|path| println!("  {}  {}", path.portal, path.state));
        return;
    }
    if !attached.is_served() {
        println!("  the process that served it has ended ({}): every access fails; detach it", attached.log().display());
        return;
    }
    for path in attached.daemon().unwrap_or_default().paths {
        let trouble = super::trouble(path.downs, path.failures, path.last_error.as_deref());
        println!("  {}  {}{}", path.portal, path.state, trouble.map(|what| format!("; {what}")).unwrap_or_default());
    }
}
