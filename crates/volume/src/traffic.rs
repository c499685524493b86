//! Keeps direct and buffered changes of one file apart.
//!
//! A direct write drops the pages it passes by. Finds it one of them dirty again afterwards, the kernel cannot: it marks
//! the file as having lost data, and a flush of a healthy file then fails with EIO. So a direct write begins only while no
//! buffered change of the file is under way and no buffered data waits for a flush; and a buffered change waits until
//! the direct writes under way have ended. A direct write that may not begin goes through the page cache: it never waits,
//! so neither sort can starve the other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Changes of a file's content under way.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    state: Mutex<UnderWay>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct UnderWay {
    buffered: usize,
    direct: usize,
    /// Buffered changes that wait for the direct ones to end: no further direct one begins.
    waiting: usize,
}

/// A change under way; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    traffic: &'a Traffic,
    direct: bool,
}

impl Traffic {
    /// A buffered change begins, once no direct one is under way.
    pub(crate) fn buffered(&self) -> Turn<'_> {
        let mut state = self.state();
        state.waiting += 1;
        while state.direct > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.buffered += 1;
        Turn { traffic: self, direct: false }
    }

    /// A direct write begins, if it may: `clean` says that no buffered data waits for a flush, and is asked while nothing
    /// can begin or end.
    pub(crate) fn direct(&self, clean: impl FnOnce() -> bool) -> Option<Turn<'_>> {
        let mut state = self.state();
        if state.buffered > 0 || state.waiting > 0 || !clean() {
            return None;
        }
        state.direct += 1;
        Some(Turn { traffic: self, direct: true })
    }

    fn state(&self) -> MutexGuard<'_, UnderWay> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.traffic.state();
        let count = if self.direct { &mut state.direct } else { &mut state.buffered };
        *count -= 1;
        let wake = self.direct && *count == 0 && state.waiting > 0;
        drop(state);
        if wake {
            self.traffic.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn direct_writes_overlap_each_other_and_no_buffered_change() {
        let traffic = Traffic::default();
        let first = traffic.direct(|| true).unwrap();
        let second = traffic.direct(|| true).unwrap();
        assert!(traffic.direct(|| false).is_none(), "buffered data waits for a flush");
        drop((first, second));
        let buffered = traffic.buffered();
        assert!(traffic.direct(|| true).is_none());
        drop(buffered);
        assert!(traffic.direct(|| true).is_some());
    }

    #[test]
    fn a_buffered_change_waits_for_direct_ones_and_keeps_further_ones_out() {
        let traffic = Traffic::default();
        let began = AtomicBool::new(false);
        let direct = traffic.direct(|| true).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _turn = traffic.buffered();
                began.store(true, Ordering::SeqCst);
            });
            while traffic.state().waiting == 0 {
                std::thread::yield_now();
            }
            assert!(!began.load(Ordering::SeqCst));
            assert!(traffic.direct(|| true).is_none(), "one waits");
            drop(direct);
        });
        assert!(began.load(Ordering::SeqCst));
        assert!(traffic.direct(|| true).is_some());
    }
}
