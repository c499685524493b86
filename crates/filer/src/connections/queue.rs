//! The requests that wait for a worker, and which of them a worker takes together.
//!
//! Requests of one group are taken together. Stable writes of one file are such a group: at most two workers have writes of a
//! file under way, and what comes meanwhile waits for the first to be done and then shares one flush. Under a light load
//! a write is taken alone and at once; the busier the file, the more writes a flush covers. Where nothing is flushed, the
//! requests of one connection are a group: each is over sooner than another thread is awake.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::connection::{Connection, Reservation};
use crate::limits::{BATCHES_PER_GROUP_MAX, REQUESTS_PER_BATCH_MAX};

/// A request for a worker.
pub(crate) struct Job<R> {
    pub(crate) connection: Arc<Connection>,
    pub(crate) request: R,
    pub(crate) reservation: Reservation,
    /// Jobs of one number are best carried out together.
    pub(crate) group: Option<u64>,
    /// When it was handed over.
    pub(crate) received_at: Instant,
}

pub(super) struct Queue<R> {
    pub(super) jobs: VecDeque<Job<R>>,
    pub(super) running: usize, // batches
    pub(super) threads: usize,
    pub(super) waiting: usize, // threads without a job
    pub(super) called: usize,  // of these, woken and not yet awake
    pub(super) closed: bool,
    groups: Vec<u64>, // those of batches under way; as many as there are workers at the most
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        let (running, threads, waiting, called, closed, groups) = Default::default();
        Self { jobs: VecDeque::new(), running, threads, waiting, called, closed, groups }
    }
}

/// What a worker does at one go: one job, or several of one group.
pub(super) struct Batch<R> {
    pub(super) jobs: Vec<Job<R>>,
    pub(super) group: Option<u64>,
}

impl<R> Queue<R> {
    /// Whether a job of this group, added now, would be begun by a worker of its own.
    pub(super) fn can_begin(&self, group: Option<u64>) -> bool {
        let Some(group) = group else { return true };
        let waiting = self.jobs.iter().filter(|job| job.group == Some(group)).take(BATCHES_PER_GROUP_MAX).count();
        waiting + self.batches_of(group) < BATCHES_PER_GROUP_MAX
    }

    /// Takes the first batch that may begin.
    pub(super) fn begin(&mut self) -> Option<Batch<R>> {
        let may_begin = |job: &Job<R>| job.group.is_none_or(|group| self.batches_of(group) < BATCHES_PER_GROUP_MAX);
        let at = self.jobs.iter().position(may_begin)?;
        let group = self.jobs.get(at)?.group;
        let mut jobs = Vec::new();
        match group {
            None => jobs.extend(self.jobs.remove(at)),
            Some(_) => {
                let (mut rest, mut taken) = (VecDeque::with_capacity(self.jobs.len()), 0);
                for job in self.jobs.drain(..) {
                    if job.group == group && taken < REQUESTS_PER_BATCH_MAX {
                        taken += 1;
                        jobs.push(job);
                    } else {
                        rest.push_back(job);
                    }
                }
                self.jobs = rest;
            }
        }
        self.running += 1;
        self.groups.extend(group);
        Some(Batch { jobs, group })
    }

    /// A batch is done.
    pub(super) fn end(&mut self, group: Option<u64>) {
        self.running -= 1;
        if let Some(at) = group.and_then(|group| self.groups.iter().position(|running| *running == group)) {
            self.groups.swap_remove(at);
        }
    }

    fn batches_of(&self, group: u64) -> usize {
        self.groups.iter().filter(|running| **running == group).count()
    }
}
