//! Computes the figures of a configuration from its runs. Pure: takes and returns records.

use std::collections::BTreeMap;

use results::compare::{BlockReadUs, Checks, Cpu, Io, OwnerCpu, PathResult, PathStatus, ResponseMs, Run, RunLoad};
use results::histogram::ResponseTimes;
use results::judgement::{ArrayLatency, ReadLatency, SlotUse};
use results::orders_run::{OrdersRun, TransactionRecord};
use results::statistics::MeanInterval;

use crate::database::kind::DatabaseKind;
use crate::judge;
use crate::limits::READS_PER_ORDER_MIN;
use crate::measure::cache_class;
use crate::measure::{proof, traffic};
use crate::plan::{Arm, Layout};

/// Values that are the same for every path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    /// The database.
    pub(crate) database: DatabaseKind,
    /// Whether it bypasses the page cache of its own host for its data files.
    pub(crate) past_page_cache: bool,
    /// Block size of the database in bytes.
    pub(crate) block_bytes: u64,
    /// Processors of the host.
    pub(crate) cpu_count: usize,
    /// Size of the loaded database in bytes.
    pub(crate) database_bytes: u64,
    /// Buffers of the database in bytes.
    pub(crate) buffers_bytes: u64,
    /// Upper limit of the page cache of the database and of each of Millrace's filers; `None` for no limit.
    pub(crate) page_cache_bytes: Option<u64>,
}

/// The result of a configuration that was not run.
pub(crate) fn skipped(arm: &Arm, reason: &str) -> PathResult {
    PathResult {
        name: arm.path.kind.name().to_owned(),
        arm: arm.id.clone(),
        label: arm.path.label.clone(),
        client: arm.path.kind.client().map(str::to_owned),
        target: arm.path.target.clone(),
        medium: arm.medium.clone(),
        layout_name: Some(arm.layout.to_string()),
        load_level: Some(arm.load.to_string()),
        tuning: arm.tuning.clone(),
        status: PathStatus::Skipped,
        reason: Some(reason.to_owned()),
        ..PathResult::default()
    }
}

/// The result of a configuration, from its runs and the driver's records.
pub(crate) fn measured(arm: &Arm, mut runs: Vec<Run>, records: &[OrdersRun], common: Common) -> PathResult {
    for (run, record) in runs.iter_mut().zip(records) {
        run.load = Some(run_load(record));
    }
    let caching = cache_class::class_of(arm, common.page_cache_bytes, common.past_page_cache);
    let checks = join_checks(&runs);
    let proof = proof::join(&runs.iter().map(|run| &run.proof).collect::<Vec<_>>());
    let io = io(&runs, common);
    let cpu = cpu(&runs, common);
    let mut reasons = Vec::new();
    if let Some(proof) = proof.as_ref().filter(|proof| proof.has_failed()) {
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
    let not_archived = sum(&runs, |run| run.database.log_archive_failures);
    if not_archived > 0 {
        reasons.push(format!("log segments could not be archived {not_archived} times"));
    }
    let damaged: u64 = runs.iter().map(|run| run.database.checksum_failures).sum();
    if damaged > 0 {
        reasons.push(format!("{damaged} blocks failed their checksum"));
    }
    let (reads, read_ms) = (sum(&runs, |run| run.database.blocks_read), total(&runs, |run| run.database.block_read_ms));
    let read_latency = read_latency(&runs);
    let mut result = PathResult {
        status: if reasons.is_empty() { PathStatus::Measured } else { PathStatus::NotValid },
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        response_ms: response_ms(records),
        block_read_us: (reads > 0).then(|| block_read(read_ms * 1e3 / reads as f64, read_latency.as_ref())),
        read_latency,
        slot_use: slot_use(&runs),
        array_latency: array_latency(&runs),
        context_switches_per_order: context_switches(&runs),
        wire_bytes_per_order: wire_bytes(&runs),
        cpu: Some(cpu),
        checks: Some(checks),
        io: Some(io),
        traffic: traffic::of(&runs, common.block_bytes),
        load: Some(load_words(records)),
        layout: Some(layout(arm)),
        caching: Some(cache_class::words(&caching, common.buffers_bytes, common.database_bytes)),
        caching_class: Some(caching.class),
        read_probe: runs.iter().find_map(|run| run.probe.clone()),
        users: records.first().map(|record| record.users),
        proof,
        runs,
        ..skipped(arm, "")
    };
    result.oets_per_minute = MeanInterval::of_runs(&judge::oets(&result));
    judge::judge_alone(&mut result, common.database);
    result
}

/// Figures of the load of a run.
pub(crate) fn run_load(record: &OrdersRun) -> RunLoad {
    let all = &record.transactions;
    let kinds = [&all.new_order, &all.payment, &all.order_status, &all.delivery, &all.stock_level];
    let timed = |transaction: &TransactionRecord| (transaction.count + transaction.rolled_back) as f64;
    RunLoad {
        model: record.load_model.as_str().into(),
        users: record.users,
        connections: if record.connections == 0 { record.users } else { record.connections },
        transactions: kinds.iter().map(|kind| kind.count + kind.rolled_back + kind.errors).sum(),
        service_s: kinds.iter().map(|kind| timed(kind) * kind.service_us.mean / 1e6).sum(),
        response_s: kinds.iter().map(|kind| timed(kind) * kind.response_us.mean / 1e6).sum(),
        retries: kinds.iter().map(|kind| kind.retries).sum(),
        threads: record.threads,
        active_warehouses: if record.active_warehouses == 0 { record.warehouses } else { record.active_warehouses },
    }
}

/// Mean by the database's clock; percentiles by the NFS client's, if it timed the reads.
fn block_read(mean: f64, latency: Option<&ReadLatency>) -> BlockReadUs {
    let quantile = |share| latency.and_then(|latency| latency.quantile_us(share));
    BlockReadUs { mean, p50: quantile(0.5), p99: quantile(0.99) }
}

fn read_latency(runs: &[Run]) -> Option<ReadLatency> {
    let mut whole = ReadLatency::default();
    runs.iter().filter_map(|run| run.read_latency.as_ref()).for_each(|run| whole.merge(run));
    (whole.count > 0).then_some(whole)
}

/// Slots over all runs: means are weighted by time.
fn slot_use(runs: &[Run]) -> Option<SlotUse> {
    let mut whole: Option<SlotUse> = None;
    let mut seconds = 0.0;
    for run in runs {
        let Some(one) = &run.slot_use else { continue };
        let sum = whole.get_or_insert_with(SlotUse::default);
        sum.slots = one.slots;
        sum.mean += one.mean * run.measured_s;
        sum.max = sum.max.max(one.max);
        sum.waits += one.waits;
        sum.wait_s += one.wait_s;
        sum.calls += one.calls;
        seconds += run.measured_s;
    }
    whole.map(|sum| SlotUse { mean: share(sum.mean, seconds), ..sum })
}

/// Mean of the runs' means.
fn array_latency(runs: &[Run]) -> Option<ArrayLatency> {
    let told: Vec<&ArrayLatency> = runs.iter().filter_map(|run| run.array_latency.as_ref()).collect();
    let mean_us = told.iter().map(|one| one.mean_us).sum::<f64>() / told.len() as f64;
    told.first().map(|one| ArrayLatency { source: one.source.clone(), mean_us })
}

fn context_switches(runs: &[Run]) -> BTreeMap<String, f64> {
    let orders = sum(runs, |run| run.orders) as f64;
    let mut switches: BTreeMap<String, f64> = BTreeMap::new();
    for (owner, count) in runs.iter().flat_map(|run| &run.context_switches) {
        *switches.entry(owner.clone()).or_default() += share(*count as f64, orders);
    }
    switches
}

fn wire_bytes(runs: &[Run]) -> Option<f64> {
    let bytes: Vec<u64> = runs.iter().filter_map(|run| run.wire.as_ref()).map(|wire| wire.bytes).collect();
    (!bytes.is_empty()).then(|| share(bytes.iter().sum::<u64>() as f64, sum(runs, |run| run.orders) as f64))
}

/// Formats `8,120 ± 310`, or the mean alone.
pub(crate) fn interval_words(interval: &MeanInterval) -> String {
    let mean = grouped(interval.mean);
    interval.ci95.map_or_else(|| mean.clone(), |half| format!("{mean} ± {}", grouped(half)))
}

/// Formats a rounded number with commas between thousands.
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
    // 12 conditions after each run: the record counts conditions, so the worst run is used.
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
    // The mean of the runs, as for the orders, so that `diff` and `history` compute the same value.
    let counted = runs.iter().filter(|run| run.orders > 0).count() as f64;
    let mut cpu = Cpu::default();
    for run in runs {
        for (owner, time) in &run.cpu {
            let entry: &mut OwnerCpu = cpu.by_owner.entry(owner.clone()).or_default();
            entry.user_s += time.user_s;
            entry.sys_s += time.sys_s;
            entry.s_per_1000_orders += share(share(time.total_s() * 1e3, run.orders as f64), counted);
            cpu.user_s += time.user_s;
            cpu.sys_s += time.sys_s;
        }
    }
    let ours = cpu.user_s + cpu.sys_s;
    cpu.s_per_1000_orders = cpu.by_owner.values().map(|owner| owner.s_per_1000_orders).sum();
    cpu.s_per_1000_orders_without_filer = Some(cpu.without_filer_s_per_1000_orders());
    let capacity = total(runs, |run| run.measured_s) * common.cpu_count as f64;
    let busy = total(runs, |run| run.host_busy_s);
    cpu.host_busy_share = share(busy, capacity).min(1.0);
    let stolen = total(runs, |run| run.host_stolen_s);
    cpu.others_busy_share = share((busy - ours - stolen).max(0.0), capacity).min(1.0);
    cpu.stolen_share = share(stolen, busy).min(1.0);
    cpu.softirq_s = total(runs, |run| run.softirq_s);
    cpu.softirq_s_per_1000_orders = share(cpu.softirq_s * 1e3, orders);
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

fn load_words(records: &[OrdersRun]) -> String {
    records.first().map_or_else(String::new, |record| {
        format!(
            "{} users without think time on {} driver threads, {} loop, {}, {} mix, {}",
            record.users, record.threads, record.load_model, record.terminals, record.mix, record.isolation
        )
    })
}

fn layout(arm: &Arm) -> String {
    let luns = arm.layout.luns();
    let striped = arm.path.kind.striped(luns).filter(|_| luns > 1);
    let place = striped.map_or_else(
        || arm.path.kind.files_lie(arm.path.target.is_some()).to_owned(),
        |striped| format!("{striped} of Millrace's own filer on this host, raid0, files updated in place"),
    );
    let parts = match arm.layout {
        Layout::One | Layout::Luns(_) => "data, log and temporary files together".to_owned(),
        Layout::Split => "data and temporary files apart from the log".to_owned(),
        Layout::SplitArchive => {
            "data and temporary files, the log, and copies of its finished segments on a volume each".to_owned()
        }
        Layout::Filers(count) => format!("tables and indexes spread evenly over {count} volumes, the log on the first"),
        Layout::Mounts(count) => {
            format!(
                "tables and indexes spread evenly over {count} mounts of one volume, each by an address of its own, the log on the first"
            )
        }
    };
    format!("{parts}; {place}")
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
