//! The jobs that wait for a worker, and which of them a worker takes together.
//!
//! Stable writes of one file are taken by the heap: at most two workers have writes of a file under way, and what comes
//! meanwhile waits for the first to be done and then shares one flush. Under a light load a write is taken alone and at
//! once; the busier the file, the more writes a flush covers.

use std::collections::VecDeque;

use crate::limits::{WRITE_BATCHES_PER_FILE_MAX, WRITES_PER_BATCH_MAX};
use crate::workers::Job;

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) running: usize, // batches
    pub(crate) threads: usize,
    pub(crate) waiting: usize, // threads without a job
    pub(crate) called: usize,  // of these, woken and not yet awake
    pub(crate) closed: bool,
    writing: Vec<u64>, // the files of batches under way; as many as there are workers at the most
}

/// What a worker does at one go: one job, or stable writes of one file.
pub(crate) struct Batch {
    pub(crate) jobs: Vec<Job>,
    pub(crate) file: Option<u64>,
}

impl Queue {
    /// Whether a job of this file, added now, would be begun by a worker of its own.
    pub(crate) fn can_begin(&self, file: Option<u64>) -> bool {
        let Some(file) = file else { return true };
        let waiting = self.jobs.iter().filter(|job| job.file == Some(file)).take(WRITE_BATCHES_PER_FILE_MAX).count();
        waiting + self.batches_of(file) < WRITE_BATCHES_PER_FILE_MAX
    }

    /// Takes the first batch that may begin.
    pub(crate) fn begin(&mut self) -> Option<Batch> {
        let may_begin = |job: &Job| job.file.is_none_or(|file| self.batches_of(file) < WRITE_BATCHES_PER_FILE_MAX);
        let at = self.jobs.iter().position(may_begin)?;
        let file = self.jobs.get(at)?.file;
        let mut jobs = Vec::new();
        match file {
            None => jobs.extend(self.jobs.remove(at)),
            Some(_) => {
                let (mut rest, mut taken) = (VecDeque::with_capacity(self.jobs.len()), 0);
                for job in self.jobs.drain(..) {
                    if job.file == file && taken < WRITES_PER_BATCH_MAX {
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
        self.writing.extend(file);
        Some(Batch { jobs, file })
    }

    /// A batch is done.
    pub(crate) fn end(&mut self, file: Option<u64>) {
        self.running -= 1;
        if let Some(at) = file.and_then(|file| self.writing.iter().position(|writing| *writing == file)) {
            self.writing.swap_remove(at);
        }
    }

    fn batches_of(&self, file: u64) -> usize {
        self.writing.iter().filter(|writing| **writing == file).count()
    }
}
