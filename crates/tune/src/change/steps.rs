//! Counts what is done to the disk, so that a test can let a process die at any of it.

use super::ChangeError;

/// A count of the calls that change something. Tests set where it ends: from there on nothing happens any more, as after
/// a kill, and the last write may be torn.
#[derive(Debug, Default)]
pub struct Steps {
    done: u64,
    ends_at: Option<u64>,
    torn: bool,
}

impl Steps {
    /// Steps without an end.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends before the step of this number, the first being 0; a write that is `torn` leaves its first half.
    pub fn ending_at(step: u64, torn: bool) -> Self {
        Self { done: 0, ends_at: Some(step), torn }
    }

    /// How many were done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Goes one step.
    pub(super) fn next(&mut self) -> Result<(), ChangeError> {
        if self.ended() {
            return Err(ChangeError::Interrupted { step: self.done });
        }
        self.done += 1;
        Ok(())
    }

    /// Goes one step that writes: how many of the bytes reach the file, and whether it ends there.
    pub(super) fn next_write(&mut self, bytes: usize) -> (usize, Result<(), ChangeError>) {
        let first = self.ended() && self.ends_at == Some(self.done);
        match self.next() {
            Ok(()) => (bytes, Ok(())),
            Err(end) => {
                let kept = if first && self.torn { bytes / 2 } else { 0 };
                // One tear only: what is dead writes no second time.
                self.torn = false;
                (kept, Err(end))
            }
        }
    }

    fn ended(&self) -> bool {
        self.ends_at.is_some_and(|end| self.done >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_happens_after_the_end_and_one_write_is_torn() {
        let mut steps = Steps::ending_at(1, true);
        assert!(steps.next().is_ok());
        let (kept, end) = steps.next_write(10);
        assert!(kept == 5 && end.is_err());
        let (kept, end) = steps.next_write(10);
        assert!(kept == 0 && end.is_err());
        assert!(steps.next().is_err());
        assert_eq!(steps.done(), 1);
    }
}
