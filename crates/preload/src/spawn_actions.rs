//! Actions on files and directories of a mount, which libc's lists of posix_spawn actions cannot contain.

use libc::{c_int, mode_t, posix_spawn_file_actions_t};
use std::ffi::CString;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Maximum number of actions in a process. A list has few of them, and exists for one or two calls.
const ACTIONS_MAX: usize = 256;

/// An action.
pub(crate) enum Action {
    /// The parent opens a file onto the number reserved for it.
    Open { number: c_int, path: CString, flags: c_int, mode: mode_t },
    /// The child enters another directory, on a mount or not, in which relative paths then begin.
    /// The parent opens a directory that was given by its path onto the number reserved for it.
    Enter { mounted: bool, number: Option<c_int>, path: CString },
}

/// An action, and its place in the order of additions.
pub(crate) struct Noted {
    order: usize,
    /// The action.
    pub(crate) action: Action,
}

struct Slot {
    list: AtomicUsize, // address of the list; 0 if the slot is free
    noted: AtomicPtr<Noted>,
}

/// Slots are used without a lock, which a fork by another thread could leave locked in the child.
/// One thread at a time changes a list.
static SLOTS: [Slot; ACTIONS_MAX] =
    [const { Slot { list: AtomicUsize::new(0), noted: AtomicPtr::new(std::ptr::null_mut()) } }; ACTIONS_MAX];
static ORDER: AtomicUsize = AtomicUsize::new(0);

fn slots(list: *const posix_spawn_file_actions_t) -> impl Iterator<Item = &'static Slot> {
    SLOTS.iter().filter(move |slot| slot.list.load(Ordering::Acquire) == list as usize)
}

/// Adds an action to a list. Returns an errno.
pub(crate) fn note(list: *const posix_spawn_file_actions_t, action: Action) -> c_int {
    let free = |slot: &&Slot| slot.list.compare_exchange(0, list as usize, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let Some(slot) = SLOTS.iter().find(free) else { return libc::ENOMEM };
    let noted = Noted { order: ORDER.fetch_add(1, Ordering::Relaxed), action };
    slot.noted.store(Box::into_raw(Box::new(noted)), Ordering::Release);
    0
}

/// The actions of a list, in the order of their addition.
///
/// # Safety
/// The list is in use: no other thread changes or destroys it.
pub(crate) unsafe fn of_list<'l>(list: *const posix_spawn_file_actions_t) -> Vec<&'l Noted> {
    // SAFETY: `note` made these actions, and they are freed only when the list ends.
    let all = slots(list).filter_map(|slot| unsafe { slot.noted.load(Ordering::Acquire).as_ref() });
    let mut all: Vec<&Noted> = all.collect();
    all.sort_by_key(|noted| noted.order);
    all
}

/// Removes and returns the actions of a list. Called when the list begins or ends.
pub(crate) fn take(list: *const posix_spawn_file_actions_t) -> Vec<Action> {
    let taken = |slot: &Slot| {
        let noted = slot.noted.swap(std::ptr::null_mut(), Ordering::AcqRel);
        slot.list.store(0, Ordering::Release);
        // SAFETY: `Box::into_raw` in `note` made it, and the swap removes it once.
        (!noted.is_null()).then(|| unsafe { Box::from_raw(noted) }.action)
    };
    slots(list).filter_map(taken).collect()
}
