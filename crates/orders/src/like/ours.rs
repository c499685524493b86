//! The load's own figures: built-in measured values, or those of a record.

use results::compare::{Comparison, PathResult, PathStatus};
use results::orders_run::OrdersRun;
use serde_json::Value;

use super::counters::Counters;
use super::{Figures, Reading, figures};
use crate::error::OrdersError;

/// Figures of this load, and their source.
#[derive(Debug, Clone, PartialEq)]
pub struct Ours {
    /// The figures.
    pub figures: Figures,
    /// Description of the source.
    pub from: String,
}

/// Measured figures of this load: see docs/orders.md, "Compared with a production database".
#[must_use]
pub fn built_in() -> Ours {
    let figures = Figures {
        commits_per_s: 492.1,
        reads_per_commit: 3.485,
        writes_per_commit: 2.688,
        io_per_commit: 6.173,
        log_bytes_per_commit: 9_451.0,
        hit_ratio: 0.9770,
        read_share: 0.4757,
        block_read_us: None,
    };
    let from = "built in, measured over 60 s from 20 s after a checkpoint: 8 warehouses, buffers a quarter of them, 8 users, \
                PostgreSQL 15, two cores with other work";
    Ours { figures, from: from.to_owned() }
}

/// The figures of a record: a comparison's `results.json` (of the named configuration, else of the first measured
/// one), a saved reading of `orders like`, or the record of `orders run`. The latter contains only the rate;
/// the other figures are those of [`built_in`].
///
/// # Errors
/// [`OrdersError::Record`] if the text is not one of these or has no such configuration.
pub fn of_record(text: &str, arm: Option<&str>) -> Result<Ours, OrdersError> {
    let wrong = |detail: String| OrdersError::Record { detail };
    let value: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    match value.get("kind").and_then(Value::as_str) {
        Some("compare") => {
            let comparison: Comparison = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            of_comparison(&comparison, arm).map_err(wrong)
        }
        kind if let Some(name) = arm => {
            let what = if kind == Some("orders-like") { "a reading of orders like" } else { "not the record of a comparison" };
            Err(wrong(format!("it is {what}, which has no configuration {name}: leave --configuration out")))
        }
        Some("orders-like") => {
            let reading: Reading = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            let from = format!("a reading of {:.0} s of {}", reading.seconds, reading.database_version);
            Ok(Ours { figures: reading.figures, from })
        }
        _ => {
            let run: OrdersRun = serde_json::from_value(value)
                .map_err(|_| wrong("it is not a record of compare (results.json), orders run or orders like".to_owned()))?;
            Ok(of_run(&run))
        }
    }
}

fn of_comparison(comparison: &Comparison, arm: Option<&str>) -> Result<Ours, String> {
    let named = |name: &str| arm.is_none_or(|arm| arm == name);
    let path = comparison
        .paths
        .iter()
        .find(|path| (named(&path.arm) || named(&path.name)) && path.status == PathStatus::Measured)
        .ok_or_else(|| match arm {
            Some(arm) => format!("no configuration {arm} was measured; the record has {}", names(comparison)),
            None => "no path was measured".to_owned(),
        })?;
    let mut all = Counters::default();
    for run in &path.runs {
        all.at_s += run.measured_s;
        all.commits += run.database.commits;
        all.rollbacks += run.database.rollbacks;
        all.blocks_read += run.database.blocks_read;
        all.blocks_hit += run.database.blocks_hit;
        all.block_read_ms += run.database.block_read_ms;
        all.blocks_written += run.database.blocks_written;
        all.log_bytes += run.database.log_bytes;
    }
    // The laboratory times reads; its databases have the default block size.
    (all.block_bytes, all.reads_timed) = (8_192, true);
    let name = if path.arm.is_empty() { &path.name } else { &path.arm };
    let from = format!("{} runs of path {name}, {} warehouses", path.runs.len(), comparison.plan.warehouses);
    Ok(Ours { figures: figures(&all), from })
}

/// The configurations of a comparison.
fn names(comparison: &Comparison) -> String {
    let name = |path: &PathResult| if path.arm.is_empty() { path.name.clone() } else { path.arm.clone() };
    comparison.paths.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn of_run(run: &OrdersRun) -> Ours {
    let all = &run.transactions;
    let each = [&all.new_order, &all.payment, &all.order_status, &all.delivery, &all.stock_level];
    let commits: u64 = each.iter().map(|record| record.count).sum();
    let built_in = built_in();
    let rate = if run.measured_s > 0.0 { commits as f64 / run.measured_s } else { 0.0 };
    Ours {
        figures: Figures { commits_per_s: rate, ..built_in.figures },
        from: format!("commits per second of the record, the rest {}", built_in.from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::compare::{DatabaseCounters, Run};

    #[test]
    fn a_comparison_gives_the_figures_of_the_arm_asked_for() {
        let run = |commits| Run {
            measured_s: 10.0,
            database: DatabaseCounters { commits, blocks_read: 2_000, blocks_written: 1_000, ..Default::default() },
            ..Run::default()
        };
        let path = |name: &str, commits| PathResult {
            name: name.to_owned(),
            status: PathStatus::Measured,
            runs: vec![run(commits), run(commits)],
            ..PathResult::default()
        };
        let comparison =
            Comparison { kind: "compare".to_owned(), paths: vec![path("local", 1_000), path("dnfs", 500)], ..Default::default() };
        let text = serde_json::to_string(&comparison).unwrap();
        assert!((of_record(&text, None).unwrap().figures.io_per_commit - 3.0).abs() < 1e-9);
        let dnfs = of_record(&text, Some("dnfs")).unwrap();
        assert!((dnfs.figures.io_per_commit - 6.0).abs() < 1e-9 && (dnfs.figures.commits_per_s - 50.0).abs() < 1e-9);
        assert!(of_record(&text, Some("fc")).is_err());
    }

    #[test]
    fn a_run_gives_its_rate_and_the_built_in_rest() {
        let mut run = OrdersRun { measured_s: 4.0, ..OrdersRun::default() };
        run.transactions.payment.count = 100;
        let ours = of_record(&serde_json::to_string(&run).unwrap(), None).unwrap();
        assert!((ours.figures.commits_per_s - 25.0).abs() < 1e-9);
        assert!((ours.figures.io_per_commit - built_in().figures.io_per_commit).abs() < 1e-9);
        assert!(built_in().figures.io_per_commit > 0.0);
        let named = of_record(&serde_json::to_string(&run).unwrap(), Some("zz")).unwrap_err().to_string();
        assert!(named.contains("no configuration zz") && named.contains("--configuration"), "{named}");
        assert!(of_record("{}", None).is_err() && of_record("rubbish", None).is_err());
    }
}
