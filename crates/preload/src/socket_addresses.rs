//! Converts addresses of sockets of a mount from the program's path, and back to it.

use crate::ffi;
use crate::mounts;
use crate::outcome::{Failure, Out, kept};
use crate::raw;
use crate::stand_ins;
use crate::stand_ins::SOCKET_PREFIX;
use dnfs::mount::Mount;
use libc::{c_char, c_int, sockaddr, sockaddr_storage, sockaddr_un, socklen_t};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

/// Offset of the path in an address.
const PATH_AT: usize = std::mem::offset_of!(sockaddr_un, sun_path);
/// Maximum bytes of a path, without its NUL.
const PATH_BYTES_MAX: usize = size_of::<sockaddr_un>() - PATH_AT - 1;

/// A Unix address with a path.
pub(crate) struct Address {
    address: sockaddr_un,
    length: socklen_t,
    /// A directory that stays open while the path leads through it.
    directory: Option<c_int>,
}

impl Address {
    /// Makes the address of a path of this host.
    ///
    /// # Errors
    /// ENAMETOOLONG if the path does not fit.
    pub(crate) fn of(path: &[u8]) -> Result<Self, Out> {
        if path.len() > PATH_BYTES_MAX {
            return Err(Out::Errno(libc::ENAMETOOLONG));
        }
        // SAFETY: struct sockaddr_un is plain integers; zero is valid.
        let mut address: sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as _;
        address.sun_path.iter_mut().zip(path).for_each(|(to, from)| *to = *from as c_char);
        Ok(Self { address, length: (PATH_AT + path.len() + 1) as socklen_t, directory: None })
    }

    /// Makes the address of the socket that replaces one of a mount. Uses a descriptor if the
    /// runtime directory's path is too long.
    pub(crate) fn of_stand_in(mount: &Mount, name: &str) -> Result<Self, Out> {
        let directory = mount.runtime_dir().as_os_str().as_bytes();
        if let Ok(short) = Self::of(&[directory, b"/", name.as_bytes()].concat()) {
            return Ok(short);
        }
        let path = CString::new(directory).map_err(|_| Out::Errno(libc::EINVAL))?;
        let fd = raw::open(&path, libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC, 0)?;
        let address = Self::of(format!("/proc/self/fd/{fd}/{name}").as_bytes());
        Ok(Self { directory: Some(fd), ..address? })
    }

    pub(crate) fn as_pointer(&self) -> *const sockaddr {
        std::ptr::from_ref(&self.address).cast()
    }

    pub(crate) const fn length(&self) -> socklen_t {
        self.length
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        if let Some(fd) = self.directory {
            let _ = raw::close(fd);
        }
    }
}

/// The path of a program's address. `None` for another family or the abstract namespace.
///
/// # Safety
/// `address` is NULL, or readable for `length` bytes.
pub(crate) unsafe fn path_of(address: *const sockaddr, length: socklen_t) -> Option<CString> {
    // SAFETY: `address` is NULL or readable for `length` bytes by the caller's promise.
    let bytes = unsafe { ffi::bytes(address.cast(), (length as usize).min(size_of::<sockaddr_un>())) };
    let family = bytes.first_chunk().map(|family| c_int::from(u16::from_ne_bytes(*family)));
    let path = bytes.get(PATH_AT..).filter(|path| path.first().is_some_and(|first| *first != 0));
    let (Some(libc::AF_UNIX), Some(path)) = (family, path) else { return None };
    CString::new(path.split(|byte| *byte == 0).next().unwrap_or_default()).ok()
}

/// The path that a program bound, for the path in an address of the kernel.
fn shown(path: &[u8]) -> Option<Vec<u8>> {
    let name = path.rsplit(|byte| *byte == b'/').next().filter(|name| name.starts_with(SOCKET_PREFIX.as_bytes()))?;
    if !mounts::is_below_root(path) && !path.starts_with(b"/proc/self/fd/") {
        return None;
    }
    let name = std::str::from_utf8(name).ok()?;
    let mut buffer = [0; libc::PATH_MAX as usize];
    mounts::all()
        .filter_map(|mounted| mounted.attach().ok())
        .find_map(|mount| raw::readlink(&stand_ins::bound_path_link(mount, name), &mut buffer).ok().map(<[u8]>::to_vec))
}

/// The program's address, for one of the kernel. `None` if the kernel's is right.
///
/// # Safety
/// `address` is readable for `length` bytes.
unsafe fn program_address(address: *const sockaddr, length: socklen_t) -> Option<Address> {
    // SAFETY: `address` is readable for `length` bytes by the caller's promise.
    let path = unsafe { path_of(address, length) }?;
    Address::of(&shown(path.to_bytes())?).ok()
}

/// Makes a call that returns an address. If it is that of a Unix socket of a mount, replaces it by
/// one with the program's path.
///
/// # Safety
/// `into` is NULL or writable for `length` bytes; `length` is NULL or a readable and writable length.
pub(crate) unsafe fn answered<R: Failure + PartialEq>(
    socket: c_int,
    into: *mut sockaddr,
    length: *mut socklen_t,
    call: impl FnOnce(*mut sockaddr, *mut socklen_t) -> R,
) -> Result<R, Out> {
    // SAFETY: `into` and `length` are so by the caller's promise; `own` has room for any address.
    unsafe {
        let room = ffi::take(length).filter(|room| c_int::try_from(*room).is_ok());
        let (false, Some(room), true) = (into.is_null(), room, mounts::any()) else { return Err(Out::Pass) };
        if raw::socket_domain(socket) != Ok(libc::AF_UNIX) {
            return Err(Out::Pass); // no path; libc's own call can be cancelled while it waits
        }
        let mut own: sockaddr_storage = std::mem::zeroed();
        let mut has = size_of::<sockaddr_storage>() as socklen_t;
        let answer = kept(call((&raw mut own).cast(), &raw mut has))?;
        let address = (&raw const own).cast::<sockaddr>();
        let known = program_address(address, has);
        let (from, has) = known.as_ref().map_or((address, has), |known| (known.as_pointer(), known.length()));
        let count = room.min(has) as usize;
        ffi::bytes_mut(into.cast(), count).copy_from_slice(ffi::bytes(from.cast(), count));
        ffi::put(length, has)?;
        Ok(answer)
    }
}
