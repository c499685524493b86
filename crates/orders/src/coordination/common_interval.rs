//! The interval that counts after the drivers of a run have ended, with or without success.
//!
//! If every driver finished, their records over the complete interval are merged. If one is missing, the
//! common interval ends at the last snapshot that is stored for every driver. Only transactions that ended before
//! it count, for all drivers: how the others continued with less load is not counted. A driver that left
//! no snapshot is ignored, and the others count over the complete interval.

use std::collections::BTreeMap;

use results::orders_run::{DriverRecord, OrdersRun};

use super::error::CoordinationError;
use super::merge;
use crate::conform::conform;

/// State of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It has its number and is connecting its users.
    Joined,
    /// All its users are connected.
    Ready,
    /// Its record is stored.
    Finished,
    /// It ended by an error.
    Failed,
}

impl Status {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Ready => "ready",
            Self::Finished => "finished",
            Self::Failed => "failed",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Joined, Self::Ready, Self::Finished, Self::Failed].into_iter().find(|status| status.name() == name)
    }
}

/// A driver's entry in the results database.
#[derive(Debug, Clone)]
pub(super) struct Driver {
    pub(super) number: u32,
    pub(super) host: String,
    pub(super) users: u32,
    pub(super) first_user: u32,
    pub(super) status: Status,
    /// Seconds since its last heartbeat, by the database's clock.
    pub(super) since_heartbeat_s: f64,
    /// Time of its last heartbeat, in seconds after the start of the interval.
    pub(super) heartbeat_s: f64,
    pub(super) start_error_ms: f64,
    pub(super) error: Option<String>,
    /// Its complete record, if it finished.
    pub(super) record: Option<OrdersRun>,
    /// Seconds of the interval at which its snapshots are stored.
    pub(super) snapshots: Vec<u64>,
}

impl Driver {
    pub(super) fn finished(&self) -> bool {
        self.status == Status::Finished && self.record.is_some()
    }
}

/// The part of the interval over which the drivers are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Common {
    /// The complete interval, of the drivers that finished.
    Whole,
    /// This number of seconds from the start, of every driver that has a snapshot there.
    Snapshot(u64),
}

/// The common interval: up to the last second at which every driver that left any data has a snapshot.
pub(super) fn common(drivers: &[Driver]) -> Common {
    let missing: Vec<&Driver> = drivers.iter().filter(|driver| !driver.finished() && !driver.snapshots.is_empty()).collect();
    if missing.is_empty() {
        return Common::Whole;
    }
    let counted = || drivers.iter().filter(|driver| driver.finished() || !driver.snapshots.is_empty());
    let candidates = missing.iter().flat_map(|driver| driver.snapshots.iter());
    let in_all = candidates.filter(|second| counted().all(|driver| driver.snapshots.contains(second)));
    in_all.max().map_or(Common::Whole, |second| Common::Snapshot(*second))
}

/// Merges the records that count; `snapshots` contains the drivers' records at the second of [`Common::Snapshot`].
pub(super) fn merge_known(
    run: &str,
    measured_s: f64,
    drivers: &[Driver],
    common: Common,
    snapshots: &BTreeMap<u32, OrdersRun>,
) -> Result<OrdersRun, CoordinationError> {
    let mut counted = Vec::new();
    let mut named = Vec::new();
    for driver in drivers {
        let record = match common {
            Common::Whole => driver.record.as_ref(),
            Common::Snapshot(_) => snapshots.get(&driver.number),
        };
        counted.extend(record.cloned());
        named.push(name(driver, record, measured_s));
    }
    let merged = merge::merge(&counted).map_err(|error| CoordinationError::Record {
        run: run.to_owned(),
        driver: 0,
        detail: error.to_string(),
    })?;
    let Some(merged) = merged else {
        return Err(CoordinationError::Nothing { run: run.to_owned() });
    };
    let merged = OrdersRun { drivers: named, ..merged };
    Ok(OrdersRun { conform: conform(&merged), ..merged })
}

fn name(driver: &Driver, counted: Option<&OrdersRun>, measured_s: f64) -> DriverRecord {
    let finished = driver.finished();
    let (status, reason) = match driver.status {
        _ if finished => ("finished", None),
        Status::Failed => ("failed", driver.error.clone()),
        _ => ("lost", Some(format!("no heartbeat for {:.0} s", driver.since_heartbeat_s))),
    };
    let missing_from_s = (!finished).then_some(driver.heartbeat_s);
    let known = driver.record.as_ref().or(counted);
    DriverRecord {
        name: driver.number.to_string(),
        host: driver.host.clone(),
        users: driver.users,
        status: status.to_owned(),
        lost_s: missing_from_s.map_or(0.0, |from_s| measured_s - from_s.clamp(0.0, measured_s)),
        first_user: driver.first_user,
        counted_s: counted.map_or(0.0, |record| record.measured_s),
        missing_from_s,
        oets_per_minute: known.map_or(0.0, |record| record.oets_per_minute),
        start_error_ms: driver.start_error_ms,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::super::merge::example_record;
    use super::*;

    fn driver(number: u32, status: Status, record: Option<OrdersRun>, snapshots: &[u64]) -> Driver {
        Driver {
            number,
            host: format!("host{number}"),
            users: 2,
            first_user: 2 * (number - 1),
            status,
            since_heartbeat_s: if status == Status::Ready { 20.0 } else { 0.0 },
            heartbeat_s: 4.4,
            start_error_ms: 0.1,
            error: None,
            record,
            snapshots: snapshots.to_vec(),
        }
    }

    #[test]
    fn all_finished_counts_the_whole_interval() {
        let drivers = [1, 2].map(|number| driver(number, Status::Finished, Some(example_record(2, 10, 100, 1_000)), &[2, 4]));
        assert_eq!(common(&drivers), Common::Whole);
        let merged = merge_known("r", 10.0, &drivers, Common::Whole, &BTreeMap::new()).unwrap();
        assert_eq!((merged.orders, merged.users, merged.drivers.len()), (200, 4, 2));
        assert!(merged.drivers.iter().all(|driver| driver.status == "finished" && driver.lost_s == 0.0));
    }

    #[test]
    fn a_lost_driver_ends_the_common_interval_at_the_last_snapshot_all_have() {
        let whole = Some(example_record(2, 10, 100, 1_000));
        // Driver 2 could not store its snapshot at 4 s, so 3 s is the last common one.
        let drivers = [
            driver(1, Status::Finished, whole.clone(), &[1, 2, 3, 4, 5]),
            driver(2, Status::Finished, whole, &[1, 2, 3, 5]),
            driver(3, Status::Ready, None, &[1, 2, 3, 4]),
        ];
        assert_eq!(common(&drivers), Common::Snapshot(3));
        let snapshots = BTreeMap::from([1, 2, 3].map(|number| (number, example_record(2, 3, 30, 1_000))));
        let merged = merge_known("r", 10.0, &drivers, Common::Snapshot(3), &snapshots).unwrap();
        assert_eq!((merged.orders, merged.measured_s, merged.users), (90, 3.0, 6));
        assert!((merged.oets_per_minute - 1_800.0).abs() < 1e-9);
        let lost = &merged.drivers[2];
        assert_eq!((lost.status.as_str(), lost.name.as_str(), lost.missing_from_s), ("lost", "3", Some(4.4)));
        assert!((lost.lost_s - 5.6).abs() < 1e-9 && (lost.counted_s - 3.0).abs() < 1e-9);
        assert!(lost.reason.as_ref().unwrap().contains("20 s"));
    }

    #[test]
    fn a_driver_that_left_nothing_is_left_out_by_name() {
        let drivers =
            [driver(1, Status::Finished, Some(example_record(2, 10, 100, 1_000)), &[1]), driver(2, Status::Failed, None, &[])];
        assert_eq!(common(&drivers), Common::Whole);
        let merged = merge_known("r", 10.0, &drivers, Common::Whole, &BTreeMap::new()).unwrap();
        assert_eq!((merged.orders, merged.users, merged.measured_s), (100, 2, 10.0));
        assert_eq!((merged.drivers[1].status.as_str(), merged.drivers[1].counted_s), ("failed", 0.0));
        let nobody = [driver(1, Status::Failed, None, &[])];
        assert!(matches!(
            merge_known("r", 10.0, &nobody, Common::Whole, &BTreeMap::new()),
            Err(CoordinationError::Nothing { .. })
        ));
    }
}
