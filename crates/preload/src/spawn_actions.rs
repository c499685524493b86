//! Actions on files and directories of a mount that libc's lists of posix_spawn actions cannot contain.

use libc::{c_int, mode_t, posix_spawn_file_actions_t};
use std::ffi::CString;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Maximum number of actions in a process. A list has few of them and exists for a call or two.
const ACTIONS_MAX: usize = 256;

/// An action.
pub(crate) enum Action {
    /// Opens a file onto the number reserved for it.
    Open { number: c_int, path: CString, flags: c_int, mode: mode_t },
    /// The child enters another directory, of a mount or not, where relative paths begin. A directory given by its path is
    /// opened onto the number reserved for it.
    Enter { mounted: bool, number: Option<c_int>, path: CString },
}

/// An action and when it was added.
pub(crate) struct Noted {
    order: usize,
    /// The action.
    pub(crate) action: Action,
}

struct Slot {
    list: AtomicUsize, // its address; 0: free
    noted: AtomicPtr<Noted>,
}

/// No lock: who forks may leave one behind for the child. A list is changed by one thread at a time.
static SLOTS: [Slot; ACTIONS_MAX] =
    [const { Slot { list: AtomicUsize::new(0), noted: AtomicPtr::new(std::ptr::null_mut()) } }; ACTIONS_MAX];
static ORDER: AtomicUsize = AtomicUsize::new(0);

fn slots(list: *const posix_spawn_file_actions_t) -> impl Iterator<Item = &'static Slot> {
    SLOTS.iter().filter(move |slot| slot.list.load(Ordering::Acquire) == list as usize)
}

/// Adds an action to a list; the answer is an errno.
pub(crate) fn note(list: *const posix_spawn_file_actions_t, action: Action) -> c_int {
    let free = |slot: &&Slot| slot.list.compare_exchange(0, list as usize, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let Some(slot) = SLOTS.iter().find(free) else { return libc::ENOMEM };
    let noted = Noted { order: ORDER.fetch_add(1, Ordering::Relaxed), action };
    slot.noted.store(Box::into_raw(Box::new(noted)), Ordering::Release);
    0
}

/// The actions of a list in their order.
///
/// # Safety
/// The list is in use: nobody ends it meanwhile.
pub(crate) unsafe fn of_list<'l>(list: *const posix_spawn_file_actions_t) -> Vec<&'l Noted> {
    // SAFETY: entries of this list, which are freed when it ends.
    let all = slots(list).filter_map(|slot| unsafe { slot.noted.load(Ordering::Acquire).as_ref() });
    let mut all: Vec<&Noted> = all.collect();
    all.sort_by_key(|noted| noted.order);
    all
}

/// A list begins or ends: its actions are taken out.
pub(crate) fn take(list: *const posix_spawn_file_actions_t) -> Vec<Action> {
    let taken = |slot: &Slot| {
        let noted = slot.noted.swap(std::ptr::null_mut(), Ordering::AcqRel);
        slot.list.store(0, Ordering::Release);
        // SAFETY: made by Box in `note`, and taken out once.
        (!noted.is_null()).then(|| unsafe { Box::from_raw(noted) }.action)
    };
    slots(list).filter_map(taken).collect()
}
