//! The example record: a comparison in which invented, seeded figures fill every part, for tests of the page and for viewing.
//!
//! Nothing in it was measured, and the verdict says so. It depends only on `results`, so that the
//! browser test can use the same file.

// Included by path, because the browser test uses this file separately.
#[path = "example/across_arms.rs"]
mod across_arms;
#[path = "example/inputs.rs"]
mod inputs;
#[path = "example/regimes.rs"]
mod regimes;

use std::collections::BTreeMap;

use media::Random;
use results::compare::{
    BlockReadUs, Bottleneck, Checks, Comparison, Cpu, CpuTime, DatabaseCounters, Gate, Io, OwnerCpu, PathResult, PathStatus,
    ProcedureCount, Proof, ResponseMs, Run, SCHEMA, Traffic,
};
use results::judgement::{Little, ReadLatency, SlotUse, Steady};
use results::orders_run::{Conform, ConformItem, SeriesSecond};
use results::statistics::MeanInterval;

use across_arms::{against, curve, environment, ladder, plan, predictions, tunings};
pub(crate) use inputs::Size;
use inputs::{KINDS, Kind};
pub(crate) use regimes::with_regimes;

/// The example for a seed.
pub(crate) fn comparison(seed: u64, size: Size) -> Comparison {
    let mut chance = Random::new(seed);
    let media: &[Option<&str>] = if size.media { &[None, Some("fc15k,spindles=80")] } else { &[None] };
    let mut paths = Vec::new();
    for (slower, medium) in media.iter().enumerate() {
        for kind in KINDS {
            let factor = if slower > 0 { 0.46 } else { 1.0 };
            let kind = Kind { orders_per_s: kind.orders_per_s * factor, read_us: kind.read_us / factor / factor, ..kind };
            paths.push(path(kind, *medium, size, &mut chance));
        }
    }
    paths.push(PathResult {
        name: "iscsi".into(),
        arm: "iscsi".into(),
        tuning: "untuned".into(),
        reason: Some("not built yet: needs the iSCSI target and initiator of a later version".into()),
        ..PathResult::default()
    });
    let arms: Vec<String> = paths.iter().map(|path| path.arm.clone()).collect();
    Comparison {
        schema: SCHEMA,
        kind: "compare".into(),
        started_utc: "2026-11-21T04:00:00Z".into(),
        elapsed_s: 1_284.0,
        rehearsal: true,
        rehearsal_note: "REHEARSAL: filer, database and driver share this host, so this compares mechanisms, not products".into(),
        disclaimer: "derived from the TPC-C specification; not comparable to published TPC-C results"
            .into(),
        verdict: "EXAMPLE with invented figures: Direct NFS, tuned: 87 % of the orders per minute of local disk (95 % interval 85 to 89 %), 1.31 x the \
                  CPU per order; tuning brought 1.44 x on Direct NFS and 1.22 x on local disk."
            .into(),
        valid: true,
        notes: vec!["every figure of this record is invented: it shows the page, it says nothing about storage".into()],
        against_first: against(&paths),
        predictions: predictions(),
        curve: curve(&mut chance),
        ladder: ladder(&mut chance),
        tunings: tunings(),
        gates: vec![Gate {
            promise: "orders per minute of dnfs at least 0.6 of those of local".into(),
            found: 0.87,
            least: 0.6,
            passed: true,
        }],
        plan: plan(arms, size),
        environment: environment(),
        paths,
        ..Comparison::default()
    }
}

fn processor_time(kind: Kind) -> Cpu {
    let mut cpu = Cpu { s_per_1000_orders: kind.cpu_ms, host_busy_share: 0.91, others_busy_share: 0.02, ..Cpu::default() };
    cpu.softirq_s_per_1000_orders = if kind.path == "dnfs" { 0.11 } else { 0.004 };
    cpu.softirq_s = cpu.softirq_s_per_1000_orders * 90.0;
    for (owner, user, sys) in owners(kind) {
        let entry = OwnerCpu { user_s: user * 90.0, sys_s: sys * 90.0, s_per_1000_orders: user + sys };
        cpu.by_owner.insert(owner.into(), entry);
    }
    cpu
}

fn traffic(kind: Kind) -> Traffic {
    let (reads_per_s, writes_per_s) = (kind.orders_per_s * 6.4, kind.orders_per_s * 5.8);
    Traffic {
        source: if kind.path == "dnfs" { "filer".into() } else { "database".into() },
        seconds: 90.0,
        reads_per_s,
        read_mib_per_s: reads_per_s / 128.0,
        read_bytes: (reads_per_s * 90.0 * 8192.0) as u64,
        writes_per_s,
        written_mib_per_s: writes_per_s / 128.0,
        written_bytes: (writes_per_s * 90.0 * 8192.0) as u64,
        log_flushes_per_s: kind.orders_per_s / 3.0,
        log_flush_ms: Some(1.42),
        ..Traffic::default()
    }
}

fn path(kind: Kind, medium: Option<&str>, size: Size, chance: &mut Random) -> PathResult {
    let runs: Vec<Run> = (1..=size.repeats).map(|round| run(kind, round, size, chance)).collect();
    let oets: Vec<f64> = runs.iter().map(|run| run.oets_per_minute).collect();
    let cpu = processor_time(kind);
    let name = medium.map_or_else(String::new, |medium| format!(" {medium}"));
    PathResult {
        name: kind.path.into(),
        arm: format!("{} {}{name}", kind.path, kind.tuning),
        tuning: kind.tuning.into(),
        medium: medium.map(str::to_owned),
        layout_name: Some("split".into()),
        status: PathStatus::Measured,
        oets_per_minute: MeanInterval::of(&oets),
        response_ms: responses(8_000.0 / kind.orders_per_s),
        block_read_us: Some(BlockReadUs { mean: kind.read_us, ..BlockReadUs::default() }),
        read_latency: (kind.path == "dnfs").then(|| spread(kind.read_us, chance)),
        slot_use: (kind.path == "dnfs").then(slots),
        cpu: Some(cpu),
        checks: Some(Checks { passed: 12, failed: 0, failures: Vec::new() }),
        bottleneck: Some(bottleneck(kind)),
        io: Some(Io {
            reads_per_order: 6.4,
            writes_per_order: 5.1,
            log_bytes_per_order: 30_180.0,
            bytes: 8_014_000_381,
            read_share: 0.38,
            hit_ratio: 0.982,
            in_flight_mean: 1.21,
            checkpoints: u64::from(size.repeats),
        }),
        users: Some(8),
        load: Some("8 users without think time on 2 driver threads, closed loop, deck mix, read committed".into()),
        layout: Some("data and log on two exports of one filer".into()),
        caching: Some("214 MiB of buffers for a database of 854 MiB; below them the page cache held small".into()),
        caching_class: Some("direct".into()),
        steady: Some(Steady {
            passed: true,
            drift_percent: 3.1,
            range_percent: 7.9,
            dropped_s: 0.0,
            checkpoints: u64::from(size.repeats),
            text: "steady in every run".into(),
            ..Steady::default()
        }),
        little: vec![Little {
            subject: "transactions".into(),
            in_flight_predicted: 7.97,
            in_flight_found: 8.0,
            difference_percent: -0.4,
            tolerance_percent: 5.0,
            passed: true,
            explanation: "transactions per second × mean response, against the users of the closed loop".into(),
        }],
        relative_cpu_cost: Some(kind.cpu_ms / 1.62),
        wire_bytes_per_order: (kind.path == "dnfs").then_some(118_000.0),
        proof: Some(proof()),
        traffic: Some(traffic(kind)),
        runs,
        ..PathResult::default()
    }
}

/// Owner, user and kernel milliseconds per order.
fn owners(kind: Kind) -> Vec<(&'static str, f64, f64)> {
    let rest = kind.cpu_ms - 0.16;
    if kind.path == "dnfs" {
        vec![("database", rest * 0.5, rest * 0.17), ("filer", rest * 0.04, rest * 0.29), ("driver", 0.10, 0.06)]
    } else {
        vec![("database", rest * 0.76, rest * 0.24), ("driver", 0.10, 0.06)]
    }
}

fn run(kind: Kind, round: u32, size: Size, chance: &mut Random) -> Run {
    let level = kind.orders_per_s * (1.0 + 0.012 * chance.normal());
    let checkpoint = size.seconds as f64 * 0.55;
    let mut second = |at: f64| {
        let dip = if (0.0..4.0).contains(&(at - checkpoint)) { 0.82 } else { 1.0 };
        (level * dip * (1.0 + 0.035 * chance.normal())).max(0.0) as u64
    };
    let warmup_per_second: Vec<u64> = (0..10).map(|at| (second(-1.0) as f64 * (0.35 + 0.065 * f64::from(at))) as u64).collect();
    let per_second: Vec<u64> = (0..size.seconds).map(|at| second(at as f64)).collect();
    let orders: u64 = per_second.iter().sum();
    let series = per_second.iter().zip(0..).map(|(orders, second)| {
        let p90 = 8_000_000.0 / (*orders as f64).max(1.0) * 1.7;
        SeriesSecond {
            second,
            orders: *orders,
            transactions: orders * 23 / 10,
            response_p50_us: Some((p90 / 1.9) as u64),
            response_p90_us: Some(p90 as u64),
            response_max_us: (p90 * 5.0) as u64,
            errors: 0,
        }
    });
    let series = series.collect();
    let storage = if kind.path == "dnfs" { 0.17 } else { 0.06 };
    Run {
        sequence: round,
        round,
        seed: u64::from(round),
        measured_s: size.seconds as f64,
        warmup_s: 10.0,
        orders,
        oets_per_minute: orders as f64 / size.seconds as f64 * 60.0,
        per_second,
        series,
        warmup_per_second,
        checkpoint_ends_s: vec![checkpoint + 2.0],
        conform: Some(audit()),
        database: DatabaseCounters { blocks_read: orders * 6, checkpoints: 1, ..DatabaseCounters::default() },
        filer: if kind.path == "dnfs" { calls(orders) } else { BTreeMap::new() },
        cpu: BTreeMap::from([("database".into(), CpuTime { user_s: 24.9, sys_s: 8.7 })]),
        processor_queue_s: BTreeMap::from([("database".into(), 8.4)]),
        waits: BTreeMap::from([
            ("running".into(), 0.36 - storage),
            ("IO:DataFileRead".into(), storage),
            ("LWLock:WALWrite".into(), 0.31),
            ("IO:WALSync".into(), 0.1),
            ("IO:DataFileWrite".into(), 0.06),
            ("Lock:transactionid".into(), 0.07),
            ("Client:ClientRead".into(), 0.1),
        ]),
        checks: Checks { passed: 12, ..Checks::default() },
        proof: proof(),
        step_s: BTreeMap::from([
            ("restore".into(), 1.7),
            ("start".into(), 0.2),
            ("measure".into(), 40.3),
            ("check".into(), 18.4),
        ]),
        ..Run::default()
    }
}

fn calls(orders: u64) -> BTreeMap<String, ProcedureCount> {
    let count = |calls: u64| ProcedureCount { calls, bytes: calls * 8192 };
    BTreeMap::from([
        ("READ".into(), count(orders * 6)),
        ("WRITE".into(), count(orders * 7)),
        ("COMMIT".into(), ProcedureCount { calls: orders, bytes: 0 }),
    ])
}

fn responses(mean: f64) -> BTreeMap<String, ResponseMs> {
    let of = |factor: f64, count: u64| ResponseMs {
        count,
        mean: mean * factor,
        p50: mean * factor * 0.9,
        p90: mean * factor * 1.6,
        p95: mean * factor * 1.9,
        p99: mean * factor * 3.1,
        p999: mean * factor * 6.4,
        max: mean * factor * 11.0,
        ..ResponseMs::default()
    };
    let all = [("new_order", 0.6, 62_552), ("payment", 0.4, 62_550), ("order_status", 0.3, 6_255), ("delivery", 1.2, 6_255)];
    let mut map: BTreeMap<String, ResponseMs> =
        all.into_iter().map(|(name, factor, count)| (name.into(), of(factor, count))).collect();
    map.insert("stock_level".into(), of(0.28, 6_253));
    map
}

fn slots() -> SlotUse {
    SlotUse { slots: 64, mean: 1.8, max: 9, calls: 812_004, ..SlotUse::default() }
}

/// Reads around `mean`, in buckets of a quarter of a doubling, with a second peak of slow ones.
fn spread(mean: f64, chance: &mut Random) -> ReadLatency {
    let bounds_us: Vec<f64> = (0..64).map(|place| 8.0 * 2f64.powf(f64::from(place) / 4.0)).collect();
    let mut counts = vec![0u64; bounds_us.len() + 1];
    let mut sum_us = 0.0;
    for _ in 0..20_000 {
        let slow = if chance.share() < 0.04 { 6.0 } else { 1.0 };
        let time = mean * 0.8 * slow * (0.42 * chance.normal()).exp();
        sum_us += time;
        counts[bounds_us.partition_point(|bound| *bound < time)] += 1;
    }
    ReadLatency { count: 20_000, sum_us, bounds_us, counts }
}

fn bottleneck(kind: Kind) -> Bottleneck {
    let disk = kind.tuning == "untuned";
    Bottleneck {
        kind: if disk { "wal_fsync" } else { "host_cpu" }.into(),
        evidence: "host 91 % busy (2 % by processes outside the comparison); 1.21 of 8 users in a block read on average".into(),
        class: if disk { "disk" } else { "host CPU" }.into(),
        next: if disk { "put the log on a volume of its own" } else { "give the database more processors" }.into(),
        ..Bottleneck::default()
    }
}

fn proof() -> Proof {
    Proof {
        kind: "filer_reads".into(),
        database_read_bytes: 4_438_876_160,
        path_read_bytes: 4_444_934_464,
        difference_percent: 0.14,
        tolerance_percent: 5.0,
        passed: true,
        explanation: "blocks the database read by their size, against READ bytes the filer sent".into(),
        carried: None,
        not_proven: None,
    }
}

fn audit() -> Conform {
    let rules = [
        ("Payment, % of all", "5.2.3", 43.1, Some(43.0), None),
        ("Order-Status, % of all", "5.2.3", 4.2, Some(4.0), None),
        ("rolled back New-Orders, %", "2.4.1.4", 1.01, Some(0.9), Some(1.1)),
        ("remote lines, %", "2.4.1.5", 0.99, Some(0.95), Some(1.05)),
        ("customers by name, %", "2.5.1.2", 60.2, Some(57.0), Some(63.0)),
    ];
    let items = rules.map(|(name, clause, found, least, most)| ConformItem {
        name: name.into(),
        clause: clause.into(),
        found,
        least,
        most,
        passed: true,
        not_judged: None,
    });
    Conform { passed: true, notes: vec!["closed loop: keying and think times are not judged".into()], items: items.into() }
}
