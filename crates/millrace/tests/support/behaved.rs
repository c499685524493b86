//! A well-behaved client that works while a test does other things to the same filer.

use super::wire::Wire;
use nfs_proto::nfs3::{Procedure, ReadArgs, ReadResult, StableHow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PAGE: usize = 8192;
const PAGES: u64 = 16;

/// The client at work. It queries, writes and reads in turns, one call after the other.
pub struct Behaved {
    stop: Arc<AtomicBool>,
    work: JoinHandle<Worked>,
}

/// The result of its work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worked {
    pub turns: u64,
    /// Duration of the longest turn.
    pub longest: Duration,
}

impl Behaved {
    /// Begins to work on a new file with this name.
    pub fn start(port: u16, name: &str) -> Self {
        let mut wire = Wire::connect(port);
        let root = wire.root();
        let file = wire.create(root, name);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = std::thread::spawn(move || {
            let mut worked = Worked::default();
            while !stopped.load(Ordering::Relaxed) || worked.turns < PAGES {
                let begun = Instant::now();
                let turn = worked.turns;
                let (offset, page) = (turn % PAGES * PAGE as u64, [(turn % 251) as u8; PAGE]);
                wire.nfs(Procedure::Null, &()).results::<()>();
                let how = if turn % 4 == 0 { StableHow::FileSync } else { StableHow::Unstable };
                assert_eq!(wire.write(file, offset, &page, how).count as usize, PAGE);
                let reply = wire.nfs(Procedure::Read, &ReadArgs { file, offset, count: PAGE as u32 });
                assert_eq!(reply.results::<ReadResult<'_>>().unwrap().data.0, page, "read back in turn {turn}");
                worked.turns += 1;
                worked.longest = worked.longest.max(begun.elapsed());
            }
            worked
        });
        Self { stop, work }
    }

    /// Ends the client. Panics with the client's panic, if there was one.
    pub fn finish(self) -> Worked {
        self.stop.store(true, Ordering::Relaxed);
        self.work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
