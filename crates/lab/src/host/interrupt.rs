//! Ctrl-C as a value: looked at between steps, so that every step can clean up.

use std::time::Duration;

use crate::error::LabError;
use crate::sys;

/// Pause between two looks at the flag while waiting for something.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);

/// Starts to treat SIGINT, SIGTERM and SIGHUP as a wish to stop and clean up.
pub(crate) fn catch() {
    sys::catch_interrupts();
}

/// # Errors
/// [`LabError::Interrupted`] once a signal has come.
pub(crate) fn check() -> Result<(), LabError> {
    if sys::interrupted() { Err(LabError::Interrupted) } else { Ok(()) }
}

/// Waits until `ready` gives a value or `limit` has passed (`None`).
///
/// # Errors
/// [`LabError::Interrupted`], or what `ready` returns.
pub(crate) fn wait_for<T>(
    limit: Duration,
    mut ready: impl FnMut() -> Result<Option<T>, LabError>,
) -> Result<Option<T>, LabError> {
    ::host::poll(limit, POLL_EVERY, || {
        check()?;
        ready()
    })
}
