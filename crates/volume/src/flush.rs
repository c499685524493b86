//! Group commit: one caller flushes an object for all who asked before the flush began.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

/// Turns of flushing one object.
#[derive(Debug, Default)]
pub(crate) struct FlushTurns {
    state: Mutex<Turns>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    /// Flushes begun so far; the number of the latest.
    begun: u64,
    /// Latest flush that ended well, of any sort.
    ended_data: u64,
    /// Latest flush that ended well and covered all attributes.
    ended_whole: u64,
    /// Latest flush that failed, and its error number.
    failed: Option<(u64, i32)>,
    running: bool,
    /// Callers who wait for a flush of somebody else.
    waiting: usize,
    /// Someone who waits for a flush not yet begun needs the attributes too.
    whole_wanted: bool,
}

impl FlushTurns {
    /// Returns after a flush that began after this call. Runs `flush(whole)` itself when nobody else
    /// does; callers that came meanwhile share the next one.
    ///
    /// **Errors**: the error number of that flush, told to each who waited for it.
    pub(crate) fn flush(&self, whole: bool, mut flush: impl FnMut(bool) -> io::Result<()>) -> Result<(), i32> {
        let mut turns = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = turns.begun + 1;
        turns.whole_wanted |= whole;
        loop {
            let ended = if whole { turns.ended_whole } else { turns.ended_data };
            if ended >= wanted {
                return Ok(());
            }
            if let Some((turn, errno)) = turns.failed
                && turn >= wanted
            {
                return Err(errno);
            }
            if turns.running {
                turns.waiting += 1;
                turns = self.ended.wait(turns).unwrap_or_else(PoisonError::into_inner);
                turns.waiting -= 1;
                continue;
            }
            turns.running = true;
            turns.begun += 1;
            let turn = turns.begun;
            let cover_all = std::mem::take(&mut turns.whole_wanted);
            drop(turns);
            let result = flush(cover_all);
            turns = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            turns.running = false;
            match result {
                Ok(()) => {
                    turns.ended_data = turn;
                    if cover_all {
                        turns.ended_whole = turn;
                    }
                }
                Err(error) => turns.failed = Some((turn, error.raw_os_error().unwrap_or(libc::EIO))),
            }
            self.ended.notify_all();
        }
    }

    /// Callers who wait for the flush of another.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn callers_who_arrive_during_a_flush_share_the_next_one() {
        let turns = Arc::new(FlushTurns::default());
        let ran = Arc::new(AtomicU64::new(0));
        let (started, wait_started) = mpsc::channel();
        let (go, wait_go) = mpsc::channel::<()>();
        let first = {
            let (turns, ran) = (turns.clone(), ran.clone());
            std::thread::spawn(move || {
                turns.flush(false, |_| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    started.send(()).unwrap();
                    wait_go.recv().unwrap();
                    Ok(())
                })
            })
        };
        wait_started.recv().unwrap();
        let others: Vec<_> = (0..8)
            .map(|n| {
                let (turns, ran) = (turns.clone(), ran.clone());
                std::thread::spawn(move || {
                    turns.flush(n == 3, |_| {
                        ran.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    })
                })
            })
            .collect();
        while turns.state.lock().unwrap().waiting < 8 {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
        assert_eq!(first.join().unwrap(), Ok(()));
        for other in others {
            assert_eq!(other.join().unwrap(), Ok(()));
        }
        assert_eq!(ran.load(Ordering::SeqCst), 2, "one for the first, one for the eight who came during it");
    }

    #[test]
    fn failure_reaches_the_caller_and_the_next_flush_is_a_new_one() {
        let turns = FlushTurns::default();
        assert_eq!(turns.flush(true, |_| Err(io::Error::from_raw_os_error(libc::EIO))), Err(libc::EIO));
        assert_eq!(turns.flush(true, |_| Ok(())), Ok(()));
    }

    #[test]
    fn whole_flush_is_made_when_asked() {
        let turns = FlushTurns::default();
        let mut seen = Vec::new();
        turns
            .flush(false, |whole| {
                seen.push(whole);
                Ok(())
            })
            .unwrap();
        turns
            .flush(true, |whole| {
                seen.push(whole);
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [false, true]);
    }
}
