//! A copy in memory of a file of a mount that the kernel executes or maps, since the kernel cannot open the file itself.

use crate::copy;
use crate::open::{open_at, openat};
use crate::outcome::{Errno, Out};
use crate::raw;
use libc::{c_char, c_int, ssize_t};
use std::ffi::{CStr, CString};

/// Prefix of the name of such a file in memory, as `/proc/PID/exe` and `/proc/PID/maps` show it.
const MARK: &[u8] = b"millrace:";
/// Longest name of a file in memory (memfd_create(2)), in bytes, without its NUL.
const NAME_BYTES_MAX: usize = 249;
/// The kernel shows such a file as `/memfd:NAME (deleted)`.
const SHOWN_BEFORE: &[u8] = b"/memfd:";
const SHOWN_BEHIND: &[u8] = b" (deleted)";
/// Bytes copied by one call.
const STEP_BYTES: usize = 1 << 30;

/// A copy. It exists until it is dropped and no process runs or maps it.
pub(crate) struct Image {
    fd: c_int,
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = raw::close(self.fd);
    }
}

impl Image {
    /// Copies the file of `path`. `name` is its path as programs see it.
    ///
    /// # Errors
    /// The errors of open and read; ENOMEM, ENOSPC.
    ///
    /// # Safety
    /// `path` is a C string.
    pub(crate) unsafe fn of(directory: c_int, path: *const c_char, name: &[u8]) -> Result<Self, Out> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: `path` is a C string by the caller's promise.
        let fd = unsafe { open_at(directory, path, flags, 0, |directory, path| libc_open(directory, path, flags))? };
        let copied = Self::empty(name).and_then(|image| {
            image.fill(fd)?;
            Ok(image)
        });
        // SAFETY: no pointers are passed, and only this function uses the descriptor.
        unsafe { crate::close::close::hook(fd) };
        copied
    }

    fn empty(name: &[u8]) -> Result<Self, Out> {
        let room = NAME_BYTES_MAX - MARK.len();
        // The end of the path identifies it better than the beginning.
        let name = name.get(name.len().saturating_sub(room)..).unwrap_or_default();
        let name = CString::new([MARK, name].concat()).map_err(|_| Out::Errno(libc::EINVAL))?;
        Ok(Self { fd: raw::programs::memory_file(&name)? })
    }

    fn fill(&self, from: c_int) -> Result<(), Out> {
        // SAFETY: the offset is NULL: the file is read from its own offset, which is 0 at first.
        while unsafe { copy::send(self.fd, from, std::ptr::null_mut(), STEP_BYTES) }? > 0 {}
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn holding(bytes: &[u8]) -> Self {
        let image = Self::empty(b"test").unwrap();
        assert_eq!(raw::write(image.fd, bytes), Ok(bytes.len()));
        image
    }

    /// The descriptor; it is closed on exec.
    pub(crate) fn fd(&self) -> c_int {
        self.fd
    }

    /// Keeps the descriptor open on exec.
    pub(super) fn pass_on(&self) {
        let _ = raw::control(self.fd, libc::F_SETFD, 0);
    }

    /// The first bytes.
    pub(crate) fn beginning<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let count = raw::programs::read_at(self.fd, 0, buffer)?;
        Ok(&buffer[..count])
    }
}

/// # Safety
/// `path` is a C string.
unsafe fn libc_open(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: `path` is a C string by the caller's promise.
    unsafe { openat::real(directory, path, flags, 0) }
}

/// The path on a mount of a file that the kernel shows as a copy in memory, incomplete if its
/// beginning did not fit into the copy's name, or its end into the buffer.
fn shown(path: &[u8]) -> Option<&[u8]> {
    let path = path.strip_prefix(SHOWN_BEFORE)?.strip_prefix(MARK)?;
    Some(path.strip_suffix(SHOWN_BEHIND).unwrap_or(path))
}

/// The path on a mount of the program that a link of `/proc` leads to.
pub(crate) fn behind_link(link: &CStr) -> Option<Vec<u8>> {
    if !link.to_bytes().starts_with(b"/proc/") {
        return None;
    }
    let mut buffer = [0; libc::PATH_MAX as usize];
    shown(raw::readlink(link, &mut buffer).ok()?).map(<[u8]>::to_vec)
}

/// Replaces the path of a copy in the result of readlink(2) by the program's own path. `text` is
/// the caller's buffer, `count` the kernel's result. Returns the new count.
pub(crate) fn rename_in(text: &mut [u8], count: ssize_t) -> ssize_t {
    let Some(path) = usize::try_from(count).ok().and_then(|count| shown(text.get(..count)?)) else { return count };
    let path = path.to_vec();
    text[..path.len()].copy_from_slice(&path);
    path.len() as ssize_t
}

/// Gives a program that was started from a copy the thread name that the kernel would have given
/// it. Called by the constructor.
pub(crate) fn name_process() {
    // SAFETY: getauxval takes a number; the result is the address of a string from the kernel, or 0.
    let started_by = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
    if started_by.is_null() {
        return;
    }
    // SAFETY: the address of a string from the kernel, which lives as long as the process.
    let started_by = unsafe { CStr::from_ptr(started_by) }.to_bytes();
    if !started_by.starts_with(b"/dev/fd/") && !started_by.starts_with(b"/proc/") {
        return;
    }
    if let Some(path) = behind_link(c"/proc/self/exe") {
        raw::programs::name_thread(path.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
    }
}
