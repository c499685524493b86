//! When the server last answered this process or, with a segment, any process of the mount.

use crate::limits::{ANSWER_RECENT_MS, ANSWER_STEP_MS};
use crate::segment::layout::Header;
use crate::sys::atomic::AtomicU64;
use crate::sys::clock::coarse_ms;
use crate::sys::shm::Mapping;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The time of the last answer, in ms of the monotonic clock; 0: there was no answer yet.
#[derive(Clone, Debug)]
pub(crate) enum Answers {
    /// Answers to this process only.
    Own(Arc<AtomicU64>),
    /// Answers to all processes that have this segment.
    Shared(Arc<Mapping>),
}

impl Default for Answers {
    fn default() -> Self {
        Self::Own(Arc::default())
    }
}

impl Answers {
    /// Notes an answer. Usually that is one load: the time is stored at most once in [`ANSWER_STEP_MS`].
    #[inline]
    pub(crate) fn note(&self) {
        let now_ms = coarse_ms();
        let last = self.last();
        if now_ms.wrapping_sub(last.load(Relaxed)) >= ANSWER_STEP_MS {
            last.store(now_ms, Relaxed);
        }
    }

    /// Whether the server answered lately.
    pub(crate) fn are_recent(&self) -> bool {
        let last_ms = self.last().load(Relaxed);
        last_ms != 0 && coarse_ms().saturating_sub(last_ms) <= ANSWER_RECENT_MS
    }

    fn last(&self) -> &AtomicU64 {
        match self {
            Self::Own(last) => last,
            Self::Shared(memory) => &memory.values::<Header>(0, 1)[0].answered_ms, // the slice always has one element
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::fresh_segment;

    #[test]
    fn an_answer_to_one_process_is_known_to_all_that_have_the_segment() {
        let (_place, segment) = fresh_segment();
        let (one, another) = (Answers::Shared(segment.memory()), Answers::Shared(segment.memory()));
        assert!(!one.are_recent());
        another.note();
        assert!(one.are_recent());
        one.last().store(coarse_ms() - ANSWER_RECENT_MS - 1, Relaxed);
        assert!(!another.are_recent());
    }
}
