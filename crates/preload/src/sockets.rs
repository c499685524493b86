//! Sockets with a path: none can live on a mount, and none may land in the mirror by chance.

use crate::ffi;
use crate::hook::hooks;
use crate::messages::warn;
use crate::outcome::Out;
use crate::paths::{self, Target};
use libc::{c_int, sockaddr, socklen_t};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

/// Refuses an address in the file system of a mount.
///
/// # Safety
/// The pointers are those of a caller of the libc function, who keeps its contract.
unsafe fn refuse(address: *const sockaddr, length: socklen_t) -> Result<c_int, Out> {
    // SAFETY: the pointers are those of the hook's caller.
    unsafe {
        if !crate::mounts::any() || address.is_null() {
            return Err(Out::Pass);
        }
        let bytes = ffi::bytes(address.cast(), length as usize);
        let family = bytes.first_chunk().map(|family| c_int::from(u16::from_ne_bytes(*family)));
        // A first NUL is Linux' abstract namespace, which is no path.
        let path = bytes.get(2..).filter(|path| path.first().is_some_and(|first| *first != 0));
        let (Some(libc::AF_UNIX), Some(path)) = (family, path) else { return Err(Out::Pass) };
        let path = path.split(|b| *b == 0).next().unwrap_or_default();
        let name = CString::new(path).map_err(|_| Out::Pass)?;
        match paths::target(libc::AT_FDCWD, name.as_ptr(), true) {
            Ok(Target::At(..)) => {}
            _ => return Err(Out::Pass),
        }
        static WARNED: AtomicBool = AtomicBool::new(false);
        if !WARNED.swap(true, Ordering::Relaxed) {
            warn(format_args!(
                "a socket cannot live on a Direct NFS mount ({}); give it a local directory (PostgreSQL: \
             unix_socket_directories, psql -h)",
                String::from_utf8_lossy(path)
            ));
        }
        Err(Out::Errno(libc::EADDRNOTAVAIL))
    }
}

hooks! {
    /// bind(2).
    fn bind(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int { refuse(address, length) }
    /// connect(2).
    fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int { refuse(address, length) }
}
