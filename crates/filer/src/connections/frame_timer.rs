//! Whether a record that was begun comes on.

use std::time::Instant;

use crate::connections::receive_buffer::Partial;
use crate::limits::RECORD_TIMEOUT;

/// The record under way on a connection, and since when.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    under_way: Option<(u64, Instant)>,
}

impl Progress {
    /// False when the record under way has been so for longer than one of its size may. `now` is asked only while one is.
    pub(crate) fn comes_on(&mut self, partial: Option<Partial>, now: impl FnOnce() -> Instant) -> bool {
        let Some(Partial { number, bytes }) = partial else {
            self.under_way = None;
            return true;
        };
        let now = now();
        match self.under_way {
            Some((same, since)) if same == number => {
                let mib = u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX).max(1);
                now.saturating_duration_since(since) < RECORD_TIMEOUT.saturating_mul(mib)
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
    fn a_record_has_its_time_by_its_size_and_each_one_its_own() {
        let (mut progress, begin) = (Progress::default(), Instant::now());
        let later = |seconds| move || begin + Duration::from_secs(seconds);
        let partial = |number, bytes| Some(Partial { number, bytes });
        assert!(progress.comes_on(partial(1, 4), later(0)));
        assert!(progress.comes_on(partial(1, 4), later(59)));
        assert!(!progress.comes_on(partial(1, 4), later(60)), "a mark of four bytes does not take a minute");
        assert!(progress.comes_on(partial(2, 1 << 20), later(60)), "the next one begins anew");
        assert!(!progress.comes_on(partial(2, 1 << 20), later(120)));
        assert!(progress.comes_on(partial(2, (1 << 20) + 200), later(120)), "more than a MiB has more time");
        assert!(progress.comes_on(None, || unreachable!("no clock is read while nothing is under way")));
        assert!(progress.comes_on(partial(2, 4), later(500)));
    }
}
