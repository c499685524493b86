//! Records with invented, seeded figures: the paths local and dnfs, with runs that vary around a level.
//!
//! It depends only on `results`, so that the tests of the binary can use the same file.

use std::collections::BTreeMap;

use media::Random;
use results::compare::{Comparison, CpuTime, PathResult, PathStatus, PlanRecord, ResponseMs, Run, SCHEMA};
use results::environment::{Environment, Store};
use results::statistics::MeanInterval;

/// Parameters of the records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    /// Orders per minute relative to those of an undisturbed record; the processor time of an order is its inverse.
    pub(crate) factor: f64,
    /// Standard deviation of a run within its record, relative to the mean.
    pub(crate) runs_noise: f64,
    /// The same for a record's level compared with other records.
    pub(crate) records_noise: f64,
    /// Runs on each path.
    pub(crate) repeats: u32,
}

impl Default for Level {
    /// The spread of comparisons of equal configurations on a host with two processors.
    fn default() -> Self {
        Self { factor: 1.0, runs_noise: 0.02, records_noise: 0.01, repeats: 3 }
    }
}

/// The record with a number, which determines its seed, commit and day.
pub(crate) fn record(number: u64, level: &Level) -> Comparison {
    let mut chance = Random::new(number);
    let commit = format!("{:012x}", chance.bits() >> 16);
    let paths = [("local", 12_000.0, 1.6), ("dnfs", 10_000.0, 2.1)];
    let paths: Vec<PathResult> = paths.map(|(name, orders, cpu)| path(name, orders, cpu, level, &mut chance)).into();
    Comparison {
        schema: SCHEMA,
        kind: "compare".into(),
        started_utc: moment(number),
        elapsed_s: 300.0,
        rehearsal: true,
        rehearsal_note: "REHEARSAL".into(),
        disclaimer: "invented figures".into(),
        verdict: "EXAMPLE with invented figures".into(),
        valid: true,
        plan: PlanRecord {
            name: Some("seeded".into()),
            paths: paths.iter().map(|path| path.arm.clone()).collect(),
            warehouses: 8,
            users: 8,
            driver_threads: 2,
            seconds: 30,
            warmup_seconds: 10,
            repeats: level.repeats,
            repeats_done: level.repeats,
            seed: number,
            database_bytes: 895_222_275,
            buffers_bytes: 223_346_688,
            ..PlanRecord::default()
        },
        environment: Environment {
            os: "an invented system".into(),
            kernel: "6.1.0".into(),
            architecture: "x86_64".into(),
            cpu_model: "an invented processor".into(),
            cpu_count: 2,
            memory_bytes: 24 << 30,
            store: Store { file_system: "xfs".into(), device: "/dev/invented".into(), ..Store::default() },
            database_version: "15.18".into(),
            millrace_version: "0.1.0".into(),
            millrace_commit: Some(commit),
            ..Environment::default()
        },
        paths,
        ..Comparison::default()
    }
}

fn path(name: &str, orders: f64, cpu: f64, level: &Level, chance: &mut Random) -> PathResult {
    let of_record = level.factor * (1.0 + level.records_noise * chance.normal());
    let runs: Vec<Run> = (1..=level.repeats)
        .map(|round| {
            let factor = of_record * (1.0 + level.runs_noise * chance.normal());
            let (oets, made) = (orders * factor, (orders * factor / 2.0) as u64);
            Run {
                sequence: round,
                round,
                measured_s: 30.0,
                orders: made,
                oets_per_minute: oets,
                cpu: BTreeMap::from([
                    ("database".into(), CpuTime { user_s: cpu / factor * made as f64 / 1e3, sys_s: 0.1 }),
                    ("filer".into(), CpuTime { user_s: 1.0, sys_s: 1.0 }),
                ]),
                ..Run::default()
            }
        })
        .collect();
    let oets: Vec<f64> = runs.iter().map(|run| run.oets_per_minute).collect();
    let p99 = 40.0 / of_record * (1.0 + 0.05 * chance.normal());
    PathResult {
        name: name.into(),
        arm: name.into(),
        tuning: "untuned".into(),
        status: PathStatus::Measured,
        layout_name: Some("one".into()),
        load_level: Some("users=8".into()),
        users: Some(8),
        oets_per_minute: MeanInterval::of(&oets),
        response_ms: BTreeMap::from([("new_order".into(), ResponseMs { count: 9_000, p99, ..ResponseMs::default() })]),
        runs,
        ..PathResult::default()
    }
}

/// A day in a year with months of 28 days: every month has these days.
fn moment(number: u64) -> String {
    let (day, month, year) = (number % 28 + 1, number / 28 % 12 + 1, 2026 + number / 336);
    format!("{year}-{month:02}-{day:02}T04:00:00Z")
}
