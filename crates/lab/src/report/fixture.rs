//! A comparison with `local` and `dnfs` measured and `iscsi` skipped, built with the same
//! functions as a real one.

use std::collections::BTreeMap;
use std::time::Duration;

use results::compare::{Checks, Comparison, CpuTime, DatabaseCounters, PlanRecord, ProcedureCount, ProofSource, Run};
use results::environment::Environment;
use results::histogram::ResponseTimes;
use results::orders_run::OrdersRun;

use crate::compare::conclude;
use crate::database::kind::DatabaseKind;
use crate::measure::proof::judge;
use crate::paths;
use crate::paths::storage_path::PathRef;
use crate::plan::{Arm, ShareGate};
use crate::summary::{self, Common};

/// Parameters of the fixture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Orders of the runs on dnfs; the runs on local have 3,000 each.
    pub(crate) dnfs_orders: [u64; 3],
    /// READ bytes of the filer per byte that the database read.
    pub(crate) filer_share: f64,
    /// Blocks read in each run.
    pub(crate) blocks_read: u64,
    /// Failed conditions in the last run on dnfs.
    pub(crate) failed_checks: u32,
}

pub(crate) const SOUND: Shape =
    Shape { dnfs_orders: [2_000, 2_010, 1_990], filer_share: 1.0, blocks_read: 20_000, failed_checks: 0 };

pub(crate) fn comparison(shape: Shape) -> Comparison {
    let common = Common {
        database: DatabaseKind::default(),
        past_page_cache: false,
        block_bytes: 8192,
        cpu_count: 2,
        database_bytes: 1 << 30,
        buffers_bytes: 256 << 20,
        page_cache_bytes: None,
    };
    let path = |name: &str, orders: [u64; 3], share: f64, failed: u32| {
        let runs = (1..).zip(orders).map(|(round, orders)| {
            let failed = if round == 3 { failed } else { 0 };
            run(name, round, orders, shape.blocks_read, share, failed)
        });
        summary::measured(&Arm::own(known(name), 8), runs.collect(), &[record(1_500), record(2_500)], common)
    };
    let paths = vec![
        path("local", [3_000, 3_010, 2_990], 1.0, 0),
        path("dnfs", shape.dnfs_orders, shape.filer_share, shape.failed_checks),
        summary::skipped(&Arm::own(known("iscsi"), 8), "not built yet: <later>"),
    ];
    let plan = PlanRecord {
        paths: paths.iter().map(|path| path.name.clone()).collect(),
        warehouses: 8,
        repeats: 3,
        repeats_done: 3,
        seconds: 30,
        warmup_seconds: 10,
        users: 8,
        database_bytes: common.database_bytes,
        buffers_bytes: common.buffers_bytes,
        ..PlanRecord::default()
    };
    let environment = Environment {
        kernel: "6.1.0".into(),
        cpu_count: 2,
        database_version: "15.13".into(),
        database_settings: BTreeMap::from([("shared_buffers".into(), "256MB".into())]),
        ..Environment::default()
    };
    let times = ("2026-11-21T04:00:00Z".to_owned(), Duration::from_secs(300));
    conclude(paths, plan, environment, Vec::new(), &[ShareGate { path: "dnfs".into(), least: 0.6 }], times)
}

fn known(name: &str) -> PathRef {
    paths::find(name).expect("a path of this version")
}

fn run(path: &str, round: u32, orders: u64, blocks_read: u64, share: f64, failed: u32) -> Run {
    let bytes = blocks_read * 8192;
    let source = if path == "dnfs" { ProofSource::FilerReads } else { ProofSource::ReadCalls };
    let mut cpu = BTreeMap::from([
        ("database".to_owned(), CpuTime { user_s: 20.0, sys_s: 6.0 }),
        ("driver".to_owned(), CpuTime { user_s: 2.0, sys_s: 1.0 }),
    ]);
    let mut filer = BTreeMap::new();
    if path == "dnfs" {
        cpu.insert("filer".to_owned(), CpuTime { user_s: 1.0, sys_s: 5.0 });
        filer.insert("READ".to_owned(), ProcedureCount { calls: blocks_read, bytes });
    }
    Run {
        sequence: round * 2,
        round,
        seed: u64::from(round),
        measured_s: 30.0,
        warmup_s: 10.0,
        orders,
        oets_per_minute: orders as f64 * 2.0,
        per_second: vec![orders / 30; 30],
        database: DatabaseCounters {
            blocks_read,
            blocks_hit: blocks_read * 9,
            block_read_ms: blocks_read as f64 * 0.05,
            blocks_written: 4_000,
            log_bytes: 30 << 20,
            checkpoints: 1,
            ..DatabaseCounters::default()
        },
        filer,
        cpu,
        host_busy_s: 40.0,
        waits: BTreeMap::from([("running".to_owned(), 0.6), ("IO:DataFileRead".to_owned(), 0.4)]),
        checks: Checks {
            passed: 12 - failed,
            failed,
            failures: (0..failed).map(|number| format!("condition {number}")).collect(),
        },
        proof: judge(source, bytes, Some((bytes as f64 * share) as u64)),
        ..Run::default()
    }
}

fn record(response_us: u64) -> OrdersRun {
    let mut times = ResponseTimes::new();
    for step in 0..100 {
        times.record(response_us + step);
    }
    let mut record = OrdersRun { load_model: "closed".into(), users: 8, ..empty_record() };
    record.transactions.new_order.count = 99;
    record.transactions.new_order.rolled_back = 1;
    record.transactions.new_order.histogram_v2_base64 = times.to_v2_base64();
    record
}

fn empty_record() -> OrdersRun {
    OrdersRun {
        schema: 1,
        warehouses: 8,
        users: 8,
        threads: 2,
        seed: 1,
        terminals: "all-warehouses".into(),
        load_model: "closed".into(),
        mix: "deck".into(),
        isolation: "read committed".into(),
        database_version: "15".into(),
        warmup_s: 10.0,
        measured_s: 30.0,
        oets_per_minute: 1.0,
        orders: 1,
        ..OrdersRun::default()
    }
}
