//! Waiting for something that reports nothing.

use std::thread;
use std::time::{Duration, Instant};

/// Calls `ready` until it returns a value, with a pause after each call. `None` after the limit; there is always a first call.
///
/// # Errors
/// The error of `ready`, at once.
pub fn poll<T, E>(limit: Duration, pause: Duration, mut ready: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    let end = Instant::now() + limit;
    loop {
        match ready()? {
            None if Instant::now() < end => thread::sleep(pause),
            outcome => return Ok(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_a_value_an_error_or_the_limit() {
        let (long, pause) = (Duration::from_secs(60), Duration::from_millis(1));
        let mut calls = 0;
        let third = || {
            calls += 1;
            Ok::<_, ()>((calls == 3).then_some(calls))
        };
        assert_eq!(poll(long, pause, third), Ok(Some(3)));
        assert_eq!(poll(long, pause, || Err::<Option<()>, _>("no")), Err("no"));
        assert_eq!(poll(Duration::ZERO, pause, || Ok::<Option<()>, ()>(None)), Ok(None));
    }
}
