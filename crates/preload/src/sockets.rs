//! Sockets with a path on a mount. The server has the name; a socket of this host replaces the socket itself (`stand_ins`).

use crate::ffi;
use crate::hook::hooks;
use crate::mounts;
use crate::outcome::{Out, kept};
use crate::paths::{self, Target};
use crate::raw;
use crate::socket_addresses::{Address, answered, path_of};
use crate::stand_ins;
use crate::table;
use crate::umask::masked;
use dnfs::file::{FileKind, SpecialFile};
use dnfs::mount::{Entry, LastName, Mount, PathEnd};
use libc::{c_int, c_void, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use std::ffi::CStr;

/// The path of an address that may lead to a mount. [`Out::Pass`] for all others.
///
/// # Safety
/// `address` is NULL, or readable for `length` bytes.
unsafe fn path_given(address: *const sockaddr, length: socklen_t) -> Result<std::ffi::CString, Out> {
    if !mounts::any() {
        return Err(Out::Pass);
    }
    // SAFETY: `address` is NULL or readable for `length` bytes by the caller's promise.
    unsafe { path_of(address, length) }.ok_or(Out::Pass)
}

/// Creates the name on the server, and binds the socket of this host.
fn bind_on_mount(
    socket: c_int,
    mount: &Mount,
    entry: &Entry,
    path: &CStr,
    bind: impl FnOnce(&Address) -> c_int,
) -> Result<c_int, Out> {
    if entry.object.is_some() || entry.end != PathEnd::Name {
        return Err(Out::Errno(libc::EADDRINUSE));
    }
    if entry.must_be_directory {
        return Err(Out::Errno(libc::ENOENT));
    }
    let mode = raw::fstat(socket)?.st_mode & 0o777;
    let object = mount.mknod(entry, SpecialFile::Socket, masked(mode)).map_err(|error| match Out::from(error) {
        Out::Errno(libc::EEXIST) => Out::Errno(libc::EADDRINUSE),
        other => other,
    })?;
    let name = stand_ins::socket_name(&object.handle);
    stand_ins::forget_socket(mount, &name); // of a node with this handle that another host removed
    let bound = Address::of_stand_in(mount, &name).and_then(|address| kept(bind(&address)));
    match bound {
        Ok(_) => {
            let _ = raw::symlink(path, &stand_ins::bound_path_link(mount, &name)); // if not, programs see the runtime path
        }
        Err(_) => drop(mount.client().remove(&entry.parent, &entry.name)),
    }
    bound
}

/// The address of this host's socket for a path of a mount, for a sender.
fn reach(mount: &Mount, entry: &Entry) -> Result<Address, Out> {
    let object = entry.object.as_ref().ok_or(Out::Errno(libc::ENOENT))?;
    mount.check_rights(object, libc::W_OK as u32)?;
    if object.attr.kind != FileKind::Socket {
        return Err(Out::Errno(libc::ECONNREFUSED));
    }
    Address::of_stand_in(mount, &stand_ins::socket_name(&object.handle))
}

/// bind(2).
///
/// # Safety
/// `address` is NULL, or readable for `length` bytes.
unsafe fn bind_at(
    socket: c_int,
    address: *const sockaddr,
    length: socklen_t,
    real: impl Fn(*const sockaddr, socklen_t) -> c_int,
) -> Result<c_int, Out> {
    // SAFETY: `address` is NULL or readable for `length` bytes by the caller's promise; the path
    // ends with a NUL.
    unsafe {
        let path = path_given(address, length)?;
        if raw::socket_domain(socket)? != libc::AF_UNIX {
            return Err(Out::Pass);
        }
        match paths::target_linked(libc::AT_FDCWD, path.as_ptr(), LastName::Itself)? {
            Target::At(_, mount, entry) => {
                bind_on_mount(socket, mount, &entry, &path, |address| real(address.as_pointer(), address.length()))
            }
            Target::Local(Some(path)) => {
                let address = Address::of(path.to_bytes())?;
                kept(real(address.as_pointer(), address.length()))
            }
            Target::Local(None) => Err(Out::Pass),
        }
    }
}

/// Makes a call that sends to an address.
///
/// # Safety
/// `address` is NULL, or readable for `length` bytes.
unsafe fn send_at<R: crate::outcome::Failure + PartialEq>(
    address: *const sockaddr,
    length: socklen_t,
    real: impl Fn(*const sockaddr, socklen_t) -> R,
) -> Result<R, Out> {
    // SAFETY: `address` is NULL or readable for `length` bytes by the caller's promise; the path
    // ends with a NUL.
    unsafe {
        let path = path_given(address, length)?;
        let to = |found: Target| match found {
            Target::At(_, mount, entry) => reach(mount, &entry),
            Target::Local(Some(path)) => Address::of(path.to_bytes()),
            Target::Local(None) => Err(Out::Pass),
        };
        let address_to = match paths::target(libc::AT_FDCWD, path.as_ptr(), true)? {
            Target::Local(None) => match kept(real(address, length)) {
                // A link of this host may lead to a mount.
                Err(Out::Errno(libc::ENOENT)) => match paths::target_linked(libc::AT_FDCWD, path.as_ptr(), true)? {
                    Target::Local(_) => return Err(Out::Errno(libc::ENOENT)),
                    found => to(found)?,
                },
                answer => return answer,
            },
            found => to(found)?,
        };
        match kept(real(address_to.as_pointer(), address_to.length())) {
            // Another host bound the node, or a program bound it before this host was restarted.
            Err(Out::Errno(libc::ENOENT)) => Err(Out::Errno(libc::ECONNREFUSED)),
            answer => answer,
        }
    }
}

/// sendmsg(2).
///
/// # Safety
/// `message` is NULL, or a message as sendmsg(2) requires.
unsafe fn send_message(message: *const msghdr, real: impl Fn(*const msghdr) -> ssize_t) -> Result<ssize_t, Out> {
    // SAFETY: `message` is NULL or a valid message by the caller's promise.
    unsafe {
        if !mounts::any() {
            return Err(Out::Pass);
        }
        let given = ffi::take(message).ok_or(Out::Pass)?;
        if given.msg_controllen > 0 {
            table::note_copies(); // the message may contain descriptors (SCM_RIGHTS)
        }
        send_at(given.msg_name.cast_const().cast(), given.msg_namelen, |address, length| {
            let own = msghdr { msg_name: address.cast_mut().cast(), msg_namelen: length, ..given };
            real(&raw const own)
        })
    }
}

/// recvmsg(2).
///
/// # Safety
/// `message` is NULL, or a message as recvmsg(2) requires.
unsafe fn receive_message(socket: c_int, message: *mut msghdr, real: impl Fn(*mut msghdr) -> ssize_t) -> Result<ssize_t, Out> {
    // SAFETY: `message` is NULL or a valid message by the caller's promise.
    unsafe {
        let asks = |given: &msghdr| mounts::any() && !given.msg_name.is_null();
        let given = ffi::take(message).filter(asks).ok_or(Out::Pass)?;
        let mut own = given;
        let mut name_bytes = given.msg_namelen;
        let answer = answered(socket, given.msg_name.cast(), &raw mut name_bytes, |address, length| {
            own.msg_name = address.cast();
            own.msg_namelen = ffi::take(length).unwrap_or(0);
            let answer = real(&raw mut own);
            let _ = ffi::put(length, own.msg_namelen);
            answer
        })?;
        own.msg_name = given.msg_name;
        own.msg_namelen = name_bytes;
        ffi::put(message, own)?;
        Ok(answer)
    }
}

hooks! {
    /// bind(2).
    fn bind(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int = SYS_bind {
        bind_at(socket, address, length, |address, length| real(socket, address, length))
    }
    /// connect(2).
    @cancellation_point fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int = SYS_connect {
        send_at(address, length, |address, length| real(socket, address, length))
    }
    /// sendto(2).
    @cancellation_point fn sendto(socket: c_int, bytes: *const c_void, count: size_t, flags: c_int, address: *const sockaddr, length: socklen_t) -> ssize_t = SYS_sendto {
        send_at(address, length, |address, length| real(socket, bytes, count, flags, address, length))
    }
    /// sendmsg(2).
    @cancellation_point fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t = SYS_sendmsg {
        send_message(message, |message| real(socket, message, flags))
    }
    /// recvfrom(2).
    @cancellation_point fn recvfrom(socket: c_int, into: *mut c_void, room: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t) -> ssize_t = SYS_recvfrom {
        answered(socket, address, length, |address, length| real(socket, into, room, flags, address, length))
    }
    /// recvfrom(2), fortified.
    @cancellation_point fn __recvfrom_chk(socket: c_int, into: *mut c_void, count: size_t, room: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t) -> ssize_t {
        answered(socket, address, length, |address, length| real(socket, into, count, room, flags, address, length))
    }
    /// recvmsg(2).
    @cancellation_point fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = SYS_recvmsg {
        receive_message(socket, message, |message| real(socket, message, flags))
    }
    /// getsockname(2).
    fn getsockname(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int = SYS_getsockname {
        answered(socket, address, length, |address, length| real(socket, address, length))
    }
    /// getpeername(2).
    fn getpeername(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int = SYS_getpeername {
        answered(socket, address, length, |address, length| real(socket, address, length))
    }
    /// accept(2).
    @cancellation_point fn accept(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int = SYS_accept {
        answered(socket, address, length, |address, length| real(socket, address, length))
    }
    /// accept4(2).
    @cancellation_point fn accept4(socket: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int = SYS_accept4 {
        answered(socket, address, length, |address, length| real(socket, address, length, flags))
    }
}
