//! Whether an answer to a stable write says the file's times.
//!
//! Since Linux 6.13 the host stamps a change with a fine time if somebody has looked at the last one, else with the
//! clock tick (4 ms). A new stamp makes the inode dirty, and an inode that is dirty has to be written with the data: one
//! more write, on a host with a journal one more commit. A server that tells the times after each write therefore
//! pays for them at the next one, which at depth 1 doubles the time of a stable write. RFC 1813 2.6 lets an answer be
//! without attributes. So they are left out while nobody asks for them: a client that needs them sends a
//! GETATTR behind such an answer, and after a few of those it is told with the answers.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::limits::{TIMES_ASKED_MIN, TIMES_TOLD_MAX};
use crate::sys;

/// What is known of who looks at the times of one file.
#[derive(Debug, Default)]
pub(crate) struct TimesWanted {
    /// The last answer to a stable write was without them.
    left_out: AtomicBool,
    /// How often somebody asked behind such an answer.
    asked: AtomicU32,
    /// Answers with them since.
    told: AtomicU32,
}

impl TimesWanted {
    /// Whether the next answer is to tell the times. The counters may miss an event between two threads: that
    /// costs a GETATTR or a write of an inode, never more.
    pub(crate) fn tell(&self) -> bool {
        if self.asked.load(Ordering::Relaxed) < TIMES_ASKED_MIN {
            self.left_out.store(true, Ordering::Relaxed);
            return false;
        }
        if self.told.fetch_add(1, Ordering::Relaxed) >= TIMES_TOLD_MAX {
            // Those who asked may have gone: they are listened to anew.
            self.told.store(0, Ordering::Relaxed);
            self.asked.store(0, Ordering::Relaxed);
        }
        true
    }

    /// Somebody asked for the attributes.
    pub(crate) fn asked(&self) {
        if self.left_out.load(Ordering::Relaxed) && self.left_out.swap(false, Ordering::Relaxed) {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether the host's stamps get finer when they are looked at; false where it can't be tried, which only costs speed.
pub(crate) fn looking_costs(dir: impl AsFd) -> bool {
    let flags = libc::O_TMPFILE | libc::O_RDWR;
    let Ok(file) = sys::open_at(dir, b".", flags, 0o600) else { return false };
    let stamp = |byte: u64| {
        sys::pwrite_with(&file, b"?", byte, 0)?;
        sys::stat(&file).map(|stat| stat.mtime)
    };
    // Two looks may stand on two sides of a tick; twice in a row that does not happen.
    (0..2).all(|try_at| {
        let at = try_at * 2;
        matches!((stamp(at), stamp(at + 1)), (Ok(first), Ok(second)) if first != second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_once_a_few_have_asked_for_them_and_for_a_while() {
        let times = TimesWanted::default();
        assert!(!times.tell());
        for _ in 0..100 {
            times.asked();
        }
        assert!(!times.tell(), "asking often behind one answer is asking once");
        for _ in 1..TIMES_ASKED_MIN {
            times.asked();
            let told = times.tell();
            assert_eq!(told, times.asked.load(Ordering::Relaxed) >= TIMES_ASKED_MIN);
        }
        assert!(times.tell());
        let more = (0..=TIMES_TOLD_MAX).take_while(|_| times.tell()).count();
        assert!(more < TIMES_TOLD_MAX as usize + 1, "told {more} times and still on");
        assert!(!times.tell());
    }

    #[test]
    fn a_client_that_never_asks_is_never_told() {
        let times = TimesWanted::default();
        assert!((0..10_000).all(|_| !times.tell()));
    }
}
