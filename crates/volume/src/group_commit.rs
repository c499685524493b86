//! Group commit: one caller flushes an object for all callers that were waiting when the flush began.

use std::io;
use std::sync::{Condvar, Mutex};

use host::Unpoisoned;

/// The flushes of one object.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of flushes begun so far, which is the number of the latest.
    begun: u64,
    /// Latest successful flush of either kind.
    ended_data: u64,
    /// Latest successful flush that covered all attributes.
    ended_whole: u64,
    /// Latest flush that failed, and its error number.
    failed: Option<(u64, i32)>,
    running: bool,
    /// Number of callers that wait for another caller's flush.
    waiting: usize,
    /// A caller that waits for a flush not yet begun needs the attributes too.
    whole_wanted: bool,
}

impl GroupCommit {
    /// Returns after a flush that began after this call. Runs `flush(whole)` itself if no other caller does.
    /// Callers that come during a flush share the next one.
    ///
    /// **Errors**: the error number of that flush, returned to each caller that waited for it.
    pub(crate) fn flush(&self, whole: bool, mut flush: impl FnMut(bool) -> io::Result<()>) -> Result<(), i32> {
        let mut state = self.state.lock().unpoisoned();
        let wanted = state.begun + 1;
        state.whole_wanted |= whole;
        loop {
            let ended = if whole { state.ended_whole } else { state.ended_data };
            if ended >= wanted {
                return Ok(());
            }
            if let Some((number, errno)) = state.failed
                && number >= wanted
            {
                return Err(errno);
            }
            if state.running {
                state.waiting += 1;
                state = self.ended.wait(state).unpoisoned();
                state.waiting -= 1;
                continue;
            }
            state.running = true;
            state.begun += 1;
            let number = state.begun;
            let cover_all = std::mem::take(&mut state.whole_wanted);
            drop(state);
            let result = flush(cover_all);
            state = self.state.lock().unpoisoned();
            state.running = false;
            match result {
                Ok(()) => {
                    state.ended_data = number;
                    if cover_all {
                        state.ended_whole = number;
                    }
                }
                Err(error) => state.failed = Some((number, error.raw_os_error().unwrap_or(libc::EIO))),
            }
            self.ended.notify_all();
        }
    }

    /// Number of callers that wait for another caller's flush.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().unpoisoned().waiting
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
        let commits = Arc::new(GroupCommit::default());
        let ran = Arc::new(AtomicU64::new(0));
        let (started, wait_started) = mpsc::channel();
        let (go, wait_go) = mpsc::channel::<()>();
        let first = {
            let (commits, ran) = (commits.clone(), ran.clone());
            std::thread::spawn(move || {
                commits.flush(false, |_| {
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
                let (commits, ran) = (commits.clone(), ran.clone());
                std::thread::spawn(move || {
                    commits.flush(n == 3, |_| {
                        ran.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    })
                })
            })
            .collect();
        while commits.state.lock().unwrap().waiting < 8 {
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
        let commits = GroupCommit::default();
        assert_eq!(commits.flush(true, |_| Err(io::Error::from_raw_os_error(libc::EIO))), Err(libc::EIO));
        assert_eq!(commits.flush(true, |_| Ok(())), Ok(()));
    }

    #[test]
    fn whole_flush_is_made_when_asked() {
        let commits = GroupCommit::default();
        let mut seen = Vec::new();
        commits
            .flush(false, |whole| {
                seen.push(whole);
                Ok(())
            })
            .unwrap();
        commits
            .flush(true, |whole| {
                seen.push(whole);
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [false, true]);
    }
}
