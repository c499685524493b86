//! Keeps direct and buffered writes to one file from overlapping in time.
//!
//! A direct write invalidates the cached pages it covers. If one of them is dirty again afterwards, the kernel marks the
//! file as having lost data, and a flush of an intact file fails with EIO. So a direct write begins only if no
//! buffered write to the file is in flight and no buffered data waits for a flush. A buffered write waits until
//! the direct ones in flight have ended. If a direct write may not begin, it goes through the page cache without waiting,
//! so neither kind can starve the other.

use std::sync::{Condvar, Mutex};

use host::Unpoisoned;

/// Writes in flight to one file.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    state: Mutex<Counts>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    buffered: usize,
    direct: usize,
    /// Buffered writes that wait for the direct ones to end. Meanwhile no further direct one begins.
    waiting: usize,
}

/// A write in flight. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard<'a> {
    in_flight: &'a InFlight,
    direct: bool,
}

impl InFlight {
    /// Begins a buffered write. Waits while a direct one is in flight.
    pub(crate) fn buffered(&self) -> InFlightGuard<'_> {
        let mut state = self.state.lock().unpoisoned();
        state.waiting += 1;
        while state.direct > 0 {
            state = self.ended.wait(state).unpoisoned();
        }
        state.waiting -= 1;
        state.buffered += 1;
        InFlightGuard { in_flight: self, direct: false }
    }

    /// Begins a direct write. `None` if it may not begin. `clean` returns whether no buffered data waits for a flush; it is called
    /// while no write can begin or end.
    pub(crate) fn direct(&self, clean: impl FnOnce() -> bool) -> Option<InFlightGuard<'_>> {
        let mut state = self.state.lock().unpoisoned();
        if state.buffered > 0 || state.waiting > 0 || !clean() {
            return None;
        }
        state.direct += 1;
        Some(InFlightGuard { in_flight: self, direct: true })
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.in_flight.state.lock().unpoisoned();
        let count = if self.direct { &mut state.direct } else { &mut state.buffered };
        *count -= 1;
        let wake = self.direct && *count == 0 && state.waiting > 0;
        drop(state);
        if wake {
            self.in_flight.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn direct_writes_overlap_each_other_and_no_buffered_change() {
        let in_flight = InFlight::default();
        let first = in_flight.direct(|| true).unwrap();
        let second = in_flight.direct(|| true).unwrap();
        assert!(in_flight.direct(|| false).is_none(), "buffered data waits for a flush");
        drop((first, second));
        let buffered = in_flight.buffered();
        assert!(in_flight.direct(|| true).is_none());
        drop(buffered);
        assert!(in_flight.direct(|| true).is_some());
    }

    #[test]
    fn a_buffered_change_waits_for_direct_ones_and_keeps_further_ones_out() {
        let in_flight = InFlight::default();
        let began = AtomicBool::new(false);
        let direct = in_flight.direct(|| true).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = in_flight.buffered();
                began.store(true, Ordering::SeqCst);
            });
            while in_flight.state.lock().unpoisoned().waiting == 0 {
                std::thread::yield_now();
            }
            assert!(!began.load(Ordering::SeqCst));
            assert!(in_flight.direct(|| true).is_none(), "one waits");
            drop(direct);
        });
        assert!(began.load(Ordering::SeqCst));
        assert!(in_flight.direct(|| true).is_some());
    }
}
