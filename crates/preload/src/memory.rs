//! mmap: a private mapping of a file is a copy of it, read at once; a shared one is of the file in memory that has its bytes (`shared_maps`).

use crate::data;
use crate::ffi;
use crate::hook::hooks;
use crate::outcome::{Failure, FromKernel, Out, kept};
use crate::raw;
use crate::shared_maps;
use crate::table;
use libc::{c_int, c_void, off_t, size_t};

fn map_file(
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
    real: impl Fn(c_int, c_int) -> Mapping,
) -> Result<Mapping, Out> {
    if flags & libc::MAP_ANONYMOUS != 0 || fd < 0 {
        return Err(Out::Pass);
    }
    let file = table::file(fd).map_err(|out| if out == Out::Errno(libc::EISDIR) { Out::Errno(libc::ENODEV) } else { out })?;
    // Asked first, as the kernel does: MariaDB maps its log so to find out whether it lies on persistent memory, and the copies of
    // the file that a writable mapping needs would be made, and compared at each flush, for a mapping that is refused.
    if flags & libc::MAP_TYPE == libc::MAP_SHARED_VALIDATE && flags & libc::MAP_SYNC != 0 {
        return Err(Out::Errno(libc::EOPNOTSUPP));
    }
    if matches!(flags & libc::MAP_TYPE, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE) {
        return shared_maps::map(&file, bytes, protection, offset, |fd| real(flags, fd));
    }
    if file.flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Out::Errno(libc::EACCES));
    }
    let offset = u64::try_from(offset).map_err(|_| Out::Errno(libc::EINVAL))?;
    let memory = kept(real(flags | libc::MAP_ANONYMOUS, -1))?.0;
    shared_maps::forget(memory, bytes);
    let whole = bytes.next_multiple_of(4096);
    let fill = || -> Result<(), Out> {
        // SAFETY: the mapping was just made and nobody else knows it.
        unsafe { raw::protect(memory.cast(), whole, libc::PROT_READ | libc::PROT_WRITE) }?;
        let mut done = 0;
        while done < bytes {
            // SAFETY: inside the mapping, which nobody else knows yet.
            let chunk = unsafe { ffi::bytes_mut(memory.cast::<u8>().wrapping_add(done).cast(), bytes - done) };
            match data::read_at(&file, offset + done as u64, chunk)? {
                0 => break, // beyond the end: zeroes, where the kernel would send SIGBUS
                got => done += got,
            }
        }
        // SAFETY: as above; the slices into it are gone.
        Ok(unsafe { raw::protect(memory.cast(), whole, protection) }?)
    };
    // SAFETY: exactly what was mapped, which nobody was told of.
    fill().inspect_err(|_| unsafe { raw::unmap(memory.cast(), whole) })?;
    Ok(Mapping(memory))
}

/// What mmap gives: it fails with MAP_FAILED, not with a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mapping(*mut c_void);

impl Mapping {
    /// Where it begins.
    pub(crate) const fn address(self) -> *mut c_void {
        self.0
    }
}

impl Failure for Mapping {
    const FAILED: Self = Self(libc::MAP_FAILED);
}

impl FromKernel for Mapping {
    fn of_success(answer: isize) -> Self {
        Self(FromKernel::of_success(answer))
    }
}

/// Of another file, or of none: its addresses may have been those of a mapping that is replaced.
fn map_other(bytes: size_t, real: impl FnOnce() -> Mapping) -> Result<Mapping, Out> {
    let memory = kept(real())?;
    shared_maps::forget(memory.0, bytes);
    Ok(memory)
}

hooks! {
    /// mmap(2).
    fn mmap(at: *mut c_void, bytes: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> Mapping = SYS_mmap {
        match map_file(bytes, protection, flags, fd, offset, |flags, fd| real(at, bytes, protection, flags, fd, if fd < 0 { 0 } else { offset })) {
            Err(Out::Pass) => map_other(bytes, || real(at, bytes, protection, flags, fd, offset)),
            done => done,
        }
    }
    /// mmap(2).
    fn mmap64(at: *mut c_void, bytes: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> Mapping {
        match map_file(bytes, protection, flags, fd, offset, |flags, fd| real(at, bytes, protection, flags, fd, if fd < 0 { 0 } else { offset })) {
            Err(Out::Pass) => map_other(bytes, || real(at, bytes, protection, flags, fd, offset)),
            done => done,
        }
    }
}
