//! Counts the calls that change the disk, so that a test can interrupt an apply at each of them.

use super::ChangeError;

/// A counter of the calls that change something. A test sets the step at which it ends. From then
/// on nothing is changed, as after a kill; the last write may be torn.
#[derive(Debug, Default)]
pub struct Steps {
    done: u64,
    ends_at: Option<u64>,
    torn: bool,
}

impl Steps {
    /// A counter that never ends.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends before step number `step`, counted from 0. If `torn`, a write at that step leaves its
    /// first half.
    pub fn ending_at(step: u64, torn: bool) -> Self {
        Self { done: 0, ends_at: Some(step), torn }
    }

    /// The number of steps done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Counts one step.
    pub(super) fn next(&mut self) -> Result<(), ChangeError> {
        if self.ended() {
            return Err(ChangeError::Interrupted { step: self.done });
        }
        self.done += 1;
        Ok(())
    }

    /// Counts one step that writes. Returns how many bytes to write, and an error if the counter
    /// ends here.
    pub(super) fn next_write(&mut self, bytes: usize) -> (usize, Result<(), ChangeError>) {
        let first = self.ended() && self.ends_at == Some(self.done);
        match self.next() {
            Ok(()) => (bytes, Ok(())),
            Err(end) => {
                let kept = if first && self.torn { bytes / 2 } else { 0 };
                // Only one write is torn: a killed process writes nothing more.
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
