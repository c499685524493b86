//! Several drivers of one run, on one or more hosts, coordinated through a results database.
//!
//! Each driver joins the run, connects its share of the users, and waits at a barrier until all drivers
//! are ready. Then all start at the same moment of the results database's clock. During the run, a driver
//! stores a heartbeat once a second and snapshots of its measurements. So if a driver dies, its figures
//! are kept and the others do not wait for it. At the end the records are merged into one.

mod agreement;
mod common_interval;
mod error;
mod merge;
mod store;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use results::orders_run::OrdersRun;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use agreement::AgreedOptions;
pub use agreement::SharedRun;
pub use error::CoordinationError;
pub use merge::merge;

use crate::database::Database;
use crate::driver::{Coordination, Event, RunOptions, run_with};
use crate::error::OrdersError;
use crate::limits::{
    DRIVER_TIMEOUT_S, DRIVERS_MAX, GRACE_S_MAX, HEARTBEAT_MS, LOOK_MS, RUN_NAME_BYTES_MAX, SNAPSHOTS_MAX, STORE_S_MAX, WAIT_S_MAX,
};
use crate::postgres::Postgres;
use common_interval::Common;
use store::{Membership, Store};

/// Events of the coordination.
#[derive(Debug, Clone, PartialEq)]
pub enum CoordinationEvent {
    /// This driver has joined.
    Joined {
        /// Its number, from 1.
        driver: u32,
        /// Users it drives.
        users: u32,
    },
    /// Sent once a second until all drivers are ready.
    Waiting {
        /// Drivers that are ready.
        ready: u32,
        /// Drivers of the run.
        drivers: u32,
        /// Numbers of the drivers that are not ready.
        missing: Vec<u32>,
        /// Seconds waited so far.
        waited_s: u64,
    },
    /// This driver's run has ended; sent once a second while other drivers are still working.
    Ending {
        /// Numbers of the drivers that are still working.
        at_work: Vec<u32>,
    },
    /// The results database did not store something. The driver will retry.
    Warning(String),
}

/// Runs this driver's share of a run and returns the merged record of all drivers; after an interruption, only
/// this driver's own record.
///
/// `options.users` are the users of all drivers together. `seed` is the seed that the user gave; without one,
/// the seed of the run's first driver replaces `options.seed`. `also` contains further options that must be
/// the same for all drivers, by name.
///
/// # Errors
/// [`CoordinationError`] if the drivers' options differ or not all drivers start; errors of this driver's own run, which
/// are stored in the results database; any error that prevents the merge. In each case this driver's measurements
/// are already in the results database, if that was reachable.
pub async fn run<D: Database>(
    shared_run: &SharedRun,
    database: &D,
    (options, seed, also): (&RunOptions, Option<u64>, BTreeMap<String, String>),
    on_event: impl FnMut(&Event),
    on_coordination: impl Fn(&CoordinationEvent) + Clone + Send + Sync + 'static,
) -> Result<OrdersRun, OrdersError> {
    let agreed = agreed_options(shared_run, database, options, seed, also).await?;
    let store = Store::open(&shared_run.results).await?;
    store.prepare().await?;
    let membership = store.join(shared_run, &agreed).await?;
    on_coordination(&CoordinationEvent::Joined { driver: membership.number.unsigned_abs(), users: membership.users });
    let own = RunOptions {
        users: membership.users,
        first_user: membership.first_user,
        seed: membership.seed,
        model: options.model.share(membership.users, options.users),
        connections: session_share(options.connections, membership.users, options.users),
        ..options.clone()
    };

    let (connected_to, connected) = oneshot::channel();
    let (start_to, start) = oneshot::channel();
    let (snapshots_to, snapshots) = mpsc::unbounded_channel();
    let (end_to, end) = oneshot::channel();
    let session = ResultsSession { shared_run: shared_run.clone(), membership: membership.clone(), store: Some(store) };
    let membership_task = tokio::spawn(session.keep_membership(
        StartBarrier { connected, start: start_to },
        snapshots,
        end,
        on_coordination.clone(),
    ));
    let coordination = Coordination {
        connected: connected_to,
        start,
        snapshot_every_s: options.measured_s.div_ceil(SNAPSHOTS_MAX),
        snapshots: snapshots_to,
    };
    let outcome = run_with(database, &own, Some(coordination), on_event).await;
    let interrupted =
        outcome.as_ref().map_or_else(|error| matches!(error, OrdersError::NothingMeasured), |record| record.interrupted);
    if interrupted {
        return leave(outcome, end_to, membership_task).await;
    }
    conclude(shared_run, outcome, end_to, membership_task, &on_coordination).await
}

/// Merges the records that the drivers of a run left in the results database, and stores the result there.
///
/// # Errors
/// [`CoordinationError::NoRun`], [`CoordinationError::Nothing`], or an error of the results database.
pub async fn merged(results: &Postgres, run: &str) -> Result<OrdersRun, OrdersError> {
    let store = Store::open(results).await?;
    merge_stored(&store, run).await
}

/// The sessions, of `all`, for `part` of `whole` users: at least one, and at most one per user.
fn session_share(all: u32, part: u32, whole: u32) -> u32 {
    let share = u64::from(all) * u64::from(part) / u64::from(whole.max(1));
    u32::try_from(share).unwrap_or(part).clamp(1, part.max(1))
}

/// Whether every driver of a merged record finished.
#[must_use]
pub fn is_whole(merged: &OrdersRun) -> bool {
    merged.drivers.iter().all(|driver| driver.status == "finished")
}

async fn merge_stored(store: &Store, run: &str) -> Result<OrdersRun, OrdersError> {
    let (measured_s, drivers) = store.drivers(run).await?;
    let common = common_interval::common(&drivers);
    let snapshots = match common {
        Common::Whole => BTreeMap::new(),
        Common::Snapshot(second) => store.snapshots(run, second).await?,
    };
    let merged = common_interval::merge_known(run, measured_s, &drivers, common, &snapshots)?;
    store.keep_merged(run, &merged, is_whole(&merged)).await?;
    Ok(merged)
}

async fn agreed_options<D: Database>(
    shared_run: &SharedRun,
    database: &D,
    options: &RunOptions,
    seed: Option<u64>,
    also: BTreeMap<String, String>,
) -> Result<AgreedOptions, OrdersError> {
    let wrong = |what: String| Err(OrdersError::from(CoordinationError::AgreedOptions { what }));
    if shared_run.run.is_empty() || shared_run.run.len() > RUN_NAME_BYTES_MAX {
        return wrong(format!("--run: a name of {} bytes; it must have 1 to {RUN_NAME_BYTES_MAX}", shared_run.run.len()));
    }
    if !(1..=DRIVERS_MAX).contains(&shared_run.drivers) {
        return wrong(format!("--drivers: {} is not from 1 to {DRIVERS_MAX}", shared_run.drivers));
    }
    if let Some(driver) = shared_run.driver.filter(|driver| !(1..=shared_run.drivers).contains(driver)) {
        return wrong(format!("--driver: {driver} is not from 1 to {}, the number of --drivers", shared_run.drivers));
    }
    if options.users < shared_run.drivers {
        return wrong(format!(
            "--users: {} users are fewer than the {} of --drivers, and each driver needs one",
            options.users, shared_run.drivers
        ));
    }
    let config = database.config().await?;
    let mut others = also;
    others.insert("--users".to_owned(), options.users.to_string());
    others.insert("warehouses of the database".to_owned(), config.warehouses.to_string());
    others.insert("seed of the loaded rows".to_owned(), config.seed.to_string());
    Ok(AgreedOptions {
        seed,
        seed_else: options.seed,
        warmup_s: options.warmup_s,
        measured_s: options.measured_s,
        users: options.users,
        others,
    })
}

/// The driver's ends of the channels of the start barrier.
struct StartBarrier {
    connected: oneshot::Receiver<()>,
    start: oneshot::Sender<Instant>,
}

/// This driver's session with the results database, reopened after it is lost.
struct ResultsSession {
    shared_run: SharedRun,
    membership: Membership,
    store: Option<Store>,
}

impl ResultsSession {
    /// Keeps this driver a member of the run until its part has ended: barrier, heartbeats, snapshots, end.
    async fn keep_membership(
        mut self,
        driver: StartBarrier,
        mut snapshots: mpsc::UnboundedReceiver<OrdersRun>,
        mut end: oneshot::Receiver<Result<OrdersRun, String>>,
        on_coordination: impl Fn(&CoordinationEvent),
    ) -> Result<Self, OrdersError> {
        let StartBarrier { mut connected, start } = driver;
        let membership = self.membership.clone();
        let mut heartbeat = tokio::time::interval(Duration::from_millis(HEARTBEAT_MS));
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The driver keeps its number until its users are connected; an end before that means that connecting failed.
        let failed = loop {
            tokio::select! {
                _ = &mut connected => break None,
                ended = &mut end => break Some(ended),
                _ = heartbeat.tick() => self.store().await?.heartbeat(&membership, false).await?,
            }
        };
        if let Some(ended) = failed {
            return self.store_end(ended.unwrap_or_else(|_| Err("it was given up".to_owned())), &on_coordination).await;
        }
        let begin = match self.wait_at_barrier(&on_coordination).await {
            Ok(begin) => begin,
            Err(error) => {
                // Releases the number, so that a retry can use it.
                let _ = self.store().await?.end(&membership, &Err(error.to_string())).await;
                return Err(error);
            }
        };
        // If the driver has ended in the meantime, its end is stored below.
        let _ = start.send(begin);
        let mut more_snapshots = true;
        let ended = loop {
            let stored = tokio::select! {
                ended = &mut end => break ended,
                snapshot = snapshots.recv(), if more_snapshots => match snapshot {
                    Some(snapshot) => self.report(Some(&snapshot)).await,
                    None => { more_snapshots = false; Ok(()) }
                },
                _ = heartbeat.tick() => self.report(None).await,
            };
            if let Err(error) = stored {
                if matches!(error, OrdersError::Coordination(_)) {
                    return Err(error);
                }
                on_coordination(&CoordinationEvent::Warning(crate::error::chain(&error)));
            }
        };
        self.store_end(ended.unwrap_or_else(|_| Err("it was given up".to_owned())), &on_coordination).await
    }

    async fn store(&mut self) -> Result<&Store, OrdersError> {
        let open = self.store.take().filter(|store| !store.is_closed());
        let store = match open {
            Some(store) => store,
            None => Store::open(&self.shared_run.results).await?,
        };
        Ok(self.store.insert(store))
    }

    async fn report(&mut self, snapshot: Option<&OrdersRun>) -> Result<(), OrdersError> {
        let membership = self.membership.clone();
        let store = self.store().await?;
        match snapshot {
            Some(snapshot) => store.add_snapshot(&membership, snapshot).await,
            None => store.heartbeat(&membership, true).await,
        }
    }

    /// Waits until every driver is ready. Returns the start time.
    async fn wait_at_barrier(&mut self, on_coordination: &impl Fn(&CoordinationEvent)) -> Result<Instant, OrdersError> {
        let (began, mut shown_s) = (Instant::now(), None);
        let drivers = self.shared_run.drivers;
        let membership = self.membership.clone();
        loop {
            let store = self.store().await?;
            store.heartbeat(&membership, true).await?;
            let barrier = store.barrier(&membership, drivers).await?;
            if barrier.started {
                return store.start(&membership).await;
            }
            let missing: Vec<u32> = (1..=drivers).filter(|number| !barrier.ready.contains_key(number)).collect();
            let waited = began.elapsed();
            if waited >= self.shared_run.barrier_timeout {
                let named: Vec<String> = missing.iter().map(|number| format!("driver {number}")).collect();
                let (run, seconds) = (membership.run, waited.as_secs());
                return Err(CoordinationError::Barrier { run, seconds, missing: named.join(", ") }.into());
            }
            if shown_s != Some(waited.as_secs()) {
                shown_s = Some(waited.as_secs());
                let ready = u32::try_from(barrier.ready.len()).unwrap_or(u32::MAX);
                on_coordination(&CoordinationEvent::Waiting { ready, drivers, missing, waited_s: waited.as_secs() });
            }
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }

    /// Stores the end of this driver's run. Retries for a while, because this record is the only result of the run.
    async fn store_end(
        mut self,
        ended: Result<OrdersRun, String>,
        on_coordination: &impl Fn(&CoordinationEvent),
    ) -> Result<Self, OrdersError> {
        let began = Instant::now();
        let membership = self.membership.clone();
        loop {
            let stored = match self.store().await {
                Ok(store) => store.end(&membership, &ended).await,
                Err(error) => Err(error),
            };
            match stored {
                Ok(()) => return Ok(self),
                Err(error) if matches!(error, OrdersError::Coordination(_)) || began.elapsed().as_secs() >= STORE_S_MAX => {
                    return Err(error);
                }
                Err(error) => on_coordination(&CoordinationEvent::Warning(crate::error::chain(&error))),
            }
            tokio::time::sleep(Duration::from_millis(HEARTBEAT_MS)).await;
        }
    }

    /// Waits until no other driver is working. Does not wait for a driver without heartbeats.
    async fn wait_for_others(&mut self, on_coordination: &impl Fn(&CoordinationEvent)) -> Result<(), OrdersError> {
        let (began, mut shown_s) = (Instant::now(), None);
        let run = self.membership.run.clone();
        loop {
            let at_work = self.store().await?.at_work(&run).await?;
            let waited_s = began.elapsed().as_secs();
            if at_work.is_empty() || waited_s >= WAIT_S_MAX {
                return Ok(());
            }
            if waited_s > 0 && shown_s != Some(waited_s) {
                shown_s = Some(waited_s);
                on_coordination(&CoordinationEvent::Ending { at_work: at_work.into_keys().collect() });
            }
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }
}

/// Leaves the run after this driver was interrupted. Reports the end to the others if that is possible without delay.
/// The result is this driver's own measurement; the others continue without it.
async fn leave(
    outcome: Result<OrdersRun, OrdersError>,
    end: oneshot::Sender<Result<OrdersRun, String>>,
    mut membership_task: JoinHandle<Result<ResultsSession, OrdersError>>,
) -> Result<OrdersRun, OrdersError> {
    let _ = end.send(Err("it was interrupted".to_owned()));
    // A driver at the barrier does not receive the end: there the others notice the missing heartbeats.
    let _ = tokio::time::timeout(Duration::from_millis(HEARTBEAT_MS), &mut membership_task).await;
    membership_task.abort();
    outcome
}

/// After this driver's own run: stores its end, waits for the others, merges.
async fn conclude(
    shared_run: &SharedRun,
    outcome: Result<OrdersRun, OrdersError>,
    end: oneshot::Sender<Result<OrdersRun, String>>,
    membership_task: JoinHandle<Result<ResultsSession, OrdersError>>,
    on_coordination: &impl Fn(&CoordinationEvent),
) -> Result<OrdersRun, OrdersError> {
    let ended = outcome.as_ref().map(Clone::clone).map_err(|error| crate::error::chain(error));
    // If the task has already ended, its result, checked below, gives the reason.
    let _ = end.send(ended);
    let left = membership_task
        .await
        .map_err(|error| OrdersError::Thread { what: format!("the session with the results database: {error}") });
    let mut session = match (left, outcome) {
        (Ok(Err(error)), _) if matches!(error, OrdersError::Coordination(_)) => return Err(error),
        // If there was no start, the run's own error is only a consequence.
        (Ok(Err(error)), Err(OrdersError::Thread { .. })) => return Err(error),
        (_, Err(error)) => return Err(error),
        (left, Ok(_)) => left??,
    };
    session.wait_for_others(on_coordination).await?;
    merge_stored(session.store().await?, &shared_run.run).await
}

const _: () = assert!(WAIT_S_MAX > GRACE_S_MAX + DRIVER_TIMEOUT_S as u64 + STORE_S_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_has_a_session_and_never_more_than_users() {
        for users in [1, 3, 10, 10_000] {
            let sessions = |users_of| session_share(users, users_of, users);
            assert_eq!((sessions(1), sessions(users)), (1, users));
        }
    }
}
