//! The idle workers of a pool.
//!
//! The worker that became idle last is called first: its stack is still in the processor's caches. So the pool uses as many workers as it
//! has calls at a time, and a worker that it needed only for a moment stays idle until it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A worker, as seen by the threads that call it.
#[derive(Debug)]
pub(super) struct Worker {
    thread: Thread,
    called: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct IdleWorkers {
    workers: Vec<Arc<Worker>>, // the one that became idle first comes first
    watched: bool,             // one of them waits for a limited time
}

impl Worker {
    /// The worker of the current thread.
    pub(super) fn current() -> Arc<Self> {
        Arc::new(Self { thread: std::thread::current(), called: AtomicBool::new(false) })
    }

    /// Ends [`Worker::wait`].
    pub(super) fn wake(&self) {
        self.thread.unpark();
    }

    /// Waits for a call, for `limit` at most.
    pub(super) fn wait(&self, limit: Option<Duration>) {
        let begun = Instant::now();
        while !self.called.load(Ordering::Acquire) {
            let Some(limit) = limit else {
                std::thread::park();
                continue;
            };
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

impl IdleWorkers {
    /// Adds this thread's worker. Returns true if the thread must wait for a limited time. One thread among those that may end does,
    /// which saves the others a timer. `may_end`: the pool has more workers than it keeps.
    pub(super) fn add(&mut self, worker: &Arc<Worker>, may_end: bool) -> bool {
        worker.called.store(false, Ordering::Relaxed);
        self.workers.push(Arc::clone(worker));
        let watches = may_end && !self.watched;
        self.watched |= watches;
        watches
    }

    /// Removes this thread's worker after its wait.
    pub(super) fn remove(&mut self, worker: &Arc<Worker>, watched: bool) {
        self.watched &= !watched;
        if !worker.called.load(Ordering::Relaxed) {
            self.workers.retain(|other| !Arc::ptr_eq(other, worker));
        }
    }

    /// Calls the worker that became idle last. The caller wakes it.
    pub(super) fn call(&mut self) -> Option<Arc<Worker>> {
        self.workers.pop().inspect(|worker| worker.called.store(true, Ordering::Release))
    }

    /// Calls the worker that became idle first. The caller wakes it.
    pub(super) fn call_oldest(&mut self) -> Option<Arc<Worker>> {
        let worker = (!self.workers.is_empty()).then(|| self.workers.remove(0))?;
        worker.called.store(true, Ordering::Release);
        Some(worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle<const N: usize>(idle: &mut IdleWorkers) -> [Arc<Worker>; N] {
        std::array::from_fn(|_| {
            let worker = Worker::current();
            idle.add(&worker, false);
            worker
        })
    }

    #[test]
    fn the_worker_that_became_idle_last_is_called_first_and_a_called_one_does_not_wait() {
        let mut workers = IdleWorkers::default();
        let [first, second, third] = idle(&mut workers);
        assert!(Arc::ptr_eq(&workers.call().unwrap(), &third));
        third.wait(None);
        assert!(Arc::ptr_eq(&workers.call_oldest().unwrap(), &first));
        workers.remove(&third, false);
        assert!(Arc::ptr_eq(&workers.call().unwrap(), &second) && workers.call().is_none());
    }

    #[test]
    fn one_worker_waits_for_a_limited_time_and_another_does_when_it_is_called() {
        let mut workers = IdleWorkers::default();
        let [a, b, c] = [(); 3].map(|()| Worker::current());
        assert_eq!([workers.add(&a, true), workers.add(&b, true)], [true, false]);
        a.wait(Some(Duration::from_millis(1)));
        workers.remove(&a, true);
        assert!(workers.add(&c, true), "the one that watched is gone");
        assert!(
            Arc::ptr_eq(&workers.call().unwrap(), &c) && Arc::ptr_eq(&workers.call().unwrap(), &b) && workers.call().is_none()
        );
    }
}
