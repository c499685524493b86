//! The threads beside the connections: they run calls that wait for the medium, so that the waits overlap.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::connections::connection::{Charge, Connection};
use crate::connections::delayed_replies::Held;
use crate::connections::queue::Queue;
use crate::limits::{REPLY_BYTES_QUIET, STACK_BYTES, WORKERS_MAX};
use crate::nfs::batch;
use crate::nfs::dispatch::{self, Served};
use crate::nfs::exports::View;
use crate::nfs::filer::Filer;

/// A call for a worker.
pub(crate) struct Job {
    pub(crate) connection: Arc<Connection>,
    /// As the client stood when the call came; looked at again when it is carried out.
    pub(crate) view: Arc<View>,
    pub(crate) record: Vec<u8>,
    pub(crate) charge: Charge,
    /// Jobs of one number are best carried out together.
    pub(crate) group: Option<u64>,
    /// When it was handed over.
    pub(crate) came: Instant,
}

/// What the pool does at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) busy: usize,
    pub(crate) queued: usize,
}

/// The pool; threads are started as they are needed and stay.
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    filer: Arc<Filer>,
    held: Held,
    charged: Arc<AtomicUsize>, // bytes of slow calls until their replies have left
    queue: Mutex<Queue>,
    job: Condvar,
    idle: Condvar,
}

impl Workers {
    pub(crate) fn new(filer: Arc<Filer>) -> Self {
        let (queue, charged) = Default::default();
        let shared = Shared { filer, held: Held::new(), charged, queue, job: Condvar::new(), idle: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Room for a slow call of so many bytes, its reply counted; none when there is none.
    pub(crate) fn charge(&self, connection: &Arc<Connection>, bytes: usize) -> Option<Charge> {
        Charge::take(connection, &self.shared.charged, bytes)
    }

    /// Hands a job over; false when the pool takes none, and the caller has to do it.
    pub(crate) fn submit(&self, job: Job) -> bool {
        let mut queue = self.shared.queue();
        if queue.closed {
            return false;
        }
        // A job that will be taken along by a worker which is busy or called already calls none.
        let call = queue.can_begin(job.group);
        if call && queue.waiting <= queue.called && queue.threads < WORKERS_MAX {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("worker".into()).stack_size(STACK_BYTES);
            match thread.spawn(move || shared.work()) {
                Ok(_) => queue.threads += 1,
                Err(_) if queue.threads == 0 => return false,
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
        true
    }

    /// Keeps a reply until the modelled medium is done with its call.
    pub(crate) fn hold(&self, connection: &Arc<Connection>, due: Instant, record: Vec<u8>) {
        self.shared.held.hold(connection, due, record);
    }

    /// Workers at work and calls that wait for one.
    pub(crate) fn load(&self) -> Load {
        let queue = self.shared.queue();
        Load { busy: queue.running, queued: queue.jobs.len() }
    }

    /// Replies held now.
    pub(crate) fn held_waiting(&self) -> usize {
        self.shared.held.waiting()
    }

    /// Replies held and sent so far, and the CPU that waiting for their time has cost, in nanoseconds.
    pub(crate) fn held_counts(&self) -> (u64, u64) {
        self.shared.held.counts()
    }

    /// Takes no more jobs and waits for those it has and for held replies; false when they do not end within `limit`.
    pub(crate) fn finish(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        self.shared.queue().closed = true;
        self.shared.job.notify_all();
        self.wait_until_idle(deadline) && self.shared.held.finish(deadline.saturating_duration_since(Instant::now()))
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

impl Shared {
    fn work(&self) {
        let mut out = Vec::new();
        let mut queue = self.queue();
        loop {
            if let Some(batch) = queue.begin() {
                drop(queue);
                let group = batch.group;
                self.run(batch.jobs, &mut out);
                if out.capacity() > REPLY_BYTES_QUIET {
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

    fn run(&self, mut jobs: Vec<Job>, out: &mut Vec<u8>) {
        out.clear();
        if jobs.len() > 1 {
            batch::run(&self.filer, jobs, out);
            return;
        }
        let Some(Job { connection, mut view, record, charge, came, .. }) = jobs.pop() else { return };
        if connection.is_fenced() {
            return;
        }
        self.filer.renew(&mut view);
        let served = catch_unwind(AssertUnwindSafe(|| dispatch::serve_since(came, &self.filer, &view, &record, out)));
        match served {
            Ok(Served::Answered | Served::Cold) => {
                drop(record);
                if !out.is_empty() {
                    connection.queue(out, vec![charge]);
                }
            }
            Ok(Served::Due(due)) => self.held.hold(&connection, due, std::mem::take(out)),
            Ok(Served::Reset) => connection.reset(),
            Ok(Served::Close) => connection.drop_now(),
            Err(_) => connection.drop_after_panic(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
