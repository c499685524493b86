//! Ctrl-C as a value: checked between steps, so that every step can clean up.

use std::time::Duration;

use crate::error::LabError;
use crate::sys;

/// Pause between two checks of the flag during a wait.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);

/// From now on, SIGINT, SIGTERM and SIGHUP are requests to stop and clean up.
pub(crate) fn catch() {
    sys::catch_interrupts();
}

/// # Errors
/// [`LabError::Interrupted`] after a signal.
pub(crate) fn check() -> Result<(), LabError> {
    if sys::interrupted() { Err(LabError::Interrupted) } else { Ok(()) }
}

/// Waits until `ready` returns a value or `limit` has passed (`None`).
///
/// # Errors
/// [`LabError::Interrupted`], or the error of `ready`.
pub(crate) fn wait_for<T>(
    limit: Duration,
    mut ready: impl FnMut() -> Result<Option<T>, LabError>,
) -> Result<Option<T>, LabError> {
    ::host::poll(limit, POLL_EVERY, || {
        check()?;
        ready()
    })
}
