//! Whether the reply to a stable write includes the file's times.
//!
//! Since Linux 6.13 (multigrain timestamps) the host stamps a change with a fine time if the previous stamp was read, and
//! otherwise with the time of the clock tick (4 ms). A new stamp makes the inode dirty, and the host must write a dirty inode with
//! the data: one more write, and with a journal one more commit. So if a server returns the times after each write, the next
//! write takes longer: at depth 1, a stable write takes twice the time. RFC 1813 2.6 allows a reply without attributes. So
//! replies leave them out while no client requests them. A client that needs them sends a GETATTR after such a reply, and
//! after a few of those the replies include them.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::limits::{TIMES_INCLUDED_MAX, TIMES_REQUESTS_MIN};
use crate::sys;

/// Whether clients use the times of one file.
#[derive(Debug, Default)]
pub(crate) struct TimesWanted {
    /// The last reply to a stable write did not include them.
    left_out: AtomicBool,
    /// Number of requests for them after such a reply.
    requests: AtomicU32,
    /// Number of replies with them since replies include them.
    included: AtomicU32,
}

impl TimesWanted {
    /// Whether the next reply must include the times. The counters may miss an event between two threads. That
    /// costs at most a GETATTR or a write of an inode.
    pub(crate) fn include(&self) -> bool {
        if self.requests.load(Ordering::Relaxed) < TIMES_REQUESTS_MIN {
            self.left_out.store(true, Ordering::Relaxed);
            return false;
        }
        if self.included.fetch_add(1, Ordering::Relaxed) >= TIMES_INCLUDED_MAX {
            // The clients that requested them may be gone, so it counts from zero again.
            self.included.store(0, Ordering::Relaxed);
            self.requests.store(0, Ordering::Relaxed);
        }
        true
    }

    /// A client requested the attributes.
    pub(crate) fn requested(&self) {
        if self.left_out.load(Ordering::Relaxed) && self.left_out.swap(false, Ordering::Relaxed) {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether the host's timestamps get finer when they are read. False if that cannot be tried, which only costs speed.
pub(crate) fn multigrain_times(dir: impl AsFd) -> bool {
    let flags = libc::O_TMPFILE | libc::O_RDWR;
    let Ok(file) = sys::open_at(dir, b".", flags, 0o600) else { return false };
    let stamp = |byte: u64| {
        sys::pwrite_with(&file, b"?", byte, 0)?;
        sys::stat(&file).map(|stat| stat.mtime)
    };
    // On a host with coarse timestamps, a tick may come between two writes, but not twice in a row.
    (0..2).all(|try_at| {
        let at = try_at * 2;
        matches!((stamp(at), stamp(at + 1)), (Ok(first), Ok(second)) if first != second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_included_after_a_few_requests_and_for_a_while() {
        let times = TimesWanted::default();
        assert!(!times.include());
        for _ in 0..100 {
            times.requested();
        }
        assert!(!times.include(), "many requests after one reply count once");
        for _ in 1..TIMES_REQUESTS_MIN {
            times.requested();
            let included = times.include();
            assert_eq!(included, times.requests.load(Ordering::Relaxed) >= TIMES_REQUESTS_MIN);
        }
        assert!(times.include());
        let more = (0..=TIMES_INCLUDED_MAX).take_while(|_| times.include()).count();
        assert!(more < TIMES_INCLUDED_MAX as usize + 1, "included {more} times and still on");
        assert!(!times.include());
    }

    #[test]
    fn replies_to_a_client_that_never_requests_times_never_include_them() {
        let times = TimesWanted::default();
        assert!((0..10_000).all(|_| !times.include()));
    }
}
