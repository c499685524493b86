//! fts(3) over trees of a mount. libc's own walker opens directories inside libc, where it would
//! find empty placeholders. The entries, their order and the working directory during the walk are
//! as with glibc. libc handles a walk whose roots are all on this host.

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
/// `roots` is an array of C strings that ends with NULL; `order` compares two of the walk's entries.
unsafe fn begin(roots: *const *const c_char, options: c_int, order: Order) -> Result<*mut Walk, Out> {
    if !crate::mounts::any() {
        return Err(Out::Pass);
    }
    let (mut names, mut is_ours) = (Vec::new(), false);
    // SAFETY: `roots` is such an array by the caller's promise.
    unsafe {
        let each = (0..).map_while(|index| ffi::take(roots.wrapping_add(index)).filter(|path| !path.is_null()));
        for path in each {
            // The walk reports an error of a path in the path's entry.
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

/// A walk of this library. [`Out::Pass`] for one of libc.
///
/// # Safety
/// `walk` is NULL or from fts_open, of this library or of libc, and is not closed. No other thread uses it.
unsafe fn ours<'a>(walk: *mut Walk) -> Result<&'a mut Walk, Out> {
    if walk.is_null() {
        return Err(Out::Pass);
    }
    // SAFETY: both kinds of walks have the options at this offset; libc's has nothing after its own fields.
    let options = unsafe { (&raw const (*walk).options).read() };
    if options & OURS == 0 {
        return Err(Out::Pass);
    }
    // SAFETY: `begin` made it, and only this thread uses it by the caller's promise.
    Ok(unsafe { &mut *walk })
}

/// # Safety
/// As [`ours`].
unsafe fn read(walk: *mut Walk) -> Result<Given, Out> {
    // SAFETY: the caller promises what `ours` requires.
    let next = unsafe { ours(walk) }?.read();
    next.map(Given::from).map_err(Out::Errno)
}

/// # Safety
/// As [`ours`].
unsafe fn children(walk: *mut Walk, only: c_int) -> Result<Given, Out> {
    // SAFETY: the caller promises what `ours` requires.
    let walk = unsafe { ours(walk) }?;
    if only != 0 && only != NAMEONLY {
        return Err(Out::Errno(libc::EINVAL));
    }
    walk.children(only != 0).map(Given::from).map_err(Out::Errno)
}

/// # Safety
/// As [`ours`]; `entry` is one that the walk returned.
unsafe fn set(walk: *mut Walk, entry: *mut Entry, wanted: c_int) -> Result<c_int, Out> {
    // SAFETY: the caller promises what `ours` requires.
    unsafe { ours(walk) }?;
    let known = [0, instruction::AGAIN, instruction::FOLLOW, instruction::NONE, instruction::LEAVE_OUT];
    let wanted = known.into_iter().find(|known| c_int::from(*known) == wanted).ok_or(Out::Errno(libc::EINVAL))?;
    if let Some(node) = Node::from_ptr(entry) {
        node.instruction.set(wanted);
    }
    Ok(0)
}

/// # Safety
/// As [`ours`]; no code uses the walk afterwards.
unsafe fn close(walk: *mut Walk) -> Result<c_int, Out> {
    // SAFETY: `begin` made it with `Box::into_raw`, and the program closes it once.
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
