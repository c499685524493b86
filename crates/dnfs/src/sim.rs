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

use crate::file::FileKind;
use crate::segment::tests::fresh_segment;
use crate::segment::tests::tempdir::TempDir;
use crate::segment::{AttrRecord, NewFile, Segment};
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

/// A file of this size, as a process finds it at the server.
const fn new_file(size: u64, attr: AttrRecord) -> NewFile<'static> {
    NewFile { handle: b"file", kind: FileKind::Regular, fsid: 1, fileid: 7, rdev: 0, size, attr, checked_ms: 0, created: true }
}
