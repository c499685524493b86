//! MAP_SHARED of files of a mount. The program maps a file in memory that has the bytes
//! (docs/design/016-shared-mappings.md). The table in `regions` maps addresses to files, so that
//! msync, the last munmap, exit and exec write stored bytes to the server.

use crate::hook::hooks;
use crate::mapping::Mapping;
use crate::messages::warn;
use crate::open_file::Open;
use crate::outcome::{Out, kept};
use crate::raw;
use dnfs::mount::{FileRef, MapRefusal, Mount};
use libc::{c_int, c_void, off_t, size_t};
use regions::with;
use std::ops::Range;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

mod regions;

pub(crate) use regions::{Copied, after_fork_child, any};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The addresses of the pages of a range that is given as in munmap(2).
pub(crate) fn pages(at: *const c_void, bytes: size_t) -> Range<usize> {
    let start = at as usize;
    start..start.saturating_add(bytes.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1))
}

/// Places in the table that a call in progress has reserved. Dropped after the call.
pub(crate) struct Places {
    count: usize,
}

impl Places {
    /// For a call that makes `more` mappings and removes these ranges.
    ///
    /// # Errors
    /// ENOMEM if the table is full, as if the process had too many mappings.
    fn reserve(gone: &[Range<usize>], more: usize) -> Result<Self, Out> {
        let count = with(|table| table.reserve(gone, more)).ok_or(Out::Errno(libc::ENOMEM))?;
        Ok(Self { count })
    }

    /// For a call that replaces what is mapped in these pages, if anything is.
    ///
    /// # Errors
    /// ENOMEM if the table is full.
    pub(crate) fn to_replace(at: *const c_void, bytes: size_t) -> Result<Self, Out> {
        if any() { Self::reserve(&[pages(at, bytes)], 0) } else { Ok(Self { count: 0 }) }
    }

    /// For mremap(2). `to`: the pages that the mapping replaces, with MREMAP_FIXED.
    ///
    /// # Errors
    /// ENOMEM if the table is full.
    pub(crate) fn to_move(old: *const c_void, old_bytes: size_t, to: Option<Range<usize>>) -> Result<Self, Out> {
        let more = usize::from(with(|table| table.has(old as usize)));
        let gone = [pages(old, old_bytes), to.unwrap_or(0..0)];
        Self::reserve(&gone, more)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if self.count > 0 {
            with(|table| table.release(self.count));
        }
    }
}

/// mmap(2) of a file of a mount with MAP_SHARED. `real` maps a descriptor.
pub(crate) fn map(
    file: &Open,
    bytes: size_t,
    protection: c_int,
    offset: off_t,
    real: impl FnOnce(c_int) -> Mapping,
) -> Result<Mapping, Out> {
    let access = file.flags & libc::O_ACCMODE;
    let stores = protection & libc::PROT_WRITE != 0;
    if access == libc::O_WRONLY || stores && access != libc::O_RDWR {
        return Err(Out::Errno(libc::EACCES));
    }
    let offset = u64::try_from(offset).ok().filter(|offset| offset.is_multiple_of(PAGE_BYTES as u64) && bytes > 0);
    let offset = offset.ok_or(Out::Errno(libc::EINVAL))?;
    let (mount, number) = (file.mount, file.file);
    let _place = Places::reserve(&[], 1)?;
    let is_pinned = with(|table| table.begin(mount, number)).ok_or(Out::Errno(libc::ENOMEM))?;
    let prepared = mount.map_shared(number, access == libc::O_RDWR, stores, is_pinned);
    let mapped = match prepared {
        Ok(mapped) => mapped,
        Err(refusal) => {
            if is_pinned {
                with(|table| table.give_up(mount, number));
                end_unused();
            }
            return Err(refused(file, refusal));
        }
    };
    if let Err(spare) = with(|table| table.pin(mount, number, mapped.pin)) {
        spare.into_iter().for_each(close_pin);
    }
    if stores {
        write_at_exit();
    }
    let memory = kept(real(mapped.to_map));
    let _ = raw::close(mapped.to_map);
    let made = memory.as_ref().ok().map(|memory| (pages(memory.address(), bytes), offset, access == libc::O_RDWR));
    let is_entered = with(|table| table.end(mount, number, made.clone(), stores));
    if let Some((range, ..)) = made.filter(|_| !is_entered) {
        // SAFETY: exactly the mapping that was just made, whose address the program does not have.
        unsafe { raw::unmap(range.start as *mut u8, range.len()) };
    }
    end_unused();
    if is_entered { memory } else { Err(Out::Errno(libc::ENOMEM)) }
}

fn close_pin(pin: c_int) {
    dnfs::set_internal_fd(pin, false);
    let _ = raw::close(pin);
}

/// The error for a file that cannot be mapped. Prints the cause and what helps, once in a process.
fn refused(file: &Open, refusal: MapRefusal) -> Out {
    let (needed, free) = match refusal {
        MapRefusal::Failed(error) => return Out::from(error),
        MapRefusal::NoRoom { needed, free } => (needed >> 20, free >> 20),
    };
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        let directory = file.mount.runtime_dir().display();
        let number = file.attr().map_or(0, |attr| attr.fileid);
        warn(format_args!(
            "cannot map the file with inode number {number} of {} MAP_SHARED: it needs {needed} MiB of memory in {directory}, of which {free} MiB \
             are to be had; enlarge that file system (docker --shm-size, mount -o remount,size=) or the host's memory, or have the program \
             not map: SQLite PRAGMA mmap_size=0, PostgreSQL dynamic_shared_memory_type=posix, LMDB writemap off",
            String::from_utf8_lossy(file.mount.local_path()),
        ));
    }
    Out::Errno(libc::ENOMEM)
}

/// Removes a range of addresses that now belongs to another mapping, or to no mapping.
pub(crate) fn forget(at: *const c_void, bytes: size_t) {
    if regions::any() {
        with(|table| table.cut(&pages(at, bytes)));
        end_unused();
    }
}

/// Writes the bytes stored into files that this process no longer maps to the server, and releases
/// these files.
fn end_unused() {
    while let Some(unused) = with(|table| table.take_unused()) {
        if unused.stores {
            let _ = unused.mount.write_back(unused.file, 0..u64::MAX); // munmap(2) reports no error; a refused write is repeated
        }
        close_pin(unused.pin);
        unused.mount.unmapped(unused.file);
    }
    while let Some(memory) = with(|table| table.take_unused_copied()) {
        close_pin(memory);
    }
}

/// Notes a private mapping, so that mremap(2) can make it longer. If the table is full, an access
/// to its new part gives SIGBUS.
pub(crate) fn enter_copied(range: Range<usize>, copied: Copied) {
    if !with(|table| table.enter_copied(range, copied)) {
        close_pin(copied.memory);
    }
}

/// The file in memory that is mapped at this address, and the offset of the address in the file of the mount.
pub(crate) fn copied_at(address: usize) -> Option<(Copied, u64)> {
    with(|table| table.copied_at(address).map(|(copied, at)| (*copied, at)))
}

/// Notes the new length of the file in memory that is mapped at this address.
pub(crate) fn note_grown(address: usize, bytes: u64) {
    with(|table| {
        if let Some((copied, _)) = table.copied_at(address) {
            copied.bytes = copied.bytes.max(bytes);
        }
    });
}

/// Writes stored bytes to the server. Called before the process ends or executes another program.
pub(crate) fn write_all() {
    if !regions::any() {
        return;
    }
    let mut next = 0;
    while let Some((number, mount, file)) = with(|table| table.stored_from(next)) {
        let _ = mount.write_back(file, 0..u64::MAX);
        next = number + 1;
    }
}

/// Registers [`write_all`] for exit(3), which ends the process from inside libc.
fn write_at_exit() {
    extern "C" fn write() {
        write_all();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `write` lives as long as the process.
        let _ = unsafe { libc::atexit(write) };
    });
}

/// The part of msync(2) after the kernel's: writes stored bytes to the server, and commits them.
fn sync(at: *const c_void, bytes: size_t, flags: c_int) -> Result<(), Out> {
    if flags & libc::MS_SYNC == 0 {
        return Ok(()); // the stored bytes survive the end of the process
    }
    let range = pages(at, bytes);
    let mut from = range.start;
    let mut synced: Option<(&'static Mount, FileRef)> = None;
    while let Some((next, part)) = with(|table| table.part(from..range.end)) {
        part.mount.write_back(part.file, part.bytes)?;
        if synced.is_some_and(|(mount, file)| !(std::ptr::eq(mount, part.mount) && file == part.file)) {
            commit(synced.take())?;
        }
        synced = Some((part.mount, part.file));
        from = next;
    }
    commit(synced)
}

fn commit(file: Option<(&'static Mount, FileRef)>) -> Result<(), Out> {
    let Some((mount, file)) = file else { return Ok(()) };
    let known = with(|table| table.cursor(mount, file).copied());
    let cursor = AtomicU32::new(known.unwrap_or_else(|| mount.error_cursor(file)));
    let done = mount.sync_written(file, &cursor);
    with(|table| table.cursor(mount, file).map(|known| *known = cursor.load(Ordering::Relaxed)));
    Ok(done?)
}

/// Called before memory becomes writable. From then on, the file in memory is compared to find stored bytes.
fn before_stores(at: *const c_void, bytes: size_t, protection: c_int) -> Result<(), Out> {
    if protection & libc::PROT_WRITE == 0 || !regions::any() {
        return Ok(());
    }
    while let Some((mount, file)) = with(|table| table.not_stored(&pages(at, bytes))) {
        let mapped = mount.map_shared(file, true, true, true).map_err(|refusal| match refusal {
            MapRefusal::Failed(error) => Out::from(error),
            MapRefusal::NoRoom { .. } => Out::Errno(libc::ENOMEM),
        })?;
        let _ = raw::close(mapped.to_map);
        with(|table| table.note_stores(mount, file));
        write_at_exit();
    }
    Ok(())
}

/// Called after mremap(2) has moved or resized a mapping.
pub(crate) fn moved(old: *mut c_void, old_bytes: size_t, new: *mut c_void, new_bytes: size_t) {
    with(|table| table.relocate(&pages(old, old_bytes), pages(new, new_bytes)));
    end_unused();
}

hooks! {
    /// munmap(2).
    fn munmap(at: *mut c_void, bytes: size_t) -> c_int = SYS_munmap {
        if !regions::any() { return Err(Out::Pass) }
        let _places = Places::to_replace(at, bytes)?;
        let answer = kept(real(at, bytes))?;
        forget(at, bytes);
        Ok(answer)
    }
    /// msync(2).
    @cancellation_point fn msync(at: *mut c_void, bytes: size_t, flags: c_int) -> c_int = SYS_msync {
        if !regions::any() { return Err(Out::Pass) }
        let answer = kept(real(at, bytes, flags))?;
        sync(at, bytes, flags)?;
        Ok(answer)
    }
    /// mprotect(2).
    fn mprotect(at: *mut c_void, bytes: size_t, protection: c_int) -> c_int = SYS_mprotect {
        before_stores(at, bytes, protection)?;
        Err(Out::Pass)
    }
}
