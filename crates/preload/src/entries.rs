//! getdents64 and its relatives on an open directory of a mount. The position in the listing is the
//! placeholder's offset, so dup, fork and exec share it and lseek moves it, as in the kernel. The
//! listing is read at offset 0 and kept for a while, so that a removal in the meantime does not
//! shift the other names.

use crate::hook::hooks;
use crate::outcome::Out;
use crate::raw;
use crate::streams::{read_items, type_of};
use crate::table::{self, Found};
use dnfs::file::FileHandle;
use dnfs::mount::DirItem;
use libc::{c_int, c_void, off_t, size_t, ssize_t};
use std::sync::Mutex;

/// Number of cached listings. A listing that was dropped is read again.
const KEPT_MAX: usize = 16;

/// A listing that a program is reading.
struct Listing {
    fd: c_int,
    mount: usize,
    handle: FileHandle,
    items: Vec<DirItem>,
}

/// This lock is only tried: a signal handler that lists a directory may have interrupted its
/// holder, and then works without the cache.
static LISTINGS: Mutex<Vec<Listing>> = Mutex::new(Vec::new());

fn with_listings<R>(f: impl FnOnce(&mut Vec<Listing>) -> R) -> Option<R> {
    LISTINGS.try_lock().ok().map(|mut listings| f(&mut listings))
}

/// The layout of an entry in the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `struct linux_dirent64`, libc's `struct dirent`: the type before the name.
    Type,
    /// `struct linux_dirent` of the old getdents: the type is the entry's last byte.
    TypeLast,
}

/// An entry's bytes, a multiple of 8: inode, position of the next entry, length, and the rest as
/// the layout says.
fn encode(item: &DirItem, next: usize, layout: Layout) -> Vec<u8> {
    let named = match layout {
        Layout::Type => 19 + item.name.len() + 1,
        Layout::TypeLast => 18 + item.name.len() + 2,
    };
    let length = named.next_multiple_of(8);
    let mut entry = Vec::with_capacity(length);
    entry.extend_from_slice(&item.fileid.to_ne_bytes());
    entry.extend_from_slice(&(next as i64).to_ne_bytes());
    entry.extend_from_slice(&(length as u16).to_ne_bytes());
    if layout == Layout::Type {
        entry.push(type_of(item.kind));
    }
    entry.extend_from_slice(&item.name);
    entry.resize(length, 0);
    if layout == Layout::TypeLast {
        entry[length - 1] = type_of(item.kind);
    }
    entry
}

/// Copies as many entries from `from` on as fit. Returns the number of bytes and of entries.
fn fill(items: &[DirItem], from: usize, layout: Layout, buffer: &mut [u8]) -> Result<(usize, usize), Out> {
    let (mut bytes, mut count) = (0, 0);
    for item in items.get(from..).unwrap_or_default() {
        let entry = encode(item, from + count + 1, layout);
        let Some(place) = buffer.get_mut(bytes..bytes + entry.len()) else { break };
        place.copy_from_slice(&entry);
        bytes += entry.len();
        count += 1;
    }
    if count == 0 && from < items.len() { Err(Out::Errno(libc::EINVAL)) } else { Ok((bytes, count)) }
}

/// getdents64(2) and getdents(2).
pub(crate) fn list(fd: c_int, buffer: &mut [u8], layout: Layout) -> Result<usize, Out> {
    let opened = match table::find(fd)? {
        Found::Directory(opened) => opened,
        Found::File(_) => return Err(Out::Errno(libc::ENOTDIR)),
        Found::Elsewhere => return Err(Out::Pass),
    };
    let from = usize::try_from(raw::lseek(fd, 0, libc::SEEK_CUR)?).unwrap_or(0);
    let (mount, handle) = (opened.mounted.index, opened.directory().handle);
    let is_it = |listing: &Listing| listing.fd == fd && listing.mount == mount && listing.handle == handle;
    let taken = with_listings(|listings| {
        let at = listings.iter().position(is_it)?;
        Some(listings.remove(at))
    });
    let items = match taken.flatten() {
        Some(listing) if from > 0 => listing.items,
        _ => read_items(fd)?,
    };
    let (bytes, count) = fill(&items, from, layout, buffer)?;
    raw::lseek(fd, (from + count) as off_t, libc::SEEK_SET)?;
    if count > 0 {
        with_listings(|listings| {
            if listings.len() >= KEPT_MAX {
                listings.remove(0);
            }
            listings.push(Listing { fd, mount, handle, items });
        });
    }
    Ok(bytes)
}

/// # Safety
/// `into` is NULL or `room` writable bytes; `place` is NULL or has room for an offset.
unsafe fn list_from(fd: c_int, into: *mut c_void, room: size_t, place: *mut off_t) -> Result<ssize_t, Out> {
    // SAFETY: `into` is NULL or `room` writable bytes by the caller's promise.
    let buffer = unsafe { crate::ffi::bytes_mut(into, room) };
    let Found::Directory(..) = table::find(fd)? else { return Err(Out::Pass) };
    let from = raw::lseek(fd, 0, libc::SEEK_CUR)?;
    let bytes = list(fd, buffer, Layout::Type)?;
    // SAFETY: `place` is NULL or has room for an offset by the caller's promise.
    unsafe { crate::ffi::put(place, from) }?;
    Ok(bytes as ssize_t)
}

hooks! {
    /// getdents64(2).
    fn getdents64(fd: c_int, into: *mut c_void, room: size_t) -> ssize_t = SYS_getdents64 {
        Ok(list(fd, crate::ffi::bytes_mut_checked(into, room)?, Layout::Type)? as ssize_t)
    }
    /// getdirentries(3).
    fn getdirentries(fd: c_int, into: *mut c_void, room: size_t, place: *mut off_t) -> ssize_t { list_from(fd, into, room, place) }
    /// getdirentries(3).
    fn getdirentries64(fd: c_int, into: *mut c_void, room: size_t, place: *mut off_t) -> ssize_t { list_from(fd, into, room, place) }
}
