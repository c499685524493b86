//! README's sample of the report, held against what is printed.

use results::compare::{Against, Bottleneck, BottleneckKind, Comparison, Cpu, PathResult, PathStatus};
use results::statistics::MeanInterval;

const README: &str = include_str!("../../../../README.md");

/// One path of the comparison that README shows, with the figures of its record.
fn path(name: &str, (mean, half): (f64, f64), cpu_s: f64, bottleneck: BottleneckKind) -> PathResult {
    PathResult {
        name: name.into(),
        arm: name.into(),
        status: PathStatus::Measured,
        oets_per_minute: Some(MeanInterval { mean, ci95: Some(half), runs: 3, values: Vec::new() }),
        cpu: Some(Cpu { s_per_1000_orders: cpu_s, ..Cpu::default() }),
        bottleneck: Some(Bottleneck { kind: bottleneck, ..Bottleneck::default() }),
        ..PathResult::default()
    }
}

#[test]
fn sample_in_readme_is_what_the_report_begins_with() {
    let comparison = Comparison {
        verdict: "Direct NFS: 68 % of the orders of local disk (95 % interval 64 to 73 %), 1.47 x the CPU per order.".into(),
        rehearsal_note: "REHEARSAL: filer, database and driver share this host, so this compares mechanisms, not products".into(),
        paths: vec![
            path("local", (71_913.0, 3_054.0), 1.42, BottleneckKind::HostCpu),
            path("dnfs", (49_208.0, 4_902.0), 2.08, BottleneckKind::HostCpu),
        ],
        against_first: vec![Against { path: "dnfs".into(), oets_ratio: 0.68, ..Against::default() }],
        ..Comparison::default()
    };
    let block = README.split("<!-- real output: begin -->\n```\n").nth(1).and_then(|rest| rest.split("```\n").next()).unwrap();
    let printed = super::table(&comparison, super::WIDTH_MAX);
    assert!(printed.starts_with(block), "README has\n{block}\nand the report begins with\n{printed}");
}
