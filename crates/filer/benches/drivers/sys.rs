//! What needs unsafe code: processor time, and entries of the submission queue.

use std::time::Duration;

use io_uring::{IoUring, squeue};

/// Processor time of this process so far.
pub(crate) fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec, and Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Puts an entry into the queue, which is submitted first when it is full.
pub(crate) fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: the caller keeps the buffer of the entry where it is until its completion has come (`uring::Connection`: a
    // receive buffer is not touched while it receives, `sending` not while it is sent, and neither is dropped before).
    while unsafe { ring.submission().push(entry) }.is_err() {
        ring.submit().expect("submit");
    }
}
