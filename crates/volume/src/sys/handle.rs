//! Kernel file handles: the identity of an object (inode and generation), by which it can be opened.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::{c_name, checked};
use crate::descriptor_budget::opening;
use crate::limits::{HANDLE_OPENS_MAX, KERNEL_HANDLE_BYTES_MAX};

/// A kernel file handle: a type and opaque bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KernelHandle {
    pub(crate) kind: u8,
    pub(crate) len: u8,
    pub(crate) bytes: [u8; KERNEL_HANDLE_BYTES_MAX],
}

/// The type of a handle of btrfs (FILEID_BTRFS_WITHOUT_PARENT). Its bytes are inode number, number of the subvolume, generation.
const BTRFS_TYPE: u8 = 0x4d;
const BTRFS_BYTES: u8 = 20;
/// Where the number of the subvolume begins, and its length.
const SUBVOLUME: (usize, usize) = (8, 8);

impl KernelHandle {
    /// The number of the subvolume, if this is a handle of btrfs.
    pub(crate) fn subvolume(&self) -> Option<u64> {
        let is_btrfs = (self.kind, self.len) == (BTRFS_TYPE, BTRFS_BYTES);
        let (_, number) = self.bytes.split_first_chunk::<{ SUBVOLUME.0 }>()?;
        is_btrfs.then(|| number.first_chunk()).flatten().map(|number| u64::from_ne_bytes(*number))
    }

    /// A handle of btrfs without the number of the subvolume. Other handles stay as they are.
    pub(crate) fn without_subvolume(mut self) -> Self {
        if self.subvolume().is_some() {
            let (at, len) = SUBVOLUME;
            self.bytes.copy_within(at + len.., at);
            self.len -= len as u8;
            self.bytes[usize::from(self.len)..].fill(0);
        }
        self
    }

    /// A handle of btrfs [without a number](Self::without_subvolume), with this number. Other handles stay as they are.
    pub(crate) fn with_subvolume(mut self, number: u64) -> Self {
        let (at, len) = SUBVOLUME;
        if (self.kind, self.len) == (BTRFS_TYPE, BTRFS_BYTES - len as u8) {
            self.bytes.copy_within(at..usize::from(self.len), at + len);
            self.bytes[at..at + len].copy_from_slice(&number.to_ne_bytes());
            self.len = BTRFS_BYTES;
        }
        self
    }

    /// The handle as a line of text.
    pub(crate) fn to_text(self) -> String {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}:{digits}\n", self.kind)
    }

    /// A hash for tables, of one multiplication per word. The kernel makes identities and no client can choose
    /// them, so it needs no key.
    pub(crate) fn mix(&self) -> u64 {
        let (words, _) = self.bytes.as_chunks::<8>();
        words.iter().fold(u64::from(self.kind), |mixed, word| {
            (mixed ^ u64::from_ne_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        })
    }
}

impl std::hash::Hash for KernelHandle {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.mix());
    }
}

/// `struct file_handle` with space for the bytes.
#[repr(C)]
struct Raw {
    handle_bytes: libc::c_uint,
    handle_type: libc::c_int,
    bytes: [u8; KERNEL_HANDLE_BYTES_MAX],
}

/// Identity of an open object. `None` if the file system has no handles, or longer ones than
/// [`KERNEL_HANDLE_BYTES_MAX`].
pub(crate) fn handle_of(fd: impl AsFd) -> io::Result<Option<KernelHandle>> {
    Ok(name_to_handle(fd.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH)?.map(|(handle, _)| handle))
}

/// Identity of the object of a name, and the id of the mount it is on. Does not follow a link.
pub(crate) fn handle_of_name(dir: impl AsFd, name: &[u8]) -> io::Result<Option<(KernelHandle, i32)>> {
    name_to_handle(dir.as_fd().as_raw_fd(), &c_name(name)?, 0)
}

fn name_to_handle(fd: libc::c_int, path: &std::ffi::CStr, flags: libc::c_int) -> io::Result<Option<(KernelHandle, i32)>> {
    let mut raw =
        Raw { handle_bytes: KERNEL_HANDLE_BYTES_MAX as libc::c_uint, handle_type: 0, bytes: [0; KERNEL_HANDLE_BYTES_MAX] };
    let mut mount: libc::c_int = 0;
    // SAFETY: `raw` has the layout of struct file_handle with `handle_bytes` bytes of space after its
    // header, `path` is NUL-terminated, `mount` is writable.
    let result = checked(unsafe { libc::name_to_handle_at(fd, path.as_ptr(), (&raw mut raw).cast(), &raw mut mount, flags) });
    match result {
        Ok(_) => {}
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EOVERFLOW)) => return Ok(None),
        Err(error) => return Err(error),
    }
    let (Ok(kind), Ok(len)) = (u8::try_from(raw.handle_type), u8::try_from(raw.handle_bytes)) else {
        return Ok(None);
    };
    if usize::from(len) > KERNEL_HANDLE_BYTES_MAX || kind == u8::MAX {
        return Ok(None);
    }
    let mut bytes = [0; KERNEL_HANDLE_BYTES_MAX];
    bytes[..usize::from(len)].copy_from_slice(&raw.bytes[..usize::from(len)]);
    Ok(Some((KernelHandle { kind, len, bytes }, mount)))
}

/// Opens the object of a kernel handle on the file system that `mount` is on. Needs CAP_DAC_READ_SEARCH.
///
/// **Errors**: ESTALE if the object is gone, or if another object has its inode number now.
pub(crate) fn open_handle(mount: impl AsFd, handle: &KernelHandle, flags: libc::c_int) -> io::Result<OwnedFd> {
    let mut raw =
        Raw { handle_bytes: libc::c_uint::from(handle.len), handle_type: libc::c_int::from(handle.kind), bytes: handle.bytes };
    let flags = flags | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut open = || {
        // SAFETY: `raw` has the layout of struct file_handle and holds `handle_bytes` bytes.
        checked(unsafe { libc::open_by_handle_at(mount.as_fd().as_raw_fd(), (&raw mut raw).cast(), flags) })
    };
    // The kernel also returns ENOMEM while it assigns the inode number to a new file. A moment later it returns ESTALE.
    let busy = |error: &io::Error| error.raw_os_error() == Some(libc::ENOMEM);
    let mut opened = opening(&mut open);
    for _ in 1..HANDLE_OPENS_MAX {
        if !opened.as_ref().is_err_and(busy) {
            break;
        }
        std::thread::yield_now();
        opened = opening(&mut open);
    }
    let fd = opened?;
    // SAFETY: the kernel has just returned `fd`, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(kind: u8, bytes: &[u8]) -> KernelHandle {
        let mut handle = KernelHandle { kind, len: bytes.len() as u8, bytes: [0; KERNEL_HANDLE_BYTES_MAX] };
        handle.bytes[..bytes.len()].copy_from_slice(bytes);
        handle
    }

    #[test]
    fn the_number_of_a_subvolume_is_taken_out_and_another_is_put_in() {
        let of =
            |number: u64| handle(BTRFS_TYPE, &[&257_u64.to_ne_bytes()[..], &number.to_ne_bytes(), &9_u32.to_ne_bytes()].concat());
        assert_eq!((of(5).subvolume(), of(260).subvolume()), (Some(5), Some(260)));
        assert_eq!(of(5).without_subvolume(), of(260).without_subvolume());
        assert_eq!(of(5).without_subvolume().len, 12);
        assert_eq!(of(5).without_subvolume().with_subvolume(260), of(260));
    }

    #[test]
    fn handles_of_other_file_systems_stay_as_they_are() {
        for other in [handle(1, &[7; 8]), handle(0x81, &[7; 12]), handle(1, &[7; 20]), handle(BTRFS_TYPE, &[7; 8])] {
            assert_eq!(other.subvolume(), None);
            assert_eq!((other.without_subvolume(), other.with_subvolume(5)), (other, other));
        }
    }
}
