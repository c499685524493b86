//! Calls on sockets, which may have a path on a mount.

use super::{Answer, Arguments, given};
use crate::sockets;
use libc::{c_int, c_long};

/// # Safety
/// As [`super::dispatch`].
pub(super) unsafe fn by_number(number: c_long, arguments: Arguments) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    let socket = a as c_int;
    // SAFETY: the arguments are as the system call of this number requires, by the caller's promise.
    unsafe {
        match number {
            libc::SYS_bind => given(sockets::bind::by_number(socket, b as _, c as _)),
            libc::SYS_connect => given(sockets::connect::by_number(socket, b as _, c as _)),
            libc::SYS_sendto => given(sockets::sendto::by_number(socket, b as _, c, d as c_int, e as _, f as _)),
            libc::SYS_sendmsg => given(sockets::sendmsg::by_number(socket, b as _, c as c_int)),
            libc::SYS_recvfrom => given(sockets::recvfrom::by_number(socket, b as _, c, d as c_int, e as _, f as _)),
            libc::SYS_recvmsg => given(sockets::recvmsg::by_number(socket, b as _, c as c_int)),
            libc::SYS_getsockname => given(sockets::getsockname::by_number(socket, b as _, c as _)),
            libc::SYS_getpeername => given(sockets::getpeername::by_number(socket, b as _, c as _)),
            libc::SYS_accept => given(sockets::accept::by_number(socket, b as _, c as _)),
            libc::SYS_accept4 => given(sockets::accept4::by_number(socket, b as _, c as _, d as c_int)),
            _ => None,
        }
    }
}
