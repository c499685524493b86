//! The threads beside the connections of a service: they carry out requests that wait for the medium, so that the waits overlap.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Totals;
use super::connection::{Connection, Reservation};
use super::delayed_replies::DelayedReplies;
use super::queue::{Job, Queue};
use crate::limits::{REPLY_BYTES_IDLE, STACK_BYTES, WORKERS_MAX};

/// What workers do.
pub(crate) trait CarryOut: Send + Sync + 'static {
    /// A request that can wait for a worker.
    type Request: Send + 'static;

    /// Carries out requests, several of one group or one alone, and answers them: by [`Connection::queue`], with the
    /// reservations, or by `delayed`. `out` is empty memory for replies.
    fn carry_out(&self, jobs: Vec<Job<Self::Request>>, delayed: &DelayedReplies, out: &mut Vec<u8>);
}

/// What the pool does at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) busy: usize,
    pub(crate) queued: usize,
}

/// The pool; threads are started as they are needed and stay.
pub(crate) struct Workers<S: CarryOut> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: CarryOut> {
    service: Arc<S>,
    totals: Arc<Totals>,
    delayed: DelayedReplies,
    queue: Mutex<Queue<S::Request>>,
    job: Condvar,
    idle: Condvar,
}

impl<S: CarryOut> Workers<S> {
    pub(super) fn new(service: Arc<S>, totals: Arc<Totals>) -> Self {
        let (delayed, queue, job, idle) = Default::default();
        Self { shared: Arc::new(Shared { service, totals, delayed, queue, job, idle }) }
    }

    /// Memory for a slow request of so many bytes, its reply counted; none when as much waits as may.
    pub(super) fn reserve(&self, connection: &Arc<Connection>, bytes: usize) -> Option<Reservation> {
        Reservation::new(connection, &self.shared.totals, bytes)
    }

    /// Hands a job over.
    ///
    /// # Errors
    /// The job, when the pool takes none and the caller has to do it.
    pub(super) fn submit(&self, job: Job<S::Request>) -> Result<(), Job<S::Request>> {
        let mut queue = self.shared.queue();
        if queue.closed {
            return Err(job);
        }
        // A job that will be taken along by a worker which is busy or called already calls none.
        let call = queue.can_begin(job.group);
        if call && queue.waiting <= queue.called && queue.threads < WORKERS_MAX {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("worker".into()).stack_size(STACK_BYTES);
            match thread.spawn(move || shared.work()) {
                Ok(_) => queue.threads += 1,
                Err(_) if queue.threads == 0 => return Err(job),
                Err(_) => {}
            }
        }
        queue.jobs.push_back(job);
        let wake = call && queue.waiting > queue.called;
        queue.called += usize::from(wake);
        drop(queue);
        if wake {
            self.shared.job.notify_one();
        }
        Ok(())
    }

    /// Workers at work and requests that wait for one.
    pub(crate) fn load(&self) -> Load {
        let queue = self.shared.queue();
        Load { busy: queue.running, queued: queue.jobs.len() }
    }

    /// Replies that leave at a set time.
    pub(crate) fn delayed(&self) -> &DelayedReplies {
        &self.shared.delayed
    }

    /// Takes no more jobs and waits for those it has and for delayed replies; false when they do not end within `limit`.
    pub(crate) fn finish(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        self.shared.queue().closed = true;
        self.shared.job.notify_all();
        self.wait_until_idle(deadline) && self.shared.delayed.finish(deadline.saturating_duration_since(Instant::now()))
    }

    /// Waits until no job waits or runs; false when that is not so by the deadline.
    pub(crate) fn wait_until_idle(&self, deadline: Instant) -> bool {
        let mut queue = self.shared.queue();
        while queue.running > 0 || !queue.jobs.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.shared.idle.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl<S: CarryOut> Shared<S> {
    fn work(&self) {
        let mut out = Vec::new();
        let mut queue = self.queue();
        loop {
            if let Some(batch) = queue.begin() {
                drop(queue);
                let group = batch.group;
                self.run(batch.jobs, &mut out);
                if out.capacity() > REPLY_BYTES_IDLE {
                    out = Vec::new();
                }
                queue = self.queue();
                queue.end(group);
                if queue.running == 0 && queue.jobs.is_empty() {
                    self.idle.notify_all();
                }
            } else if queue.closed {
                queue.threads -= 1;
                return;
            } else {
                queue.waiting += 1;
                queue = self.job.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.waiting -= 1;
                queue.called = queue.called.saturating_sub(1);
            }
        }
    }

    fn run(&self, jobs: Vec<Job<S::Request>>, out: &mut Vec<u8>) {
        out.clear();
        // A service catches what panics while it can tell whose connections these are; this keeps the worker.
        if catch_unwind(AssertUnwindSafe(|| self.service.carry_out(jobs, &self.delayed, out))).is_err() {
            tracing::error!("a worker's request panicked");
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<S::Request>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
