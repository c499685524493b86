//! Locks that stay in use after a panic.

use std::sync::{LockResult, PoisonError};

/// Gives the guard of a lock, also if a thread panicked while it held the lock. The panic ends that thread, not those that share
/// the lock with it. For values that no panic leaves half changed.
pub trait Unpoisoned<T> {
    /// The guard, or what a wait for a condition returns.
    fn unpoisoned(self) -> T;
}

impl<T> Unpoisoned<T> for LockResult<T> {
    fn unpoisoned(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_panic_leaves_the_value_accessible() {
        let lock = Mutex::new(1);
        let hold = || {
            let _held = lock.lock();
            panic!("while the lock is held");
        };
        assert!(std::panic::catch_unwind(hold).is_err() && lock.is_poisoned());
        assert_eq!(*lock.lock().unpoisoned(), 1);
    }
}
