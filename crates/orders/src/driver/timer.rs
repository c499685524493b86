//! Waits for a moment to the microsecond.
//!
//! The runtime's own timers have a grain of a millisecond, which would be in every response time
//! that counts from a due moment.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel, driven by the runtime it was made on.
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

    /// Returns at `until`, at once when it is past. May be dropped while waiting.
    pub(super) async fn wait_until(&self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        // Setting the timer also takes back an expiry nobody has read.
        let it_value =
            Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(self.descriptor.get_ref(), TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        loop {
            let mut ready = self.descriptor.readable().await?;
            let mut expiries = [0; 8];
            // Not ready after all when the readiness was that of a wait before.
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
        // Given up in the middle, then after its expiry was never read.
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
