//! mmap(2) of a file of a mount maps a file in memory with its bytes: one for each private mapping
//! (`private_maps`), or one for all shared mappings (`shared_maps`).

use crate::hook::hooks;
use crate::mapping::Mapping;
use crate::outcome::{Out, kept};
use crate::private_maps;
use crate::shared_maps::{self, Places};
use crate::table;
use libc::{c_int, c_void, off_t, size_t};

fn map_file(
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
    real: impl FnOnce(c_int, off_t) -> Mapping,
) -> Result<Mapping, Out> {
    if flags & libc::MAP_ANONYMOUS != 0 || fd < 0 {
        return Err(Out::Pass);
    }
    let file = table::file(fd).map_err(|out| if out == Out::Errno(libc::EISDIR) { Out::Errno(libc::ENODEV) } else { out })?;
    // The kernel also checks this first. MariaDB maps its log to find out whether it is on
    // persistent memory. Without this check, the copies for a writable mapping would be made, and
    // compared at each flush, for a mapping that is refused.
    if flags & libc::MAP_TYPE == libc::MAP_SHARED_VALIDATE && flags & libc::MAP_SYNC != 0 {
        return Err(Out::Errno(libc::EOPNOTSUPP));
    }
    match flags & libc::MAP_TYPE {
        libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE => shared_maps::map(&file, bytes, protection, offset, |fd| real(fd, offset)),
        _ => private_maps::map(&file, bytes, offset, |memory| real(memory, 0)),
    }
}

/// Reserves places in the table of mappings for what a mapping at a fixed address replaces.
fn places(at: *const c_void, bytes: size_t, flags: c_int) -> Result<Option<Places>, Out> {
    (flags & libc::MAP_FIXED != 0).then(|| Places::to_replace(at, bytes)).transpose()
}

/// Maps another file, or no file. The new mapping may replace one in the table of shared mappings.
fn map_other(bytes: size_t, real: impl FnOnce() -> Mapping) -> Result<Mapping, Out> {
    let memory = kept(real())?;
    shared_maps::forget(memory.address(), bytes);
    Ok(memory)
}

hooks! {
    /// mmap(2).
    fn mmap(at: *mut c_void, bytes: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> Mapping = SYS_mmap {
        let _places = places(at, bytes, flags)?;
        match map_file(bytes, protection, flags, fd, offset, |fd, offset| real(at, bytes, protection, flags, fd, offset)) {
            Err(Out::Pass) => map_other(bytes, || real(at, bytes, protection, flags, fd, offset)),
            done => done,
        }
    }
    /// mmap(2).
    fn mmap64(at: *mut c_void, bytes: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> Mapping {
        let _places = places(at, bytes, flags)?;
        match map_file(bytes, protection, flags, fd, offset, |fd, offset| real(at, bytes, protection, flags, fd, offset)) {
            Err(Out::Pass) => map_other(bytes, || real(at, bytes, protection, flags, fd, offset)),
            done => done,
        }
    }
    /// mremap(2).
    fn mremap(old: *mut c_void, old_bytes: size_t, new_bytes: size_t, flags: c_int, to: *mut c_void) -> Mapping = SYS_mremap {
        if !shared_maps::any() { return Err(Out::Pass) }
        private_maps::before_growth(old, new_bytes)?;
        let fixed = (flags & libc::MREMAP_FIXED != 0).then(|| shared_maps::pages(to, new_bytes));
        let _places = Places::to_move(old, old_bytes, fixed)?;
        let answer = kept(real(old, old_bytes, new_bytes, flags, to))?;
        shared_maps::moved(old, old_bytes, answer.address(), new_bytes);
        Ok(answer)
    }
}
