//! The simulator: processes that share the memory of a mount, in virtual time. One seed decides everything: which process runs
//! next, at which access to shared memory its turn ends, which one is killed or stopped there, and all random numbers.
//!
//! A process is a coroutine (`sys::simulated`). In unit tests each atomic of shared memory is a point at which its turn may end
//! (`sys::atomic`); the clock, sleeping, futexes, the identity of the process, random numbers and liveness locks are simulated,
//! and everything else is the real code. Executions are sequentially consistent.
//!
//! `MILLRACE_SEED=N cargo test -p dnfs sim::` replays one seed; `MILLRACE_SEEDS=N` sets how many each test runs.

mod world;

mod attributes;
mod locks;
mod mounts;
mod server;
mod slots;

pub(crate) use world::{Faults, World};

use crate::segment::Segment;
use crate::segment::tests::fresh_segment;
use crate::segment::tests::tempdir::TempDir;
use crate::slot_limiter::Members;

/// What every simulated process has: a segment, and an object of its own for the members.
struct Host {
    segment: Segment,
    _place: TempDir,
}

impl Host {
    fn new() -> Self {
        let (place, segment) = fresh_segment();
        Self { segment, _place: place }
    }

    /// The members, as one process sees them.
    fn members(&self) -> Members {
        Members::shared(self.segment.memory(), self.segment.directory().lock_path("members"))
    }
}
