//! Locking small values.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic elsewhere leaves the small values in these locks whole.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
