//! Waiting for what others do.

use super::error::KernelError;
use std::time::{Duration, Instant};

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// After this long whoever waits is told for what, and each time it has passed again.
const QUIET: Duration = Duration::from_secs(5);

/// Who waits meanwhile.
pub trait Waiting {
    /// Whether the wait is to end before its time, as by Ctrl-C.
    fn is_over(&self) -> bool {
        false
    }

    /// Takes note of what is waited for; called every few seconds.
    fn note(&self, _what: &str) {}
}

/// Nobody: every wait takes its time.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Waiting for Nobody {}

/// Waits until `ready` gives a value; none when it gave none in time.
pub(super) fn until<T>(
    what: &str,
    limit: Duration,
    waiting: &dyn Waiting,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<Option<T>, KernelError> {
    let began = Instant::now();
    let mut note_at = began + QUIET;
    loop {
        if waiting.is_over() {
            return Err(KernelError::Interrupted);
        }
        if let Some(value) = ready() {
            return Ok(Some(value));
        }
        let now = Instant::now();
        if now >= began + limit {
            return Ok(None);
        }
        if now >= note_at {
            waiting.note(what);
            note_at = now + QUIET;
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_value_its_time_or_its_caller() {
        struct Over;
        impl Waiting for Over {
            fn is_over(&self) -> bool {
                true
            }
        }
        let mut looks = 0;
        let third = until("it", Duration::from_secs(60), &Nobody, || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(third.unwrap(), Some(3));
        assert_eq!(until("it", Duration::ZERO, &Nobody, || None::<()>).unwrap(), None);
        assert!(matches!(until("it", Duration::from_secs(60), &Over, || Some(())), Err(KernelError::Interrupted)));
    }
}
