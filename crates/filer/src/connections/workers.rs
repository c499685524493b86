//! The threads that execute requests which wait for the medium, so that these waits overlap.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use host::Unpoisoned;

use super::Totals;
use super::connection::{Connection, Reservation};
use super::delayed_replies::DelayedReplies;
use super::idle_workers::Worker;
use super::queue::{Job, Queue};
use crate::limits::{REPLY_BYTES_IDLE, STACK_BYTES, WORKER_IDLE, WORKERS_KEPT, WORKERS_MAX};

/// The work of a service that runs on workers.
pub(crate) trait CarryOut: Send + Sync + 'static {
    /// A request for a worker.
    type Request: Send + 'static;

    /// Executes one request, or several of one group, and answers them by [`Connection::queue`], with the reservations, or by
    /// `delayed`. `out` is empty memory for replies.
    fn carry_out(&self, jobs: Vec<Job<Self::Request>>, delayed: &DelayedReplies, out: &mut Vec<u8>);
}

/// The load of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) busy: usize,
    pub(crate) queued: usize,
}

/// The pool. It starts threads when they are needed. Above [`WORKERS_KEPT`], an idle thread ends after [`WORKER_IDLE`].
pub(crate) struct Workers<S: CarryOut> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: CarryOut> {
    service: Arc<S>,
    totals: Arc<Totals>,
    delayed: DelayedReplies,
    queue: Mutex<Queue<S::Request>>,
    idle: Condvar, // no job waits or runs
}

impl<S: CarryOut> Workers<S> {
    pub(super) fn new(service: Arc<S>, totals: Arc<Totals>) -> Self {
        let (delayed, queue, idle) = Default::default();
        Self { shared: Arc::new(Shared { service, totals, delayed, queue, idle }) }
    }

    /// Reserves memory for a slow request and its reply of `bytes` bytes together. `None` if a limit is reached.
    pub(super) fn reserve(&self, connection: &Arc<Connection>, bytes: usize) -> Option<Reservation> {
        Reservation::new(connection, &self.shared.totals, bytes)
    }

    /// The memory that all connections hold together.
    pub(super) fn totals(&self) -> &Totals {
        &self.shared.totals
    }

    /// Hands a job over.
    ///
    /// # Errors
    /// The job, if the pool accepts no job. The caller then executes it.
    pub(super) fn submit(&self, job: Job<S::Request>) -> Result<(), Job<S::Request>> {
        let mut queue = self.shared.queue.lock().unpoisoned();
        if queue.closed {
            return Err(job);
        }
        // No worker is called for a job that a busy or called worker will take with others of its group.
        let can_begin = queue.can_begin(&job.tenant, job.group);
        let called = can_begin.then(|| self.shared.call_worker(&mut queue)).flatten();
        if queue.threads == 0 {
            return Err(job);
        }
        queue.push(job);
        drop(queue);
        if let Some(worker) = called {
            worker.wake();
        }
        Ok(())
    }

    /// The number of busy workers and of requests that wait for one.
    pub(crate) fn load(&self) -> Load {
        let queue = self.shared.queue.lock().unpoisoned();
        Load { busy: queue.running, queued: queue.queued }
    }

    /// Replies that leave at a set time.
    pub(crate) fn delayed(&self) -> &DelayedReplies {
        &self.shared.delayed
    }

    /// Accepts no more jobs. Waits for the accepted ones and for delayed replies. Returns false if they do not end within `limit`.
    pub(crate) fn finish(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut queue = self.shared.queue.lock().unpoisoned();
        queue.closed = true;
        std::iter::from_fn(|| queue.idle.call()).for_each(|worker| worker.wake());
        drop(queue);
        self.wait_until_idle(deadline) && self.shared.delayed.finish(deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits until no job waits or runs. Returns false if one does at the deadline.
    pub(crate) fn wait_until_idle(&self, deadline: Instant) -> bool {
        let mut queue = self.shared.queue.lock().unpoisoned();
        while queue.running > 0 || queue.queued > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.shared.idle.wait_timeout(queue, left).unpoisoned().0;
        }
        true
    }
}

impl<S: CarryOut> Shared<S> {
    /// Provides a thread for a job that may begin: calls an idle worker, which the caller wakes, or starts one.
    fn call_worker(self: &Arc<Self>, queue: &mut Queue<S::Request>) -> Option<Arc<Worker>> {
        let called = queue.idle.call();
        if called.is_none() && queue.threads < WORKERS_MAX {
            let shared = Arc::clone(self);
            let thread = std::thread::Builder::new().name("worker".into()).stack_size(STACK_BYTES);
            queue.threads += usize::from(thread.spawn(move || shared.work()).is_ok());
        }
        called
    }

    fn work(self: &Arc<Self>) {
        let (own, mut out) = (Worker::current(), Vec::new());
        let mut queue = self.queue.lock().unpoisoned();
        let mut was_long_idle = false;
        loop {
            if let Some(batch) = queue.begin() {
                // The end of one batch may allow several others to begin.
                let more = queue.queued > 0 && queue.has_next();
                let called = more.then(|| self.call_worker(&mut queue)).flatten();
                drop(queue);
                if let Some(worker) = called {
                    worker.wake();
                }
                let (tenant, group) = (batch.tenant, batch.group);
                self.run(batch.jobs, &mut out);
                if out.capacity() > REPLY_BYTES_IDLE {
                    out = Vec::new();
                }
                queue = self.queue.lock().unpoisoned();
                queue.end(&tenant, group);
                if queue.running == 0 && queue.queued == 0 {
                    self.idle.notify_all();
                }
            } else if queue.closed || (was_long_idle && queue.threads > WORKERS_KEPT) {
                queue.threads -= 1;
                // The next one ends too if it was idle as long. Otherwise it watches.
                if queue.threads > WORKERS_KEPT
                    && let Some(worker) = queue.idle.call_oldest()
                {
                    worker.wake();
                }
                return;
            } else {
                let since = Instant::now();
                let may_end = queue.threads > WORKERS_KEPT;
                let watches = queue.idle.add(&own, may_end);
                drop(queue);
                own.wait(watches.then_some(WORKER_IDLE));
                queue = self.queue.lock().unpoisoned();
                queue.idle.remove(&own, watches);
                was_long_idle = since.elapsed() >= WORKER_IDLE;
            }
        }
    }

    fn run(&self, jobs: Vec<Job<S::Request>>, out: &mut Vec<u8>) {
        out.clear();
        // A service catches panics itself, because it knows the connections. This keeps the worker alive.
        if catch_unwind(AssertUnwindSafe(|| self.service.carry_out(jobs, &self.delayed, out))).is_err() {
            tracing::error!("a request panicked on a worker: its reply is missing");
        }
    }
}
