//! From runs to findings: one result for each path, the comparison with the first, gates
//! and the sentence at the top. Pure: takes records, gives records.

use std::collections::BTreeMap;

use results::compare::{
    Against, BlockReadUs, Bottleneck, Checks, Cpu, Gate, Io, OwnerCpu, PathResult, PathStatus, ResponseMs, Run,
};
use results::histogram::ResponseTimes;
use results::orders_run::{OrdersRun, TransactionRecord};
use results::statistics::{Difference, MeanInterval};

use crate::limits::READS_PER_ORDER_MIN;
use crate::paths::StoragePath;
use crate::plan::Arm;
use crate::proof;

/// Share of the host that others may use before the figures are called disturbed.
const OTHERS_BUSY_MAX: f64 = 0.20;
/// Share of the host that is busy when the processors are the limit.
const HOST_BUSY_LIMIT: f64 = 0.90;

/// What is the same for every path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    /// Block size of the database in bytes.
    pub(crate) block_bytes: u64,
    /// Processors of the host.
    pub(crate) cpu_count: usize,
    /// Users of the load.
    pub(crate) users: u32,
    /// Size of the loaded database in bytes.
    pub(crate) database_bytes: u64,
    /// `shared_buffers` in bytes.
    pub(crate) buffers_bytes: u64,
}

/// An arm that was not run.
pub(crate) fn skipped(arm: &Arm, reason: &str) -> PathResult {
    PathResult {
        name: arm.path.kind.name().to_owned(),
        arm: arm.id.clone(),
        label: arm.path.label.clone(),
        target: arm.path.target.as_ref().map(ToString::to_string),
        medium: arm.medium.clone(),
        layout_name: Some(arm.layout.to_string()),
        load_level: Some(arm.load.to_string()),
        tuning: arm.tuning.clone(),
        status: PathStatus::Skipped,
        reason: Some(reason.to_owned()),
        ..PathResult::default()
    }
}

/// The result of an arm from its runs and the driver's records of them.
pub(crate) fn measured(arm: &Arm, runs: Vec<Run>, records: &[OrdersRun], common: Common) -> PathResult {
    let oets: Vec<f64> = runs.iter().map(|run| run.oets_per_minute).collect();
    let checks = join_checks(&runs);
    let proof = proof::join(&runs.iter().map(|run| &run.proof).collect::<Vec<_>>());
    let io = io(&runs, common);
    let cpu = cpu(&runs, common);
    let mut reasons = Vec::new();
    if let Some(proof) = proof.as_ref().filter(|proof| !proof.passed) {
        reasons.push(format!(
            "proof of path failed: the database read {} bytes, the path carried {} ({:.1} % apart, {} % allowed)",
            proof.database_read_bytes, proof.path_read_bytes, proof.difference_percent, proof.tolerance_percent
        ));
    }
    if checks.failed > 0 || checks.passed == 0 {
        reasons.push(format!("{} consistency checks failed", checks.failed));
    }
    if io.reads_per_order < READS_PER_ORDER_MIN {
        reasons.push(format!(
            "storage not exercised: {:.2} block reads per order; the buffers hold the database",
            io.reads_per_order
        ));
    }
    let damaged: u64 = runs.iter().map(|run| run.database.checksum_failures).sum();
    if damaged > 0 {
        reasons.push(format!("{damaged} blocks failed their checksum"));
    }
    let (reads, read_ms) = (sum(&runs, |run| run.database.blocks_read), total(&runs, |run| run.database.block_read_ms));
    PathResult {
        status: if reasons.is_empty() { PathStatus::Measured } else { PathStatus::NotValid },
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        oets_per_minute: MeanInterval::of(&oets),
        response_ms: response_ms(records),
        block_read_us: (reads > 0).then(|| BlockReadUs { mean: read_ms * 1e3 / reads as f64, ..BlockReadUs::default() }),
        bottleneck: Some(bottleneck(&runs, &cpu, &io, common)),
        cpu: Some(cpu),
        checks: Some(checks),
        io: Some(io),
        load: Some(load_words(records)),
        layout: Some(layout(arm.path.kind).to_owned()),
        caching: Some(caching(arm.path.kind, common)),
        users: records.first().map(|record| record.users),
        proof,
        runs,
        ..skipped(arm, "")
    }
}

/// Every measured path against the first one that was measured.
pub(crate) fn against_first(paths: &[PathResult]) -> Vec<Against> {
    let mut ran = paths.iter().filter_map(|path| Some((path, path.oets_per_minute.as_ref()?, path.cpu.as_ref()?)));
    let Some((first, first_oets, first_cpu)) = ran.next() else { return Vec::new() };
    ran.map(|(path, oets, cpu)| {
        let difference = oets.difference_from(first_oets);
        let ratio = share(oets.mean, first_oets.mean);
        let words = match difference {
            Difference::Shown => "the 95 % intervals do not overlap",
            Difference::NotShown => "no difference shown: the 95 % intervals overlap",
            Difference::Unknown => "one run each: no interval, no claim",
        };
        Against {
            first: first.arm.clone(),
            path: path.arm.clone(),
            oets_ratio: ratio,
            cpu_ratio: share(cpu.s_per_1000_orders, first_cpu.s_per_1000_orders),
            difference,
            text: format!("{} at {ratio:.2} x the OETs of {}; {words}", path.arm, first.arm),
            ..Against::default()
        }
    })
    .collect()
}

/// The gate on `dnfs`, when the plan has one and both sides ran.
pub(crate) fn gates(against: &[Against], dnfs_share_min: Option<f64>) -> Vec<Gate> {
    let of_dnfs = |arm: &str| arm.split([':', ' ']).next() == Some(StoragePath::Dnfs.name());
    let found = against.iter().find(|line| of_dnfs(&line.path));
    let gate = found.zip(dnfs_share_min).map(|(line, least)| Gate {
        promise: format!("OETs of dnfs at least {least} of those of {}", line.first),
        found: line.oets_ratio,
        least,
        passed: line.oets_ratio >= least,
    });
    gate.into_iter().collect()
}

/// What a reader of this path's figures must know.
pub(crate) fn notes(path: &PathResult) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(cpu) = path.cpu.as_ref().filter(|cpu| cpu.others_busy_share > OTHERS_BUSY_MAX) {
        let percent = cpu.others_busy_share * 100.0;
        notes.push(format!(
            "{}: processes outside the comparison used {percent:.0} % of the host while it was measured",
            path.arm
        ));
    }
    if path.io.as_ref().is_some_and(|io| io.checkpoints == 0) {
        notes.push(format!("{}: no checkpoint ended inside the measured intervals", path.arm));
    }
    let errors: u64 = path.response_ms.values().map(|response| response.errors).sum();
    if errors > 0 {
        notes.push(format!("{}: {errors} transactions ended with an error", path.arm));
    }
    notes
}

/// The sentence at the top.
pub(crate) fn verdict(paths: &[PathResult], against: &[Against]) -> String {
    let bad: Vec<&str> = paths.iter().filter(|path| path.status == PathStatus::NotValid).map(|path| path.arm.as_str()).collect();
    if !bad.is_empty() {
        return format!("Not valid: {} failed a proof or a check, so nothing may be concluded.", bad.join(" and "));
    }
    // The name of an arm begins with its path; what follows tells it from the others.
    let title = |arm: &str| {
        let (path, rest) = arm.split_at(arm.find([':', ' ']).unwrap_or(arm.len()));
        path.parse::<StoragePath>().map_or_else(|_| arm.to_owned(), |path| path.title().to_owned() + rest)
    };
    let figure = |name: &str| {
        let path = paths.iter().find(|path| path.arm == name);
        path.and_then(|path| path.oets_per_minute.as_ref()).map_or_else(String::new, interval_words)
    };
    let sentences: Vec<String> = against
        .iter()
        .map(|line| {
            let (path, first) = (title(&line.path), title(&line.first));
            let figures = format!("{} against {} orders per minute", figure(&line.path), figure(&line.first));
            let cpu = format!("and took {:.2} x the processor time for each order", line.cpu_ratio);
            let percent = line.oets_ratio * 100.0;
            match line.difference {
                Difference::Shown => format!("{path} did {percent:.0} % of the orders of {first} ({figures}) {cpu}."),
                Difference::NotShown => {
                    format!("No difference shown between {path} and {first} in orders ({figures}: the intervals overlap); {path} took {:.2} x the processor time for each order.", line.cpu_ratio)
                }
                Difference::Unknown => format!(
                    "{path} did {percent:.0} % of the orders of {first} ({figures}) {cpu}; one run each, so nothing is claimed."
                ),
            }
        })
        .collect();
    if !sentences.is_empty() {
        return sentences.join(" ");
    }
    match paths.iter().find(|path| path.oets_per_minute.is_some()) {
        Some(path) => format!("{} did {} orders per minute; no other path was measured.", title(&path.arm), figure(&path.arm)),
        None => "No path was measured.".to_owned(),
    }
}

/// `8,120 ± 310`, or the mean alone.
pub(crate) fn interval_words(interval: &MeanInterval) -> String {
    let mean = grouped(interval.mean);
    interval.ci95.map_or_else(|| mean.clone(), |half| format!("{mean} ± {}", grouped(half)))
}

/// A rounded number with commas between thousands.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("-{text}") } else { text }
}

fn join_checks(runs: &[Run]) -> Checks {
    // 12 conditions after each run: the record counts conditions, so the worst run stands.
    let worst = runs.iter().max_by_key(|run| run.checks.failed);
    let mut checks = worst.map(|run| run.checks.clone()).unwrap_or_default();
    checks.failures = runs.iter().flat_map(|run| run.checks.failures.clone()).collect();
    checks.passed = runs.iter().map(|run| run.checks.passed).min().unwrap_or(0);
    checks
}

fn response_ms(records: &[OrdersRun]) -> BTreeMap<String, ResponseMs> {
    type Pick = fn(&OrdersRun) -> &TransactionRecord;
    let transactions: [(&str, Pick); 5] = [
        ("new_order", |record| &record.transactions.new_order),
        ("payment", |record| &record.transactions.payment),
        ("order_status", |record| &record.transactions.order_status),
        ("delivery", |record| &record.transactions.delivery),
        ("stock_level", |record| &record.transactions.stock_level),
    ];
    let mut merged = BTreeMap::new();
    for (name, pick) in transactions {
        let mut times = ResponseTimes::new();
        let mut response = ResponseMs::default();
        for transaction in records.iter().map(pick) {
            if let Ok(part) = ResponseTimes::from_v2_base64(&transaction.histogram_v2_base64) {
                times.merge(&part);
            }
            response.count += transaction.count + transaction.rolled_back;
            response.errors += transaction.errors;
            response.retries += transaction.retries;
        }
        let us = times.summary();
        response.mean = us.mean / 1e3;
        response.p50 = us.p50 as f64 / 1e3;
        response.p90 = us.p90 as f64 / 1e3;
        response.p95 = us.p95 as f64 / 1e3;
        response.p99 = us.p99 as f64 / 1e3;
        response.p999 = us.p999 as f64 / 1e3;
        response.max = us.max as f64 / 1e3;
        merged.insert(name.to_owned(), response);
    }
    merged
}

fn cpu(runs: &[Run], common: Common) -> Cpu {
    let orders = sum(runs, |run| run.orders) as f64;
    let mut cpu = Cpu::default();
    for run in runs {
        for (owner, time) in &run.cpu {
            let entry: &mut OwnerCpu = cpu.by_owner.entry(owner.clone()).or_default();
            entry.user_s += time.user_s;
            entry.sys_s += time.sys_s;
            cpu.user_s += time.user_s;
            cpu.sys_s += time.sys_s;
        }
    }
    for entry in cpu.by_owner.values_mut() {
        entry.s_per_1000_orders = share((entry.user_s + entry.sys_s) * 1e3, orders);
    }
    let ours = cpu.user_s + cpu.sys_s;
    cpu.s_per_1000_orders = share(ours * 1e3, orders);
    let capacity = total(runs, |run| run.measured_s) * common.cpu_count as f64;
    let busy = total(runs, |run| run.host_busy_s);
    cpu.host_busy_share = share(busy, capacity).min(1.0);
    cpu.others_busy_share = share((busy - ours).max(0.0), capacity).min(1.0);
    cpu
}

fn io(runs: &[Run], common: Common) -> Io {
    let orders = sum(runs, |run| run.orders) as f64;
    let read = sum(runs, |run| run.database.blocks_read);
    let hit = sum(runs, |run| run.database.blocks_hit);
    let written = sum(runs, |run| run.database.blocks_written);
    let log = sum(runs, |run| run.database.log_bytes);
    let bytes = (read + written) * common.block_bytes + log;
    Io {
        reads_per_order: share(read as f64, orders),
        writes_per_order: share(written as f64, orders),
        log_bytes_per_order: share(log as f64, orders),
        bytes,
        read_share: share((read * common.block_bytes) as f64, bytes as f64),
        hit_ratio: share(hit as f64, (hit + read) as f64),
        in_flight_mean: share(total(runs, |run| run.database.block_read_ms) / 1e3, total(runs, |run| run.measured_s)),
        checkpoints: sum(runs, |run| run.database.checkpoints),
    }
}

fn bottleneck(runs: &[Run], cpu: &Cpu, io: &Io, common: Common) -> Bottleneck {
    let mut waits: BTreeMap<&str, f64> = BTreeMap::new();
    for run in runs {
        for (event, part) in &run.waits {
            *waits.entry(wait_class(event)).or_default() += part / runs.len() as f64;
        }
    }
    let mut order: Vec<(&str, f64)> = waits.into_iter().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> = order.iter().map(|(class, part)| format!("{class} {:.0} %", part * 100.0)).collect();
    let storage = order.iter().find(|(class, _)| matches!(*class, "storage_reads" | "log_writes" | "locks" | "data_writes"));
    let kind = if cpu.others_busy_share > OTHERS_BUSY_MAX {
        "interference"
    } else if cpu.host_busy_share >= HOST_BUSY_LIMIT {
        "cpu"
    } else {
        storage.filter(|(_, part)| *part >= 0.25).map_or("unclear", |(class, _)| class)
    };
    let evidence = format!(
        "host {:.0} % busy ({:.0} % by processes outside the comparison); {:.2} of {} users in a block read on average; \
         sessions sampled: {}",
        cpu.host_busy_share * 100.0,
        cpu.others_busy_share * 100.0,
        io.in_flight_mean,
        common.users,
        if words.is_empty() { "none".to_owned() } else { words.join(", ") },
    );
    Bottleneck { kind: kind.to_owned(), evidence, ..Bottleneck::default() }
}

/// Wait events of PostgreSQL by what is waited for.
fn wait_class(event: &str) -> &'static str {
    match event {
        "running" => "running",
        "IO:DataFileRead" | "IO:DataFilePrefetch" => "storage_reads",
        "LWLock:WALWrite" | "LWLock:WALInsert" => "log_writes",
        _ if event.starts_with("IO:WAL") => "log_writes",
        _ if event.starts_with("IO:DataFile") || event.starts_with("IO:SLRU") => "data_writes",
        _ if event.starts_with("Lock:") => "locks",
        _ if event.starts_with("Client:") => "driver",
        _ => "other",
    }
}

fn load_words(records: &[OrdersRun]) -> String {
    records.first().map_or_else(String::new, |record| {
        format!(
            "{} users without think time on {} driver threads, {} loop, {}, {} mix, {}",
            record.users, record.threads, record.load_model, record.terminals, record.mix, record.isolation
        )
    })
}

fn layout(path: StoragePath) -> &'static str {
    match path {
        StoragePath::Dnfs => "data, log and temporary files on one export of one filer, one loopback address",
        _ => "data, log and temporary files in one directory of the host's file system",
    }
}

fn caching(path: StoragePath, common: Common) -> String {
    let (buffers, database) = (common.buffers_bytes >> 20, common.database_bytes >> 20);
    let below = match path {
        StoragePath::Dnfs => {
            "the client keeps no data; reads may be served from the page cache of the filer's host, which is this host"
        }
        _ => "reads may be served from this host's page cache",
    };
    format!(
        "{buffers} MiB of database buffers for a database of {database} MiB; below them {below}; the restored state was just written, so much of it is warm"
    )
}

fn sum(runs: &[Run], pick: impl Fn(&Run) -> u64) -> u64 {
    runs.iter().map(pick).sum()
}

fn total(runs: &[Run], pick: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(pick).sum()
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
