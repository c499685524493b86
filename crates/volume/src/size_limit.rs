//! The largest file that the host supports, checked before a write so that the write does not fail.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::sys;

/// The largest file size that the host is known to support. Linux does not report the limit itself.
#[derive(Debug, Default)]
pub(crate) struct SizeLimit {
    held: AtomicU64,
}

impl SizeLimit {
    /// Checks that a file may end at `end`. This takes one system call each time the largest size seen has doubled.
    ///
    /// **Errors**: [`Error::TooBig`].
    pub(crate) fn check(&self, file: impl AsFd, end: u64) -> Result<(), Error> {
        if end <= self.held.load(Ordering::Relaxed) {
            return Ok(());
        }
        let holds = |end: u64| sys::holds_offset(&file, end);
        let larger = end.checked_next_power_of_two().filter(|larger| *larger <= i64::MAX as u64 && holds(*larger));
        let held = larger.or_else(|| holds(end).then_some(end)).ok_or(Error::TooBig)?;
        self.held.fetch_max(held, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_beyond_the_hosts_largest_file_is_refused_and_smaller_ones_are_not() {
        let file = tempfile::tempfile().unwrap();
        let limit = SizeLimit::default();
        assert_eq!(limit.check(&file, 1 << 20), Ok(()));
        let largest = (20..63).map(|bits| 1_u64 << bits).take_while(|end| file.set_len(*end).is_ok()).last().unwrap();
        assert_eq!(limit.check(&file, largest), Ok(()));
        if largest < 1 << 62 {
            assert_eq!(limit.check(&file, largest.saturating_mul(4)), Err(Error::TooBig));
            assert_eq!(limit.check(&file, largest), Ok(()), "the refused size changed nothing");
        }
    }
}
