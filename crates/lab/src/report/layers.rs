//! The layers of a storage path, from the driver to the medium, with the facts about each.

use results::compare::{Comparison, Run, SessionState};

use super::view::{Arm, read_source};
use super::words::{bytes, figure, grouped, micros};
use crate::database::kind::title_of;
use crate::judge;
use crate::paths;
use crate::paths::storage_path::{Layers, StoragePath};

/// One layer.
pub(crate) struct Layer {
    pub(crate) name: String,
    /// Figures and facts, one line each.
    pub(crate) facts: Vec<String>,
    /// Kind of time spent here, which determines its colour: `driver`, `database`, `storage` or `below`.
    pub(crate) kind: &'static str,
}

/// Parts of a session's time: the state, the words for it, kind of layer.
pub(crate) const TIMES: [(SessionState, &str, &str); 7] = [
    (SessionState::Running, "running in the database", "database"),
    (SessionState::Locks, "waiting for locks", "locks"),
    (SessionState::BlockReads, "reading blocks", "reads"),
    (SessionState::Log, "writing the log", "log"),
    (SessionState::DataWrites, "writing blocks", "writes"),
    (SessionState::Client, "waiting for the driver", "driver"),
    (SessionState::OtherWaits, "other waits", "other"),
];

/// Share of the sessions' time by index in [`TIMES`], mean over the runs; empty if not sampled.
pub(crate) fn session_time(runs: &[Run]) -> Vec<(usize, f64)> {
    let mut times: Vec<(usize, f64)> = Vec::new();
    for (state, share) in judge::session_time(runs) {
        let place = TIMES.iter().position(|(known, _, _)| *known == state).unwrap_or(TIMES.len() - 1);
        if share > 0.0 {
            times.push((place, share));
        }
    }
    times.sort_by_key(|(place, _)| *place);
    times
}

/// The layers of a configuration's path.
pub(crate) fn of(arm: &Arm<'_>, comparison: &Comparison) -> Vec<Layer> {
    let cost = |owner: &str| {
        let owner = arm.result.cpu.as_ref().and_then(|cpu| cpu.by_owner.get(owner))?;
        Some(format!("{} ms CPU per order", figure(owner.s_per_1000_orders)))
    };
    let mut driver = Vec::new();
    if let Some(users) = arm.result.users.or_else(|| Some(comparison.plan.users).filter(|users| *users > 0)) {
        driver.push(format!("{users} users, {} warehouses", comparison.plan.warehouses));
    }
    driver.extend(cost("driver"));
    let mut database = Vec::new();
    if let Some(io) = &arm.result.io {
        let buffers = bytes(comparison.plan.buffers_bytes as f64);
        database.push(format!("buffers {buffers}, {:.1} % hits", io.hit_ratio * 100.0));
    }
    database.extend(cost("database"));
    let mut layers = vec![
        Layer { name: "Order-entry driver".to_owned(), facts: driver, kind: "driver" },
        Layer { name: title_of(&comparison.plan.database).to_owned(), facts: database, kind: "database" },
    ];
    layers.extend(below(arm, comparison, cost("filer")));
    layers
}

/// The layers between the database and the medium, and the medium.
fn below(arm: &Arm<'_>, comparison: &Comparison, filer_cost: Option<String>) -> Vec<Layer> {
    // A record of another version may contain an unknown path.
    let unknown = Layers { file_system: None, client: "Client", network: None, server: None };
    let Layers { file_system, client, network, server } = paths::of(arm.result).map_or(unknown, StoragePath::layers);
    let file_system = paths::striped(arm.result).or_else(|| file_system.map(str::to_owned));
    let client = file_system.map_or_else(|| client.to_owned(), |above| format!("{above}, {client}"));
    let mut layers = vec![Layer { name: client, facts: client_facts(comparison, arm), kind: "storage" }];
    if let Some(network) = network {
        let wire = arm.result.wire_bytes_per_order.map(|wire| format!("{} per order", bytes(wire)));
        layers.push(Layer { name: network.to_owned(), facts: wire.into_iter().collect(), kind: "below" });
    }
    if let Some(server) = server {
        let mut facts = calls(&arm.result.runs);
        facts.extend(filer_cost);
        layers.push(Layer { name: server.to_owned(), facts, kind: "below" });
    }
    let store = &comparison.environment.store;
    let mut facts = Vec::new();
    if let Some(target) = &arm.result.target {
        facts.push(target.clone());
    } else if !store.file_system.is_empty() {
        facts.push(format!("{} on {}", store.file_system, store.device));
    }
    facts.push(arm.result.medium.as_ref().map_or_else(|| "no medium modelled".to_owned(), |medium| format!("medium {medium}")));
    let counted: Vec<_> = arm.result.runs.iter().filter_map(|run| run.medium.as_ref()).collect();
    if let Some(busiest) = counted.iter().max_by(|a, b| a.read_us.total_cmp(&b.read_us)) {
        facts.push(format!("model: read {}, flush {}", micros(busiest.read_us), micros(busiest.flush_us)));
    }
    layers.push(Layer { name: "Medium".to_owned(), facts, kind: "below" });
    layers
}

fn client_facts(comparison: &Comparison, arm: &Arm<'_>) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(io) = &arm.result.io {
        let (reads, writes) = (figure(io.reads_per_order), figure(io.writes_per_order));
        facts.push(format!("per order {reads} reads, {writes} writes"));
        facts.push(format!("log {} per order", bytes(io.log_bytes_per_order)));
    }
    if let Some(read) = &arm.result.block_read_us {
        facts.push(format!("block read {} mean{}", micros(read.mean), read_source(comparison, arm.result)));
    }
    if let Some(slots) = arm.result.slot_use.as_ref().filter(|slots| slots.calls > 0) {
        let of = if slots.slots > 0 { format!("of {}", slots.slots) } else { "unlimited".to_owned() };
        let most = if slots.max > 0 { format!(", {} max", slots.max) } else { String::new() };
        facts.push(format!("slots {of}: {} mean{most}", figure(slots.mean)));
    }
    facts
}

/// Calls answered by the filer, per order.
fn calls(runs: &[Run]) -> Vec<String> {
    let orders: u64 = runs.iter().map(|run| run.orders).sum();
    let one = |name: &str| runs.iter().filter_map(|run| run.filer.get(name)).map(|procedure| procedure.calls).sum::<u64>();
    // Procedures of NFS, commands of SCSI.
    let count = |name: &str| one(name) + one(&format!("SCSI-{name}"));
    let to_stable = if one("SCSI-FLUSH") > 0 { "FLUSH" } else { "COMMIT" };
    let all: u64 = runs.iter().flat_map(|run| run.filer.values()).map(|procedure| procedure.calls).sum();
    if orders == 0 || all == 0 {
        return Vec::new();
    }
    let each = |calls: u64| figure(calls as f64 / orders as f64);
    vec![
        format!("per order {} READ, {} WRITE", each(count("READ")), each(count("WRITE"))),
        format!("{} {to_stable}; {} calls in all", each(count(to_stable)), grouped(all as f64)),
    ]
}
