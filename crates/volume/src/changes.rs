//! Counts the changes in flight, so that they can be stopped and drained.
//!
//! A change costs two atomic additions. A caller that stops changes sets a bit beside the count and waits until the count
//! is zero. Later it clears the bit. New changes wait while the bit is set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use host::Unpoisoned;

/// No new change may begin.
const STOPPED: u64 = 1 << 63;

/// The changes of a volume that are in flight.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Their number, and [`STOPPED`].
    state: AtomicU64,
    lock: Mutex<()>,
    /// Signalled, under the lock, when the last change ends after a stop, and when a stop ends.
    moved: Condvar,
}

/// One change in flight; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightChange<'a>(&'a Changes);

/// The changes did not drain in time, or another caller had stopped them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StillInFlight {
    pub(crate) waited: Duration,
    /// Changes in flight at the end of the time. Zero if another caller had stopped them.
    pub(crate) count: u64,
}

impl Changes {
    /// Begins a change. Waits while changes are stopped.
    pub(crate) fn begin(&self) -> InFlightChange<'_> {
        loop {
            if self.state.fetch_add(1, Ordering::SeqCst) & STOPPED == 0 {
                return InFlightChange(self);
            }
            self.end();
            let mut lock = self.lock.lock().unpoisoned();
            while self.state.load(Ordering::SeqCst) & STOPPED != 0 {
                lock = self.moved.wait(lock).unpoisoned();
            }
        }
    }

    fn end(&self) {
        if self.state.fetch_sub(1, Ordering::SeqCst) == STOPPED | 1 {
            let _lock = self.lock.lock().unpoisoned();
            self.moved.notify_all();
        }
    }

    /// Stops new changes and waits until no change is in flight. Returns how long that took.
    ///
    /// **Errors**: it takes longer than `timeout`; then this caller stops nothing.
    pub(crate) fn stop(&self, timeout: Duration) -> Result<Duration, StillInFlight> {
        let began = Instant::now();
        let mut lock = self.lock.lock().unpoisoned();
        while self.state.load(Ordering::SeqCst) & STOPPED != 0 {
            lock = self.wait(lock, began, timeout, 0)?;
        }
        self.state.fetch_or(STOPPED, Ordering::SeqCst);
        loop {
            let count = self.state.load(Ordering::SeqCst) & !STOPPED;
            if count == 0 {
                return Ok(began.elapsed());
            }
            match self.wait(lock, began, timeout, count) {
                Ok(held) => lock = held,
                Err(late) => {
                    self.resume();
                    return Err(late);
                }
            }
        }
    }

    /// Waits for a signal. Releases the lock and fails if the time is over.
    fn wait<'l>(
        &self,
        lock: MutexGuard<'l, ()>,
        began: Instant,
        timeout: Duration,
        count: u64,
    ) -> Result<MutexGuard<'l, ()>, StillInFlight> {
        let waited = began.elapsed();
        if waited >= timeout {
            return Err(StillInFlight { waited, count });
        }
        let (lock, _) = self.moved.wait_timeout(lock, timeout - waited).unpoisoned();
        Ok(lock)
    }

    /// Lets changes begin again.
    pub(crate) fn resume(&self) {
        let _lock = self.lock.lock().unpoisoned();
        self.state.fetch_and(!STOPPED, Ordering::SeqCst);
        self.moved.notify_all();
    }

    /// Whether changes are stopped now.
    pub(crate) fn are_stopped(&self) -> bool {
        self.state.load(Ordering::Relaxed) & STOPPED != 0
    }
}

impl Drop for InFlightChange<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_stop_waits_for_the_change_in_flight_and_new_ones_wait_for_its_end() {
        let changes = Changes::default();
        let first = changes.begin();
        let began = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let stop = scope.spawn(|| changes.stop(LONG));
            while !changes.are_stopped() {
                std::thread::yield_now();
            }
            for _ in 0..4 {
                scope.spawn(|| {
                    let _change = changes.begin();
                    began.fetch_add(1, Ordering::SeqCst);
                });
            }
            assert!(!stop.is_finished(), "one is in flight");
            drop(first);
            assert!(stop.join().unwrap().is_ok());
            assert_eq!(began.load(Ordering::SeqCst), 0);
            changes.resume();
        });
        assert_eq!(began.load(Ordering::SeqCst), 4);
        assert_eq!(changes.state.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_stop_that_is_late_names_the_changes_in_flight_and_leaves_nothing_stopped() {
        let changes = Changes::default();
        let (one, two) = (changes.begin(), changes.begin());
        let late = changes.stop(Duration::from_millis(5)).unwrap_err();
        assert!(late.count == 2 && late.waited >= Duration::from_millis(5), "{late:?}");
        drop((one, two, changes.begin()));
        assert!(changes.stop(Duration::ZERO).is_ok(), "none is in flight");
        assert_eq!(changes.stop(Duration::from_millis(5)).unwrap_err().count, 0, "another caller has them stopped");
        assert!(changes.are_stopped());
        changes.resume();
        drop(changes.begin());
    }

    #[test]
    fn stops_and_changes_never_overlap() {
        let changes = Changes::default();
        let value = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let _change = changes.begin();
                        value.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        changes.stop(LONG).unwrap();
                        let before = value.load(Ordering::SeqCst);
                        std::thread::yield_now();
                        assert_eq!(value.load(Ordering::SeqCst), before);
                        changes.resume();
                    }
                });
            }
        });
        assert_eq!(value.load(Ordering::SeqCst), 8000);
    }
}
