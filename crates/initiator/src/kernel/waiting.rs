//! Waits for what other programs do.

use super::error::KernelError;
use std::time::{Duration, Instant};

/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(20);
/// [`Waiting::note`] is called after this time, and each time it has passed again.
const QUIET: Duration = Duration::from_secs(5);

/// The caller of a wait.
pub trait Waiting {
    /// Whether the wait must end early, as by Ctrl-C.
    fn is_over(&self) -> bool {
        false
    }

    /// Receives what the caller waits for, every few seconds.
    fn note(&self, _what: &str) {}
}

/// A caller that neither ends a wait early nor notes it.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Waiting for Nobody {}

/// Waits until `ready` returns a value. `None` if it returned no value in time.
pub(super) fn until<T>(
    what: &str,
    limit: Duration,
    waiting: &dyn Waiting,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<Option<T>, KernelError> {
    let mut note_at = Instant::now() + QUIET;
    host::poll(limit, LOOK, || {
        if waiting.is_over() {
            return Err(KernelError::Interrupted);
        }
        let value = ready();
        if value.is_none() && Instant::now() >= note_at {
            waiting.note(what);
            note_at = Instant::now() + QUIET;
        }
        Ok(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_time_or_its_caller() {
        struct Over;
        impl Waiting for Over {
            fn is_over(&self) -> bool {
                true
            }
        }
        assert_eq!(until("it", Duration::ZERO, &Nobody, || None::<()>).unwrap(), None);
        assert!(matches!(until("it", Duration::from_secs(60), &Over, || Some(())), Err(KernelError::Interrupted)));
    }
}
