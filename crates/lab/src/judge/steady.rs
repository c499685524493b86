//! Steady state of the runs of one configuration.

use results::compare::Run;
use results::judgement::{Steady, SteadyRun};
use results::statistics::{DRIFT_PERCENT_MAX, RANGE_PERCENT_MAX, SECONDS_MIN, series_mean, steady};

/// Share of a run with a running autovacuum from which it is mentioned beside a missing steady state.
const VACUUM_SHARE_TOLD: f64 = 0.2;

/// Tests every run. `None` without runs.
pub(super) fn judge(runs: &[Run]) -> Option<Steady> {
    if runs.is_empty() {
        return None;
    }
    let tested: Vec<SteadyRun> = runs.iter().map(one).collect();
    let drift_percent = tested
        .iter()
        .map(|run| run.drift_percent)
        .fold(0.0, |worst: f64, drift| if drift.abs() > worst.abs() { drift } else { worst });
    let range_percent = tested.iter().map(|run| run.range_percent).fold(0.0, f64::max);
    let dropped_s = tested.iter().map(|run| run.dropped_s).sum();
    let failed = tested.iter().filter(|run| !run.passed).count();
    let shortest = runs.iter().map(|run| run.per_second.len()).min().unwrap_or(0);
    let text = if shortest < SECONDS_MIN {
        format!("steady state not tested: the shortest run has {shortest} seconds, {SECONDS_MIN} are needed")
    } else if failed > 0 {
        format!(
            "not in steady state in {failed} of {} runs: fifths of a run differ by up to {range_percent:.0} % \
             ({RANGE_PERCENT_MAX:.0} allowed), the fitted line moves by up to {drift_percent:+.0} % ({DRIFT_PERCENT_MAX:.0} allowed); \
             {dropped_s:.0} s still looked like warm-up{}",
            tested.len(),
            vacuum(runs)
        )
    } else {
        format!(
            "in steady state in all runs: range at most {range_percent:.0} %, drift at most {drift_percent:+.0} %; \
             {dropped_s:.0} s still looked like warm-up"
        )
    };
    Some(Steady {
        passed: failed == 0,
        not_tested: shortest < SECONDS_MIN,
        drift_percent,
        range_percent,
        dropped_s,
        checkpoints: runs.iter().map(|run| run.database.checkpoints).sum(),
        runs: tested,
        text,
    })
}

/// The most frequent cause of a falling rate, if observed: PostgreSQL looks for tables to vacuum a minute after its start.
fn vacuum(runs: &[Run]) -> String {
    let share = runs.iter().map(|run| run.vacuum_share).fold(0.0, f64::max);
    if share < VACUUM_SHARE_TOLD {
        return String::new();
    }
    format!(
        "; an autovacuum was at work for up to {:.0} % of a run: its first comes a minute after the database's start, so measure \
         before it or long behind it",
        share * 100.0
    )
}

fn one(run: &Run) -> SteadyRun {
    let seconds: Vec<f64> = run.per_second.iter().map(|orders| *orders as f64).collect();
    let found = steady(&seconds);
    let kept = seconds.get(found.dropped..).unwrap_or_default();
    let mean = series_mean(kept);
    SteadyRun {
        sequence: run.sequence,
        passed: found.passed,
        dropped_s: found.dropped as f64,
        drift_percent: found.drift_percent,
        range_percent: found.range_percent,
        orders_per_second: kept.iter().sum::<f64>() / kept.len().max(1) as f64,
        ci95: mean.map(|mean| mean.ci95),
        autocorrelation: mean.map_or(0.0, |mean| mean.autocorrelation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(per_second: Vec<u64>) -> Run {
        Run { per_second, ..Run::default() }
    }

    #[test]
    fn one_falling_run_spoils_the_arm_and_is_described() {
        let level = run(vec![100; 60]);
        let falling = run((0..60).map(|second| 200 - 2 * second).collect());
        assert!(judge(std::slice::from_ref(&level)).unwrap().passed);
        let found = judge(&[level, falling]).unwrap();
        assert!(!found.passed && found.drift_percent < -DRIFT_PERCENT_MAX, "{found:?}");
        assert!(found.text.starts_with("not in steady state in 1 of 2 runs"), "{}", found.text);
        assert_eq!(found.runs.len(), 2);
        assert!(!found.text.contains("autovacuum"), "{}", found.text);
    }

    #[test]
    fn an_autovacuum_at_work_is_named_where_a_run_is_not_steady() {
        let falling = run((0..60).map(|second| 200 - 2 * second).collect());
        let found = judge(&[Run { vacuum_share: 0.33, ..falling }]).unwrap();
        assert!(found.text.contains("an autovacuum was at work for up to 33 % of a run"), "{}", found.text);
        let level = run(vec![100; 60]);
        assert!(!judge(&[Run { vacuum_share: 0.33, ..level }]).unwrap().text.contains("autovacuum"));
    }

    #[test]
    fn short_runs_are_not_tested() {
        let found = judge(&[run(vec![100; 5])]).unwrap();
        assert!(!found.passed && found.not_tested && found.text.contains("not tested"), "{}", found.text);
        assert_eq!(judge(&[]), None);
    }
}
