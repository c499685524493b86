//! Little's law as a check of the measurement itself: the number in flight equals rate times time for any system.
//! If it does not hold, one of the three values was counted wrongly.

use results::compare::{LoadModel, Run, SessionState};
use results::judgement::{InFlight, Little};

use super::waits::state_of;
use crate::limits::WAIT_SAMPLE_EVERY;

/// Tolerance for transactions of a closed loop: both sides count the same events, so few may be missing.
const TRANSACTIONS_TOLERANCE_PERCENT: f64 = 5.0;
/// Tolerance for block reads: one side is a sample of the sessions' waits.
const READS_TOLERANCE_PERCENT: f64 = 25.0;
/// Smallest number of sampled sessions in a read: at this number, the sampling error is 10 %.
const READS_SEEN_MIN: f64 = 100.0;

/// The checks for which these runs have the values.
pub(super) fn judge(runs: &[Run]) -> Vec<Little> {
    [transactions(runs), block_reads(runs)].into_iter().flatten().collect()
}

/// In a closed loop, every user always has one transaction in flight.
fn transactions(runs: &[Run]) -> Option<Little> {
    let seconds: f64 = runs.iter().map(|run| run.measured_s).sum();
    let mut in_flight_time = 0.0;
    let mut user_time = 0.0;
    for run in runs {
        let load = run.load.as_ref().filter(|load| load.model == LoadModel::Closed && load.transactions > 0)?;
        in_flight_time += load.response_s;
        user_time += f64::from(load.users) * run.measured_s;
    }
    let explanation = "transactions ended per second x their mean response time, against the users of the closed loop";
    close(InFlight::Transactions, in_flight_time / seconds, user_time / seconds, TRANSACTIONS_TOLERANCE_PERCENT, explanation)
}

/// Reads in progress by the database's clock, compared with the sampled sessions that wait for a read.
fn block_reads(runs: &[Run]) -> Option<Little> {
    let seconds: f64 = runs.iter().map(|run| run.measured_s).sum();
    let (mut read_time, mut seen_time, mut seen) = (0.0, 0.0, 0.0);
    for run in runs {
        let sessions = f64::from(run.load.as_ref()?.connections);
        let reads = run.waits.iter().filter(|(event, _)| state_of(event) == SessionState::BlockReads);
        let share: f64 = reads.map(|(_, share)| share).sum();
        read_time += run.database.block_read_ms / 1e3;
        seen_time += share * sessions * run.measured_s;
        seen += share * sessions * run.measured_s / WAIT_SAMPLE_EVERY.as_secs_f64();
    }
    if seen < READS_SEEN_MIN {
        return None;
    }
    let explanation =
        "block reads per second x their mean time as the database counts them, against sessions seen waiting for a read";
    close(InFlight::BlockReads, read_time / seconds, seen_time / seconds, READS_TOLERANCE_PERCENT, explanation)
}

fn close(subject: InFlight, predicted: f64, found: f64, tolerance_percent: f64, explanation: &str) -> Option<Little> {
    if !(found > 0.0 && predicted.is_finite()) {
        return None;
    }
    let difference_percent = (predicted - found) / found * 100.0;
    Some(Little {
        subject,
        in_flight_predicted: predicted,
        in_flight_found: found,
        difference_percent,
        tolerance_percent,
        passed: difference_percent.abs() <= tolerance_percent,
        explanation: explanation.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use results::compare::{DatabaseCounters, RunLoad};

    use super::*;

    fn run(response_s: f64, model: &str) -> Run {
        let load =
            RunLoad { model: model.into(), users: 8, connections: 8, transactions: 10_000, response_s, ..RunLoad::default() };
        Run {
            measured_s: 30.0,
            load: Some(load),
            database: DatabaseCounters { block_read_ms: 60_000.0, ..DatabaseCounters::default() },
            waits: BTreeMap::from([("IO:DataFileRead".to_owned(), 0.25)]),
            ..Run::default()
        }
    }

    #[test]
    fn a_closed_loop_closes_when_its_response_times_fill_its_users_time() {
        let found = judge(&[run(238.0, "closed")]);
        assert_eq!(found.len(), 2);
        assert!(found[0].passed && (found[0].in_flight_predicted - 7.933).abs() < 1e-3, "{found:?}");
        assert!(found[1].passed && (found[1].in_flight_found - 2.0).abs() < 1e-9, "{found:?}");
        let lost = judge(&[run(200.0, "closed")]);
        assert!(!lost[0].passed && lost[0].difference_percent < -15.0);
    }

    #[test]
    fn loads_with_think_time_are_not_held_to_their_users() {
        let found = judge(&[run(10.0, "paced")]);
        assert!(found.iter().all(|little| little.subject != InFlight::Transactions), "{found:?}");
    }
}
