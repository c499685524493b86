//! Several drivers of one run, on one or more hosts, that meet in a results database.
//!
//! Each takes a place in the run, connects its share of the users, and waits at a barrier until all
//! are ready; then they begin at one moment of the results database's clock. While it runs a driver
//! says once a second that it lives and stores cuts of what it measured, so that the figures of a
//! driver that dies are not lost and nobody waits for it. The last act is the merged record.

mod error;
mod merge;
mod settle;
mod store;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use results::orders_run::OrdersRun;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use error::MeetingError;
pub use merge::merge;

use crate::database::Database;
use crate::driver::{Companions, Event, RunOptions, run_with};
use crate::error::OrdersError;
use crate::limits::{
    CUTS_MAX, DRIVER_SILENCE_S, DRIVERS_MAX, GRACE_S, HEARTBEAT_MS, LOOK_MS, RUN_NAME_BYTES_MAX, STORE_S_MAX, WAIT_S_MAX,
};
use crate::postgres::Postgres;
use settle::Common;
use store::{Place, Store};

/// Which run to drive together, and where its drivers meet.
#[derive(Debug, Clone)]
pub struct Meeting {
    /// The results database.
    pub results: Postgres,
    /// Name of the run, new for every run.
    pub run: String,
    /// How many drivers it has.
    pub drivers: u32,
    /// Which of them this is, from 1; the first free place when absent.
    pub driver: Option<u32>,
    /// Name of this host, for the record.
    pub host: String,
    /// How long the others are waited for.
    pub barrier_timeout: Duration,
}

/// What all drivers of a run must have been told alike.
#[derive(Debug, Clone)]
struct Terms {
    /// Asked for by the user; absent: the run's first driver chooses.
    seed: Option<u64>,
    /// What it chooses.
    seed_else: u64,
    warmup_s: u64,
    measured_s: u64,
    users: u32,
    /// Everything else, by the name of the option.
    agreed: BTreeMap<String, String>,
}

impl Terms {
    /// Users of driver `number` (from 1) of `drivers`, and the number of the first of them.
    fn share(&self, number: u32, drivers: u32) -> (u32, u32) {
        let (each, over, before) = (self.users / drivers, self.users % drivers, number - 1);
        (each + u32::from(before < over), before * each + before.min(over))
    }
}

/// What happens around the run.
#[derive(Debug, Clone, PartialEq)]
pub enum Meet {
    /// This driver has its place.
    Joined {
        /// Its number, from 1.
        driver: u32,
        /// Users it drives.
        users: u32,
    },
    /// Told once a second until all are ready.
    Waiting {
        /// Drivers that are ready.
        ready: u32,
        /// Drivers of the run.
        drivers: u32,
        /// Those that are not, by number.
        missing: Vec<u32>,
        /// Seconds waited so far.
        waited_s: u64,
    },
    /// The run ended here; told once a second while others are at work.
    Ending {
        /// Drivers still at work, by number.
        at_work: Vec<u32>,
    },
    /// The results database did not take something; it is tried again.
    Trouble(String),
}

/// Drives this driver's share of a run and gives the record merged of all its drivers.
///
/// `options.users` are the users of all drivers together; `seed` is what the user asked for, else
/// the seed of the run's first driver replaces `options.seed`. `also` holds whatever else the
/// drivers must have been told alike, by the name of the option.
///
/// # Errors
/// [`MeetingError`] when the drivers do not come together; errors of this driver's own run, which
/// the results database is told; anything that keeps the merged record from being made. What this
/// driver measured is in the results database by then whenever that could be reached.
pub async fn run<D: Database>(
    meeting: &Meeting,
    database: &D,
    (options, seed, also): (&RunOptions, Option<u64>, BTreeMap<String, String>),
    on_event: impl FnMut(&Event),
    on_meet: impl Fn(&Meet) + Clone + Send + Sync + 'static,
) -> Result<OrdersRun, OrdersError> {
    let terms = terms(meeting, database, options, seed, also).await?;
    let store = Store::open(&meeting.results).await?;
    store.prepare().await?;
    let place = store.join(meeting, &terms).await?;
    on_meet(&Meet::Joined { driver: place.number.unsigned_abs(), users: place.users });
    let own = RunOptions {
        users: place.users,
        first_user: place.first_user,
        seed: place.seed,
        model: options.model.share(place.users, options.users),
        connections: shared(options.connections, place.users, options.users),
        ..options.clone()
    };

    let (connected_to, connected) = oneshot::channel();
    let (start_to, start) = oneshot::channel();
    let (cuts_to, cuts) = mpsc::unbounded_channel();
    let (end_to, end) = oneshot::channel();
    let link = Link { meeting: meeting.clone(), place: place.clone(), store: Some(store) };
    let attendance = tokio::spawn(link.attend(Gate { connected, start: start_to }, cuts, end, on_meet.clone()));
    let companions =
        Companions { connected: connected_to, start, cut_every_s: options.measured_s.div_ceil(CUTS_MAX), cuts: cuts_to };
    let outcome = run_with(database, &own, Some(companions), on_event).await;
    conclude(meeting, outcome, end_to, attendance, &on_meet).await
}

/// Merges what the drivers of a run left in the results database, and keeps the result there.
///
/// # Errors
/// [`MeetingError::NoRun`], [`MeetingError::Nothing`], or what the database says.
pub async fn merged(results: &Postgres, run: &str) -> Result<OrdersRun, OrdersError> {
    let store = Store::open(results).await?;
    merge_stored(&store, run).await
}

/// Of `all` sessions those of `part` of `whole` users: at least one, never more than users.
fn shared(all: u32, part: u32, whole: u32) -> u32 {
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
    let common = settle::common(&drivers);
    let cuts = match common {
        Common::Whole => BTreeMap::new(),
        Common::Cut(second) => store.cuts(run, second).await?,
    };
    let merged = settle::settle(run, measured_s, &drivers, common, &cuts)?;
    store.keep_merged(run, &merged, is_whole(&merged)).await?;
    Ok(merged)
}

async fn terms<D: Database>(
    meeting: &Meeting,
    database: &D,
    options: &RunOptions,
    seed: Option<u64>,
    also: BTreeMap<String, String>,
) -> Result<Terms, OrdersError> {
    let wrong = |what: String| Err(OrdersError::from(MeetingError::Terms { what }));
    if meeting.run.is_empty() || meeting.run.len() > RUN_NAME_BYTES_MAX {
        return wrong(format!("--run has {} bytes, a name has 1 to {RUN_NAME_BYTES_MAX}", meeting.run.len()));
    }
    if !(1..=DRIVERS_MAX).contains(&meeting.drivers) {
        return wrong(format!("--drivers = {} is outside 1 to {DRIVERS_MAX}", meeting.drivers));
    }
    if let Some(driver) = meeting.driver.filter(|driver| !(1..=meeting.drivers).contains(driver)) {
        return wrong(format!("--driver = {driver} is outside 1 to {} (--drivers)", meeting.drivers));
    }
    if options.users < meeting.drivers {
        return wrong(format!("{} users cannot be shared among {} drivers", options.users, meeting.drivers));
    }
    let config = database.config().await?;
    let mut agreed = also;
    agreed.insert("--users".to_owned(), options.users.to_string());
    agreed.insert("warehouses of the database".to_owned(), config.warehouses.to_string());
    agreed.insert("seed of the loaded rows".to_owned(), config.seed.to_string());
    Ok(Terms {
        seed,
        seed_else: options.seed,
        warmup_s: options.warmup_s,
        measured_s: options.measured_s,
        users: options.users,
        agreed,
    })
}

/// The driver's side of the barrier.
struct Gate {
    connected: oneshot::Receiver<()>,
    start: oneshot::Sender<Instant>,
}

/// This driver's session with the results database, opened again when it is lost.
struct Link {
    meeting: Meeting,
    place: Place,
    store: Option<Store>,
}

impl Link {
    /// Keeps the place until the run has ended here: barrier, heartbeats, cuts, the end.
    async fn attend(
        mut self,
        gate: Gate,
        mut cuts: mpsc::UnboundedReceiver<OrdersRun>,
        mut end: oneshot::Receiver<Result<OrdersRun, String>>,
        on_meet: impl Fn(&Meet),
    ) -> Result<Self, OrdersError> {
        let Gate { mut connected, start } = gate;
        let place = self.place.clone();
        let mut beat = tokio::time::interval(Duration::from_millis(HEARTBEAT_MS));
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Until the users are connected the place is kept; an end before that is a failure to connect.
        let failed = loop {
            tokio::select! {
                _ = &mut connected => break None,
                ended = &mut end => break Some(ended),
                _ = beat.tick() => self.store().await?.heartbeat(&place, false).await?,
            }
        };
        if let Some(ended) = failed {
            return self.store_end(ended.unwrap_or_else(|_| Err("it was given up".to_owned())), &on_meet).await;
        }
        let begin = match self.stand_at_barrier(&on_meet).await {
            Ok(begin) => begin,
            Err(error) => {
                // The place is free again for another try.
                let _ = self.store().await?.end(&place, &Err(error.to_string())).await;
                return Err(error);
            }
        };
        // A driver that ended meanwhile tells it below.
        let _ = start.send(begin);
        let mut more_cuts = true;
        let ended = loop {
            let told = tokio::select! {
                ended = &mut end => break ended,
                cut = cuts.recv(), if more_cuts => match cut {
                    Some(cut) => self.tell(Some(&cut)).await,
                    None => { more_cuts = false; Ok(()) }
                },
                _ = beat.tick() => self.tell(None).await,
            };
            if let Err(error) = told {
                if matches!(error, OrdersError::Meeting(_)) {
                    return Err(error);
                }
                on_meet(&Meet::Trouble(crate::error::chain(&error)));
            }
        };
        self.store_end(ended.unwrap_or_else(|_| Err("it was given up".to_owned())), &on_meet).await
    }

    async fn store(&mut self) -> Result<&Store, OrdersError> {
        let open = self.store.take().filter(|store| !store.is_closed());
        let store = match open {
            Some(store) => store,
            None => Store::open(&self.meeting.results).await?,
        };
        Ok(self.store.insert(store))
    }

    async fn tell(&mut self, cut: Option<&OrdersRun>) -> Result<(), OrdersError> {
        let place = self.place.clone();
        let store = self.store().await?;
        match cut {
            Some(cut) => store.cut(&place, cut).await,
            None => store.heartbeat(&place, true).await,
        }
    }

    /// Waits until every driver is ready; gives the moment all begin.
    async fn stand_at_barrier(&mut self, on_meet: &impl Fn(&Meet)) -> Result<Instant, OrdersError> {
        let (came, mut told_s) = (Instant::now(), None);
        let drivers = self.meeting.drivers;
        let place = self.place.clone();
        loop {
            let store = self.store().await?;
            store.heartbeat(&place, true).await?;
            let barrier = store.barrier(&place, drivers).await?;
            if barrier.started {
                return store.start(&place).await;
            }
            let missing: Vec<u32> = (1..=drivers).filter(|number| !barrier.ready.contains_key(number)).collect();
            let waited = came.elapsed();
            if waited >= self.meeting.barrier_timeout {
                let named: Vec<String> = missing.iter().map(|number| format!("driver {number}")).collect();
                let (run, seconds) = (place.run, waited.as_secs());
                return Err(MeetingError::Barrier { run, seconds, missing: named.join(", ") }.into());
            }
            if told_s != Some(waited.as_secs()) {
                told_s = Some(waited.as_secs());
                let ready = u32::try_from(barrier.ready.len()).unwrap_or(u32::MAX);
                on_meet(&Meet::Waiting { ready, drivers, missing, waited_s: waited.as_secs() });
            }
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }

    /// Stores how the run ended here, trying for a while: it is all that is left of the work.
    async fn store_end(mut self, ended: Result<OrdersRun, String>, on_meet: &impl Fn(&Meet)) -> Result<Self, OrdersError> {
        let began = Instant::now();
        let place = self.place.clone();
        loop {
            let stored = match self.store().await {
                Ok(store) => store.end(&place, &ended).await,
                Err(error) => Err(error),
            };
            match stored {
                Ok(()) => return Ok(self),
                Err(error) if matches!(error, OrdersError::Meeting(_)) || began.elapsed().as_secs() >= STORE_S_MAX => {
                    return Err(error);
                }
                Err(error) => on_meet(&Meet::Trouble(crate::error::chain(&error))),
            }
            tokio::time::sleep(Duration::from_millis(HEARTBEAT_MS)).await;
        }
    }

    /// Waits until nobody is at work any more; a driver that falls silent is not waited for.
    async fn wait_for_others(&mut self, on_meet: &impl Fn(&Meet)) -> Result<(), OrdersError> {
        let (came, mut told_s) = (Instant::now(), None);
        let run = self.place.run.clone();
        loop {
            let at_work = self.store().await?.at_work(&run).await?;
            let waited_s = came.elapsed().as_secs();
            if at_work.is_empty() || waited_s >= WAIT_S_MAX {
                return Ok(());
            }
            if waited_s > 0 && told_s != Some(waited_s) {
                told_s = Some(waited_s);
                on_meet(&Meet::Ending { at_work: at_work.into_keys().collect() });
            }
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }
}

/// After the own run: tells its end, waits for the others, merges.
async fn conclude(
    meeting: &Meeting,
    outcome: Result<OrdersRun, OrdersError>,
    end: oneshot::Sender<Result<OrdersRun, String>>,
    attendance: JoinHandle<Result<Link, OrdersError>>,
    on_meet: &impl Fn(&Meet),
) -> Result<OrdersRun, OrdersError> {
    let told = outcome.as_ref().map(Clone::clone).map_err(|error| crate::error::chain(error));
    // A task that ended before has its own reason, found below.
    let _ = end.send(told);
    let attended = attendance.await.map_err(|error| OrdersError::Thread { what: format!("the meeting: {error}") });
    let mut link = match (attended, outcome) {
        (Ok(Err(error)), _) if matches!(error, OrdersError::Meeting(_)) => return Err(error),
        // Without a start the run's own error says nothing.
        (Ok(Err(error)), Err(OrdersError::Thread { .. })) => return Err(error),
        (_, Err(error)) => return Err(error),
        (attended, Ok(_)) => attended??,
    };
    link.wait_for_others(on_meet).await?;
    merge_stored(link.store().await?, &meeting.run).await
}

const _: () = assert!(WAIT_S_MAX > GRACE_S + DRIVER_SILENCE_S as u64 + STORE_S_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_disjoint_and_cover_all_users() {
        for (users, drivers) in [(1, 1), (10, 3), (3, 3), (11, 4), (10_000, 7)] {
            let terms = Terms { seed: None, seed_else: 1, warmup_s: 0, measured_s: 1, users, agreed: BTreeMap::new() };
            let mut next = 0;
            for number in 1..=drivers {
                let (share, first) = terms.share(number, drivers);
                assert!(first == next && share >= users / drivers, "{users} {drivers} {number}");
                next = first + share;
            }
            assert_eq!(next, users);
            let sessions = |users_of| shared(users, users_of, users);
            assert_eq!((sessions(1), sessions(users)), (1, users));
        }
    }
}
