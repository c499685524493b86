//! Turns for the writers of one file through the page cache.
//!
//! The host's lock of a file is not fair: running threads take it before sleeping ones, and of 1,000 writers some waited for a
//! second. So only a bounded number of writers use the file at the same time, and the others begin in the order in which they came. Durable
//! writes hold their turn while they wait for the disk, so they have separate turns.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;

use host::Unpoisoned;

use crate::limits::WRITERS_AT_ONCE_MAX;

/// The writers of one file.
#[derive(Default)]
pub(crate) struct WriteTurns {
    /// Number of writers that write or wait.
    writers: AtomicUsize,
    /// Made when the first writer has to wait.
    line: OnceLock<Box<Mutex<Line>>>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Arc<Waiter>>,
    /// Number of turns that ended before the next writer had queued.
    free: usize,
}

struct Waiter {
    thread: Thread,
    may_begin: AtomicBool,
}

/// A writer's turn. It ends when this is dropped.
#[must_use]
pub(crate) struct Turn<'n>(&'n WriteTurns);

impl WriteTurns {
    /// Waits for a turn.
    pub(crate) fn begin(&self) -> Turn<'_> {
        if self.writers.fetch_add(1, Ordering::AcqRel) >= WRITERS_AT_ONCE_MAX {
            self.wait();
        }
        Turn(self)
    }

    #[cold]
    fn wait(&self) {
        let mut line = self.line();
        if line.free > 0 {
            line.free -= 1;
            return;
        }
        let waiter = Arc::new(Waiter { thread: std::thread::current(), may_begin: AtomicBool::new(false) });
        line.waiting.push_back(Arc::clone(&waiter));
        drop(line);
        while !waiter.may_begin.load(Ordering::Acquire) {
            std::thread::park();
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.get_or_init(Box::default).lock().unpoisoned()
    }

    #[cold]
    fn pass_on(&self) {
        let mut line = self.line();
        let Some(next) = line.waiting.pop_front() else {
            line.free += 1;
            return;
        };
        drop(line);
        next.may_begin.store(true, Ordering::Release);
        next.thread.unpark();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.0.writers.fetch_sub(1, Ordering::AcqRel) > WRITERS_AT_ONCE_MAX {
            self.0.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_writes_at_once_and_the_others_begin_in_their_order() {
        let turns = WriteTurns::default();
        let begun = Mutex::new(Vec::new());
        let mut writing: VecDeque<_> = (0..WRITERS_AT_ONCE_MAX).map(|_| turns.begin()).collect();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (turns, begun) = (&turns, &begun);
                scope.spawn(move || {
                    let _turn = turns.begin();
                    begun.lock().unpoisoned().push(number);
                });
                while turns.line().waiting.len() <= number {
                    std::thread::yield_now();
                }
            }
            assert!(begun.lock().unpoisoned().is_empty());
            drop(writing.pop_front());
        });
        assert_eq!(*begun.lock().unpoisoned(), (0..8).collect::<Vec<_>>());
        drop(writing);
        assert_eq!((turns.writers.load(Ordering::Relaxed), turns.line().free), (0, 0));
    }

    #[test]
    fn every_writer_gets_a_turn_and_never_too_many_have_one() {
        let (turns, writing) = (WriteTurns::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 * WRITERS_AT_ONCE_MAX {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _turn = turns.begin();
                        assert!(writing.fetch_add(1, Ordering::SeqCst) < WRITERS_AT_ONCE_MAX);
                        std::thread::yield_now();
                        writing.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((turns.writers.load(Ordering::Relaxed), turns.line().waiting.len()), (0, 0));
    }
}
