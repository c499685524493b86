//! Waits for a moment with microsecond precision.
//!
//! The runtime's own timers have a resolution of a millisecond, which would add to every response time
//! that is measured from a due time.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel, driven by the runtime on which it was created.
#[derive(Debug)]
pub(super) struct Timer {
    descriptor: AsyncFd<OwnedFd>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "unsound only for types that do not own their descriptor; the new form is unsafe")]
        let descriptor = AsyncFd::new(descriptor)?;
        Ok(Self { descriptor })
    }

    /// Returns at `until`, or at once if that is in the past. The future may be dropped while it waits.
    pub(super) async fn wait_until(&self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        // Setting the timer also discards an expiration that was not read.
        let it_value =
            Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(self.descriptor.get_ref(), TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        loop {
            let mut ready = self.descriptor.readable().await?;
            let mut expiries = [0; 8];
            // The readiness may be left over from an earlier wait; then the timer is not ready.
            if let Ok(outcome) = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expiries)?)) {
                return outcome.map(|_| ());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_wait_ends_at_its_moment_even_after_one_that_was_given_up() {
        let timer = Timer::new().unwrap();
        let began = Instant::now();
        // The first wait was dropped before its expiration, which was therefore never read.
        let early = tokio::time::timeout(Duration::from_millis(2), timer.wait_until(began + Duration::from_millis(20))).await;
        assert!(early.is_err());
        tokio::time::sleep_until((began + Duration::from_millis(30)).into()).await;
        for at_ms in [31, 33, 40] {
            let until = began + Duration::from_millis(at_ms);
            timer.wait_until(until).await.unwrap();
            let now = Instant::now();
            assert!(now >= until, "{:?} early", until - now);
        }
    }
}
