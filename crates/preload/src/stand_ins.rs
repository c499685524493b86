//! FIFOs and sockets of a mount. The server has the name, the owner and the mode. The data goes
//! through a FIFO or socket of this host in the runtime directory of the mount, which replaces it.
//! All programs of the host that share the mount use the same one. Programs of another host have
//! one of their own, as with a kernel mount.

use crate::mounts::{self, Mounted};
use crate::outcome::Out;
use crate::permission;
use crate::raw;
use dnfs::file::{Attributes, FileHandle, FileKind};
use dnfs::mount::{Mount, Object};
use libc::{c_int, mode_t};
use std::ffi::CString;
use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;

/// Prefix of the name of a FIFO that replaces one of the server.
const FIFO_PREFIX: &str = "fifo-";
/// Prefix of the name of a socket that replaces one of the server.
pub(crate) const SOCKET_PREFIX: &str = "sock-";
/// Suffix of the name of a link beside a socket. The link's text is the path that a program bound.
const SOCKET_NAME_SUFFIX: &str = ".path";
/// Mode of such a FIFO. The mode of the directory above it decides who may use it.
const MODE: mode_t = 0o660;
/// Maximum bytes of a handle, for which a name has room with two digits for each. Handles of NFSv3
/// are not longer.
const HANDLE_BYTES_MAX: usize = 64;

fn below(mount: &Mount, name: &str) -> CString {
    CString::new([mount.runtime_dir().as_os_str().as_bytes(), b"/", name.as_bytes()].concat()).unwrap_or_default()
}

/// The path of the FIFO of this host. Its name contains the handle, so that a descriptor leads back to it.
fn fifo(mount: &Mount, handle: &FileHandle) -> CString {
    let digits: String = handle.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    below(mount, &format!("{FIFO_PREFIX}{digits}"))
}

/// The name of the socket of this host in the mount's runtime directory. It contains a hash,
/// because an address has no room for a handle.
pub(crate) fn socket_name(handle: &FileHandle) -> String {
    let mut hash = fnv::FnvHasher::default();
    hash.write(handle.as_bytes());
    format!("{SOCKET_PREFIX}{:016x}", hash.finish())
}

/// The path of the link beside a socket of this host. The link's text is the path that the program bound.
pub(crate) fn bound_path_link(mount: &Mount, name: &str) -> CString {
    below(mount, &format!("{name}{SOCKET_NAME_SUFFIX}"))
}

/// Opens the FIFO of this host as open(2) does. Waits for the other side unless O_NONBLOCK is set.
///
/// # Errors
/// Those of open(2) for a FIFO.
pub(crate) fn open_fifo(mount: &Mount, object: &Object, flags: c_int) -> Result<c_int, Out> {
    if flags & libc::O_PATH == 0 {
        mount.check_rights(object, permission::of_open(flags))?;
    }
    if object.handle.as_bytes().len() > HANDLE_BYTES_MAX {
        return Err(Out::Errno(libc::ENXIO));
    }
    let path = fifo(mount, &object.handle);
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
    match raw::open(&path, flags, 0) {
        Err(libc::ENOENT) => {}
        opened => return Ok(opened?),
    }
    match raw::make_fifo(&path, MODE) {
        Ok(()) | Err(libc::EEXIST) => Ok(raw::open(&path, flags, 0)?),
        Err(errno) => Err(Out::Errno(errno)),
    }
}

/// Called after the last name of an object was removed. Removes the object of this host; programs
/// that have it open can still use it.
pub(crate) fn removed(mount: &Mount, object: &Object) {
    match object.attr.kind {
        _ if object.attr.nlink > 1 => {}
        FileKind::Fifo => drop(raw::unlink(&fifo(mount, &object.handle))),
        FileKind::Socket => forget_socket(mount, &socket_name(&object.handle)),
        _ => {}
    }
}

/// Removes the socket of this host, and the link beside it.
pub(crate) fn forget_socket(mount: &Mount, name: &str) {
    let _ = raw::unlink(&below(mount, name));
    let _ = raw::unlink(&bound_path_link(mount, name));
}

/// Whether an object with this device and mode may be the FIFO of this host.
#[inline]
pub(crate) fn may_be_fifo(device: u64, mode: mode_t) -> bool {
    mode & libc::S_IFMT == libc::S_IFIFO && mounts::is_runtime_device(device)
}

/// The FIFO of a mount for a descriptor for which [`may_be_fifo`] is true.
pub(crate) fn fifo_of_descriptor(fd: c_int) -> Option<(&'static Mounted, FileHandle)> {
    let mut buffer = [0u8; libc::PATH_MAX as usize];
    let (mounted, name) = mounts::below_runtime(raw::fd_path(fd, &mut buffer).ok()?)?;
    let digits = std::str::from_utf8(name.strip_prefix(FIFO_PREFIX.as_bytes())?).ok()?;
    let bytes: Option<Vec<u8>> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect();
    Some((mounted, FileHandle::new(&bytes?)?))
}

/// Attributes of the FIFO of a descriptor. `None` if its last name was removed; callers then use
/// the kernel's attributes.
pub(crate) fn fifo_attributes(fd: c_int) -> Option<(&'static Mounted, Attributes)> {
    let (mounted, handle) = fifo_of_descriptor(fd)?;
    Some((mounted, mounted.attach().ok()?.client().getattr(&handle).ok()?))
}
