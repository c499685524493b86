//! fts(3) over trees of a mount: libc's own walker opens directories inside libc, where it would find empty placeholders. What it
//! gives, in which order, and where the process is meanwhile is as glibc has it. A walk that begins on this host alone stays libc's.

mod entry;
mod list;
mod walk;

use crate::ffi;
use crate::hook::hooks;
use crate::outcome::Out;
use crate::paths::{self, Target};
use entry::{Entry, Given, Node, instruction};
use libc::{c_char, c_int};
use walk::{KNOWN, NAMEONLY, OURS, Order, Walk};

/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn begin(roots: *const *const c_char, options: c_int, order: Order) -> Result<*mut Walk, Out> {
    if !crate::mounts::any() {
        return Err(Out::Pass);
    }
    let (mut names, mut is_ours) = (Vec::new(), false);
    // SAFETY: the pointers are those of the hook's caller: NULL ends them.
    unsafe {
        let each = (0..).map_while(|index| ffi::take(roots.wrapping_add(index)).filter(|path| !path.is_null()));
        for path in each {
            // What is wrong with a path, the walk tells of its entry.
            is_ours |= !matches!(paths::target_linked(libc::AT_FDCWD, path, false), Ok(Target::Local(_)));
            names.push(ffi::path(path)?);
        }
    }
    if !is_ours {
        return Err(Out::Pass);
    }
    if options & !KNOWN != 0 {
        return Err(Out::Errno(libc::EINVAL));
    }
    Ok(Box::into_raw(Walk::begin(&names, options, order)?))
}

/// A walk of ours.
///
/// # Safety
/// The pointer is one that fts_open gave, ours or libc's, and not closed.
unsafe fn ours<'a>(walk: *mut Walk) -> Result<&'a mut Walk, Out> {
    if walk.is_null() {
        return Err(Out::Pass);
    }
    // SAFETY: where the options are, both have them; libc's has nothing behind its own fields.
    let options = unsafe { (&raw const (*walk).options).read() };
    if options & OURS == 0 {
        return Err(Out::Pass);
    }
    // SAFETY: from `begin`; one thread uses a walk, by the contract of fts.
    Ok(unsafe { &mut *walk })
}

/// # Safety
/// As [`ours`].
unsafe fn read(walk: *mut Walk) -> Result<Given, Out> {
    // SAFETY: the caller's promise.
    let next = unsafe { ours(walk) }?.read();
    next.map(Given::from).map_err(Out::Errno)
}

/// # Safety
/// As [`ours`].
unsafe fn children(walk: *mut Walk, only: c_int) -> Result<Given, Out> {
    // SAFETY: the caller's promise.
    let walk = unsafe { ours(walk) }?;
    if only != 0 && only != NAMEONLY {
        return Err(Out::Errno(libc::EINVAL));
    }
    walk.children(only != 0).map(Given::from).map_err(Out::Errno)
}

/// # Safety
/// As [`ours`]; the entry is one that the walk gave.
unsafe fn set(walk: *mut Walk, entry: *mut Entry, wanted: c_int) -> Result<c_int, Out> {
    // SAFETY: the caller's promise.
    unsafe { ours(walk) }?;
    let known = [0, instruction::AGAIN, instruction::FOLLOW, instruction::NONE, instruction::LEAVE_OUT];
    let wanted = known.into_iter().find(|known| c_int::from(*known) == wanted).ok_or(Out::Errno(libc::EINVAL))?;
    if let Some(node) = Node::from_ptr(entry) {
        node.instruction.set(wanted);
    }
    Ok(0)
}

/// # Safety
/// As [`ours`]; the walk is used no more.
unsafe fn close(walk: *mut Walk) -> Result<c_int, Out> {
    // SAFETY: from `begin`, and given back once.
    let walk = *unsafe { Box::from_raw(std::ptr::from_mut(ours(walk)?)) };
    walk.close().map(|()| 0).map_err(Out::Errno)
}

hooks! {
    /// fts_open(3).
    fn fts_open(roots: *const *const c_char, options: c_int, order: Order) -> *mut Walk { begin(roots, options, order) }
    /// fts_open(3).
    fn fts64_open(roots: *const *const c_char, options: c_int, order: Order) -> *mut Walk { begin(roots, options, order) }
    /// fts_read(3).
    fn fts_read(walk: *mut Walk) -> Given { read(walk) }
    /// fts_read(3).
    fn fts64_read(walk: *mut Walk) -> Given { read(walk) }
    /// fts_children(3).
    fn fts_children(walk: *mut Walk, only: c_int) -> Given { children(walk, only) }
    /// fts_children(3).
    fn fts64_children(walk: *mut Walk, only: c_int) -> Given { children(walk, only) }
    /// fts_set(3).
    fn fts_set(walk: *mut Walk, entry: *mut Entry, wanted: c_int) -> c_int { set(walk, entry, wanted) }
    /// fts_set(3).
    fn fts64_set(walk: *mut Walk, entry: *mut Entry, wanted: c_int) -> c_int { set(walk, entry, wanted) }
    /// fts_close(3).
    fn fts_close(walk: *mut Walk) -> c_int { close(walk) }
    /// fts_close(3).
    fn fts64_close(walk: *mut Walk) -> c_int { close(walk) }
}
