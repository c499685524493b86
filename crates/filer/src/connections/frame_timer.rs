//! How long a frame that was begun may take to come.

use std::time::Instant;

use super::receive_buffer::Partial;
use crate::limits::FRAME_TIMEOUT;

/// The frame under way on a connection, and since when.
#[derive(Debug, Default)]
pub(super) struct FrameTimer {
    under_way: Option<(u64, Instant)>,
}

impl FrameTimer {
    /// False when the frame under way has been so for longer than one of its size may. `now` is called only while one is.
    pub(super) fn is_in_time(&mut self, partial: Option<Partial>, now: impl FnOnce() -> Instant) -> bool {
        let Some(Partial { number, bytes }) = partial else {
            self.under_way = None;
            return true;
        };
        let now = now();
        match self.under_way {
            Some((same, since)) if same == number => {
                let mib = u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX).max(1);
                now.saturating_duration_since(since) < FRAME_TIMEOUT.saturating_mul(mib)
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
    use std::time::Duration;

    #[test]
    fn a_frame_has_its_time_by_its_size_and_each_one_its_own() {
        let (mut timer, begin) = (FrameTimer::default(), Instant::now());
        let later = |seconds| move || begin + Duration::from_secs(seconds);
        let partial = |number, bytes| Some(Partial { number, bytes });
        assert!(timer.is_in_time(partial(1, 4), later(0)));
        assert!(timer.is_in_time(partial(1, 4), later(59)));
        assert!(!timer.is_in_time(partial(1, 4), later(60)), "a header of four bytes does not take a minute");
        assert!(timer.is_in_time(partial(2, 1 << 20), later(60)), "the next one begins anew");
        assert!(!timer.is_in_time(partial(2, 1 << 20), later(120)));
        assert!(timer.is_in_time(partial(2, (1 << 20) + 200), later(120)), "more than a MiB has more time");
        assert!(timer.is_in_time(None, || unreachable!("no clock is read while nothing is under way")));
        assert!(timer.is_in_time(partial(2, 4), later(500)));
    }
}
