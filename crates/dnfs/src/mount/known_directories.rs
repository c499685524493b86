//! The directories that this process has open, and its working directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::DirectoryPlaceholder;
use crate::process::this_process;
use crate::sys::clock::give_way;
use crate::sys::fork_lock::{ForkGuard, ForkLock};

/// How often a thread yields to the holder of the table's lock. The holder needs a microsecond, unless it is stopped.
const TURNS_MAX: u32 = 10_000;

/// A table from placeholders to directories. A fork copies it. A caller that does not get the lock, such as a signal handler
/// that interrupted the holder, finds nothing and asks the segment.
#[derive(Debug)]
pub struct KnownDirectories<V>(ForkLock<Inner<V>>);

#[derive(Debug)]
struct Inner<V> {
    known: BTreeMap<DirectoryPlaceholder, (u64, Arc<V>)>,
    /// Incremented with each change; an entry contains the number of its change.
    changes: u64,
    /// With more entries than this, [`KnownDirectories::retain`] is due.
    limit: usize,
}

/// With at most this number of entries, closed directories are not searched for.
const UNASKED: usize = 64;

impl<V> Inner<V> {
    const fn new() -> Self {
        Self { known: BTreeMap::new(), changes: 0, limit: UNASKED }
    }
}

impl<V> Default for KnownDirectories<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> KnownDirectories<V> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self(ForkLock::new(Inner::new()))
    }

    /// What a placeholder represents.
    pub fn find(&self, placeholder: DirectoryPlaceholder) -> Option<Arc<V>> {
        self.lock()?.known.get(&placeholder).map(|(_, value)| Arc::clone(value))
    }

    /// Stores what a placeholder represents. Returns the number of this change if [`Self::retain`] is due.
    pub fn insert(&self, placeholder: DirectoryPlaceholder, value: Arc<V>) -> Option<u64> {
        let mut inner = self.lock()?;
        inner.changes += 1;
        let number = inner.changes;
        let replaced = inner.known.insert(placeholder, (number, value));
        let due = (inner.known.len() > inner.limit).then_some(number);
        drop(inner);
        drop(replaced); // frees memory after the lock is released
        due
    }

    /// Forgets the directories that are closed. `is_open` is from a list of descriptors that was made after the change of number
    /// `since`; newer entries stay.
    pub fn retain(&self, since: u64, is_open: impl Fn(DirectoryPlaceholder) -> bool) {
        let Some(mut inner) = self.lock() else { return };
        inner.known.retain(|placeholder, (number, _)| *number >= since || is_open(*placeholder));
        inner.limit = inner.known.len() * 2 + UNASKED;
    }

    fn lock(&self) -> Option<ForkGuard<'_, Inner<V>>> {
        let me = this_process().current_thread();
        for _ in 0..TURNS_MAX {
            let taken = self.0.try_lock(me, |torn| std::mem::forget(std::mem::replace(torn, Inner::new())));
            if taken.is_some() || self.0.is_held_by(me) {
                return taken;
            }
            give_way();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholder(number: u64) -> DirectoryPlaceholder {
        DirectoryPlaceholder::new(number, 5, 5)
    }

    #[test]
    fn what_is_closed_is_forgotten_and_what_was_opened_meanwhile_is_not() {
        let known = KnownDirectories::new();
        for number in 0..UNASKED as u64 {
            assert_eq!(known.insert(placeholder(number), Arc::new(number)), None);
        }
        let due = known.insert(placeholder(100), Arc::new(100)).unwrap();
        known.insert(placeholder(101), Arc::new(101));
        known.retain(due, |open| open == placeholder(7));
        let left: Vec<_> = (0..200).filter_map(|number| known.find(placeholder(number))).map(|value| *value).collect();
        assert_eq!(left, [7, 100, 101]);
    }

    #[test]
    fn a_signal_handler_that_came_in_between_finds_nothing_and_does_not_wait() {
        let known = KnownDirectories::new();
        known.insert(placeholder(1), Arc::new(()));
        known.0.set_holder(this_process().current_thread());
        assert!(known.find(placeholder(1)).is_none());
        known.0.set_holder(this_process().current_thread().other_thread().before_fork());
        assert!(known.find(placeholder(1)).is_none(), "what a fork left torn is given up");
        assert!(known.insert(placeholder(1), Arc::new(())).is_none() && known.find(placeholder(1)).is_some());
    }
}
