//! What this process knows about a server's program CHANNEL (`nfs_proto::channel1`).

use crate::limits::ATTACH_UNANSWERED_MAX;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What a process knows of a server's program CHANNEL.
#[derive(Debug, Default)]
pub(crate) struct ChannelSupport {
    state: AtomicU32,
    /// Identifies the run of the server; 0: unknown.
    instance: AtomicU64,
    /// First attempts without a reply.
    unanswered: AtomicU32,
}

const UNKNOWN: u32 = 0;
const PRESENT: u32 = 1;
const ABSENT: u32 = 2;

impl ChannelSupport {
    /// Whether the server may have the program.
    pub(crate) fn may_be_present(&self) -> bool {
        self.state.load(Relaxed) != ABSENT
    }

    /// Whether the server has the program. Then it is Millrace's filer, which drops no call.
    pub(crate) fn is_present(&self) -> bool {
        self.state.load(Relaxed) == PRESENT
    }

    /// Identifies the run of Millrace's filer that answered last; `None` for other servers. While it stays the same, the filer
    /// answers a resent call as it did the first time.
    pub(crate) fn run(&self) -> Option<u64> {
        self.is_present().then(|| self.instance())
    }

    /// The run of the server that answered last.
    pub(crate) fn instance(&self) -> u64 {
        self.instance.load(Acquire)
    }

    pub(crate) fn set_absent(&self) {
        self.state.store(ABSENT, Relaxed);
    }

    pub(crate) fn set_present(&self, instance: u64) {
        self.instance.store(instance, Release);
        self.state.store(PRESENT, Relaxed);
    }

    /// Notes that a call got no reply. A server that answered before is only unresponsive; any other is considered not to have
    /// the program after a few attempts.
    pub(crate) fn note_no_reply(&self) {
        if self.state.load(Relaxed) == UNKNOWN && self.unanswered.fetch_add(1, Relaxed) + 1 >= ATTACH_UNANSWERED_MAX {
            self.set_absent();
        }
    }
}
