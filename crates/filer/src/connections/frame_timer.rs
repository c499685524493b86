//! Time limit for the rest of an incomplete frame.

use std::time::{Duration, Instant};

use super::receive_buffer::Partial;
use crate::limits::{FRAME_TIMEOUT, FRAME_TIMEOUT_SHORT, RECEIVE_BYTES_START};

/// The incomplete frame of a connection, and when it began.
#[derive(Debug, Default)]
pub(super) struct FrameTimer {
    under_way: Option<(u64, Instant)>,
}

impl FrameTimer {
    /// Excludes `waited` from the time of the frame, because nothing was received during it.
    pub(super) fn exclude(&mut self, waited: Duration) {
        if let Some((_, since)) = &mut self.under_way {
            *since += waited;
        }
    }

    /// False if the frame has been incomplete for longer than its size allows. A large frame has less time while memory is
    /// `short`. `now` is called only while a frame is incomplete.
    pub(super) fn is_in_time(&mut self, partial: Option<Partial>, short: bool, now: impl FnOnce() -> Instant) -> bool {
        let Some(Partial { number, bytes }) = partial else {
            self.under_way = None;
            return true;
        };
        let now = now();
        match self.under_way {
            Some((same, since)) if same == number => {
                let mib = u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX).max(1);
                let limit = if short && bytes > RECEIVE_BYTES_START { FRAME_TIMEOUT_SHORT } else { FRAME_TIMEOUT };
                now.saturating_duration_since(since) < limit.saturating_mul(mib)
            }
            _ => {
                self.under_way = Some((number, now));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_frame_has_little_time_while_memory_is_short() {
        let (mut timer, begin) = (FrameTimer::default(), Instant::now());
        let mut in_time = |bytes, short, seconds| {
            let partial = Partial { number: 1, bytes };
            timer.is_in_time(Some(partial), short, || begin + Duration::from_secs(seconds))
        };
        assert!(in_time(1 << 20, true, 0) && in_time(1 << 20, true, 1) && in_time(1 << 20, false, 3));
        assert!(in_time(8192, true, 3), "it holds no more than an idle connection");
        assert!(!in_time(1 << 20, true, 3));
    }

    #[test]
    fn what_a_frame_waited_for_memory_is_not_counted_against_its_peer() {
        let (mut timer, begin) = (FrameTimer::default(), Instant::now());
        let partial = Some(Partial { number: 1, bytes: 1 << 20 });
        assert!(timer.is_in_time(partial, true, || begin));
        timer.exclude(Duration::from_secs(5));
        assert!(timer.is_in_time(partial, true, || begin + Duration::from_secs(6)));
        assert!(!timer.is_in_time(partial, true, || begin + Duration::from_secs(7)));
    }

    #[test]
    fn a_frame_has_its_time_by_its_size_and_each_one_its_own() {
        let (mut timer, begin) = (FrameTimer::default(), Instant::now());
        let later = |seconds| move || begin + Duration::from_secs(seconds);
        let partial = |number, bytes| Some(Partial { number, bytes });
        assert!(timer.is_in_time(partial(1, 4), false, later(0)));
        assert!(timer.is_in_time(partial(1, 4), false, later(59)));
        assert!(!timer.is_in_time(partial(1, 4), false, later(60)), "a header of four bytes does not take a minute");
        assert!(timer.is_in_time(partial(2, 1 << 20), false, later(60)), "the next one begins anew");
        assert!(!timer.is_in_time(partial(2, 1 << 20), false, later(120)));
        assert!(timer.is_in_time(partial(2, (1 << 20) + 200), false, later(120)), "more than a MiB has more time");
        assert!(timer.is_in_time(None, false, || unreachable!("no clock is read while nothing is under way")));
        assert!(timer.is_in_time(partial(2, 4), false, later(500)));
    }
}
