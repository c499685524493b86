//! Parts of the example about its configurations together: differences, predictions, curves, ladders, plan and host.

use std::collections::BTreeMap;

use media::Random;
use results::compare::{Against, DatabaseSystem, PathResult, PlanRecord};
use results::curves::{CurvePoint, LadderStep};
use results::environment::{Environment, Store};
use results::judgement::{FixedLoad, Prediction, RelativeDifference};
use results::statistics::{Difference, MeanInterval};

use super::inputs::{KINDS, Size};

pub(super) fn against(paths: &[PathResult]) -> Vec<Against> {
    let Some((first, oets)) = paths.first().and_then(|path| Some((path, path.oets_per_minute.as_ref()?))) else {
        return Vec::new();
    };
    let others = paths.iter().skip(1).filter_map(|path| Some((path, path.oets_per_minute.as_ref()?)));
    let lines = others.map(|(path, found)| {
        let ratio = found.mean / oets.mean;
        let percent = (ratio - 1.0) * 100.0;
        Against {
            first: first.arm.clone(),
            path: path.arm.clone(),
            oets_ratio: ratio,
            cpu_ratio: 1.3,
            difference: found.difference_from(oets),
            orders_difference: Some(RelativeDifference {
                percent,
                low_percent: Some(percent - 2.2),
                high_percent: Some(percent + 2.2),
                with_twice_the_rounds_percent: Some(1.4),
                claim_factor: Some(1.03),
                shown: Difference::Shown,
                method: "paired".into(),
                degrees: 2.0,
            }),
            fixed_load: Some(FixedLoad {
                valid: false,
                orders_difference_percent: percent,
                latency_difference_percent: Some(41.0),
                reason: "the I/O latencies are 41 % apart, 5 % are allowed".into(),
            }),
            text: format!("{} at {ratio:.2} x the orders of {}", path.arm, first.arm),
            ..Against::default()
        }
    });
    lines.collect()
}

pub(super) fn predictions() -> Vec<Prediction> {
    vec![Prediction {
        fitted_on: "dnfs tuned at 8 users".into(),
        held_out: "dnfs tuned at 4 users".into(),
        quantity: "oets_per_minute".into(),
        predicted: 35_900.0,
        measured: 34_710.0,
        error_percent: 3.4,
        range: Some((33_100.0, 38_000.0)),
        bottleneck: "host_cpu".into(),
        doubt: None,
    }]
}

pub(super) fn curve(chance: &mut Random) -> Vec<CurvePoint> {
    let mut points = Vec::new();
    for kind in [KINDS[1], KINDS[3]] {
        for users in [1u32, 2, 4, 6, 8, 12, 16, 24] {
            let most = kind.orders_per_s * 60.0;
            let n = f64::from(users);
            let oets = most * n / (n + 3.2) * (1.0 + 0.008 * chance.normal()) * 1.3;
            let p50 = n / oets * 60_000.0 * 0.43;
            points.push(CurvePoint {
                arm: format!("{} {}", kind.path, kind.tuning),
                users,
                offered_per_minute: None,
                oets_per_minute: oets,
                ci95: Some(oets * 0.02),
                response_p50_ms: p50,
                response_p90_ms: p50 * (1.7 + n / 22.0),
                response_p99_ms: p50 * 4.2,
                host_busy_share: Some((n / (n + 2.0)).min(1.0)),
                chosen: users == 8,
            });
        }
    }
    points
}

pub(super) fn ladder(chance: &mut Random) -> Vec<LadderStep> {
    let steps = [
        ("start", "", "", 36_240.0, 36_240.0),
        ("log apart", "layout", "split", 39_100.0, 39_100.0),
        ("more slots", "dnfs.slots", "64", 37_000.0, 43_900.0),
        ("larger writes", "dnfs.wsize", "64k", 36_900.0, 46_100.0),
        ("lazy checkpoints", "database.checkpoint_completion_target", "0.9", 38_800.0, 52_260.0),
    ];
    let mut interval = |mean: f64| MeanInterval::of(&[0, 1, 2].map(|_| mean * (1.0 + 0.006 * chance.normal())));
    let step = |(place, (name, knob, value, alone, added_up)): (u32, (&str, &str, &str, f64, f64))| LadderStep {
        arm: "dnfs".into(),
        place,
        name: name.into(),
        sets: if knob.is_empty() { BTreeMap::new() } else { BTreeMap::from([(knob.into(), value.into())]) },
        alone: if place == 0 { None } else { interval(alone) },
        added_up: interval(added_up),
    };
    (0..).zip(steps).map(step).collect()
}

pub(super) fn tunings() -> BTreeMap<String, BTreeMap<String, String>> {
    let tuned = [
        ("database.checkpoint_completion_target", "0.9"),
        ("database.max_wal_size", "8GB"),
        ("database.wal_buffers", "64MB"),
        ("dnfs.slots", "64"),
        ("dnfs.wsize", "64KiB"),
    ];
    let tuned = tuned.map(|(knob, value)| (knob.to_owned(), value.to_owned()));
    BTreeMap::from([("untuned".into(), BTreeMap::new()), ("tuned".into(), BTreeMap::from(tuned))])
}

pub(super) fn plan(arms: Vec<String>, size: Size) -> PlanRecord {
    PlanRecord {
        name: Some("compare".into()),
        database: DatabaseSystem::Postgresql,
        order: arms.iter().filter(|arm| *arm != "iscsi").cloned().collect(),
        paths: arms,
        warehouses: 8,
        users: 8,
        driver_threads: 2,
        seconds: size.seconds,
        warmup_seconds: 10,
        repeats: size.repeats,
        repeats_done: size.repeats,
        budget_seconds: 3_600,
        seed: 1,
        database_bytes: 895_222_275,
        buffers_bytes: 223_346_688,
        restore: "reflink".into(),
    }
}

pub(super) fn environment() -> Environment {
    let settings = [("fsync", "on"), ("shared_buffers", "213MB"), ("wal_sync_method", "fdatasync"), ("max_wal_size", "2GB")];
    Environment {
        os: "an invented system".into(),
        kernel: "0.0".into(),
        architecture: "x86_64".into(),
        cpu_model: "an invented processor with a rather long name, as they have it".into(),
        cpu_count: 2,
        memory_bytes: 24 << 30,
        load_average_before: 0.21,
        store: Store { file_system: "xfs".into(), device: "/dev/invented".into(), reflink: true, ..Store::default() },
        database_version: "15.18".into(),
        database_settings: settings.map(|(name, value)| (name.into(), value.into())).into(),
        database_user: "postgres".into(),
        millrace_version: "0.1.0".into(),
        ..Environment::default()
    }
}
