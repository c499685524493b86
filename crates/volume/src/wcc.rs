//! Attributes before and after a change (RFC 1813 2.6, weak cache consistency), on a volume that is `exclusive`.
//!
//! A client that finds the attributes of its cache in `before` keeps the cache, because only its
//! own change was made in between. So `before` is given only if that is certain:
//!
//! - One lock covers the reading before, the change and the reading after: the lock of a directory's
//!   names, or the lock of another object's attributes.
//! - Some changes do not take this lock: a WRITE, and the changes of an object's own times by LINK,
//!   REMOVE and RENAME. They are counted ([`WccState::begin_other`]). If one runs meanwhile, `before`
//!   is left out.
//! - Two states of the object must not have the same ctime. Since Linux 6.13 they do not, because each
//!   reading makes the next ctime finer (`times`). On other hosts the ctime is that of a clock tick (1
//!   to 10 ms, on some file systems a second). There `before` is given only if it is the state after
//!   the last change through this volume, and that change moved the ctime.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use host::Unpoisoned;

use crate::types::Attr;

/// Attributes around a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wcc {
    /// The attributes right before the change. `None` if another change may have been made in between.
    pub before: Option<Attr>,
    /// The attributes right after the change.
    pub after: Attr,
}

/// The state of a node from which `before` is decided.
#[derive(Debug, Default)]
pub(crate) struct WccState {
    /// Numbers of changes without the lock that have begun, and that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// The attributes after the last change under the lock, if no other state of the object had this ctime.
    left: Mutex<Option<Left>>,
}

#[derive(Debug, Clone, Copy)]
struct Left {
    attr: Attr,
    begun: u64,
}

/// The number of changes without the lock that have begun. `None` while one runs.
pub(crate) type Watch = Option<u64>;

impl WccState {
    /// Begins a change without the lock.
    pub(crate) fn begin_other(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a change without the lock.
    pub(crate) fn end_other(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number to compare later. Called before the attributes are read.
    pub(crate) fn watch(&self) -> Watch {
        // In this order: if the numbers are equal, no change ran when the second one was read.
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended).then_some(begun)
    }

    /// Begins a change under the lock. `fine`: no two states have the same ctime. Returns `None` if its `before` is not certain.
    pub(crate) fn begin(&self, started: Watch, before: &Attr, fine: bool) -> Watch {
        let left = self.left.lock().unpoisoned().take();
        let is_left = |left: Left| Some(left.begun) == started && is_same(&left.attr, before);
        started.filter(|_| fine || left.is_some_and(is_left))
    }

    /// Ends the change. The attributes were read after it.
    pub(crate) fn end(&self, started: Watch, certain: Watch, before: Attr, after: Attr) -> Wcc {
        let begun = self.begun.load(Ordering::SeqCst);
        if started == Some(begun) && before.ctime != after.ctime {
            *self.left.lock().unpoisoned() = Some(Left { attr: after, begun });
        }
        Wcc { before: (certain == Some(begun)).then_some(before), after }
    }
}

/// Whether a client would treat both as the attributes of one state.
fn is_same(one: &Attr, other: &Attr) -> bool {
    (one.size, one.mtime, one.ctime) == (other.size, other.mtime, other.ctime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Kind, Time};

    fn at(tick: i64, size: u64) -> Attr {
        let (none, time) = (Time { sec: 0, nsec: 0 }, Time { sec: tick, nsec: 0 });
        let (mode, nlink, uid, gid, used, rdev) = (0o755, 2, 0, 0, 0, (0, 0));
        let (kind, fsid, fileid) = (Kind::Directory, 1, 2);
        Attr { kind, mode, nlink, uid, gid, size, used, rdev, fsid, fileid, atime: none, mtime: time, ctime: time }
    }

    /// Runs `meanwhile` during a change. Returns the attributes from before that the change reports.
    fn change(state: &WccState, fine: bool, (before, after): (Attr, Attr), meanwhile: impl FnOnce()) -> Option<Attr> {
        let started = state.watch();
        let certain = state.begin(started, &before, fine);
        meanwhile();
        state.end(started, certain, before, after).before
    }

    #[test]
    fn with_a_coarse_clock_attributes_from_before_are_given_only_if_their_time_is_of_one_state() {
        let state = WccState::default();
        let made = |before, after| change(&state, false, (before, after), || {});
        assert_eq!(made(at(1, 0), at(2, 0)), None, "changes before the start of this process are unknown");
        assert_eq!(made(at(2, 0), at(2, 0)), Some(at(2, 0)));
        assert_eq!(made(at(2, 0), at(3, 0)), None, "two states have the time 2");
        assert_eq!(made(at(3, 0), at(4, 0)), Some(at(3, 0)));
        assert_eq!(made(at(5, 0), at(6, 0)), None, "another program has changed it");
        assert_eq!(made(at(6, 0), at(6, 1)), Some(at(6, 0)));
        assert_eq!(made(at(6, 1), at(7, 1)), None, "clients compare only the time");
    }

    #[test]
    fn a_change_without_the_lock_leaves_out_the_attributes_from_before() {
        let state = WccState::default();
        let other = |number: &AtomicU64| {
            number.fetch_add(1, Ordering::SeqCst);
        };
        let states = (at(1, 0), at(2, 0));
        let made = |meanwhile: &dyn Fn()| change(&state, true, states, meanwhile);
        assert_eq!(made(&|| {}), Some(at(1, 0)));
        assert_eq!(made(&|| other(&state.begun)), None);
        assert_eq!(made(&|| {}), None, "it is still running");
        assert_eq!(made(&|| other(&state.ended)), None);
        assert_eq!(made(&|| {}), Some(at(1, 0)));
        let coarse = |states| change(&state, false, states, || {});
        assert_eq!(coarse((at(2, 0), at(3, 0))), Some(at(2, 0)));
        other(&state.begun);
        other(&state.ended);
        assert_eq!(coarse((at(3, 0), at(4, 0))), None, "a write may have had the time 3 too");
    }
}
