//! A connected TCP socket. No call allocates, changes `errno` or raises SIGPIPE, so that a signal handler may run between any
//! two of them.

use super::internal_fd::InternalFd;
use super::raw::call;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, connect_unspec, getsockname, recv, send, sendmsg, sockopt};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;

/// A connected, blocking TCP socket on a high, close-on-exec descriptor.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: InternalFd,
    receive_waits: bool,
}

impl Socket {
    pub(super) const fn new(fd: InternalFd) -> Self {
        Self { fd, receive_waits: true }
    }

    /// From now on receives return `WouldBlock` at once if there is no data.
    pub(crate) const fn receive_without_waiting(&mut self) {
        self.receive_waits = false;
    }

    /// The descriptor to poll.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Requests a receive buffer of this size; the kernel may give less.
    pub(crate) fn grow_receive_buffer(&self, bytes: usize) {
        // A refusal costs speed only.
        let _ = sockopt::set_socket_recv_buffer_size(&self.fd, bytes);
    }

    /// The local port.
    pub(crate) fn local_port(&self) -> Option<u16> {
        let address = SocketAddr::try_from(getsockname(&self.fd).ok()?).ok()?;
        Some(address.port()).filter(|&port| port != 0)
    }

    /// Sends what it can. Blocks for at most 250 ms if it can send nothing.
    ///
    /// # Errors
    /// `WouldBlock` after that time, `Interrupted`, or a broken connection.
    #[inline]
    pub(crate) fn send(&self, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [one] = segments {
            return Ok(send(&self.fd, one, SendFlags::NOSIGNAL)?);
        }
        Ok(sendmsg(&self.fd, segments, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    /// Receives available data. Blocks for at most 250 ms if no data is available. 0 means the end of the stream.
    ///
    /// # Errors
    /// As [`Self::send`].
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let flags = if self.receive_waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        Ok(recv(&self.fd, buffer, flags)?.0)
    }

    /// [`Self::receive`] into several buffers.
    ///
    /// Does not use rustix, since every READ calls this: rustix's `recvmsg` also receives an address and control data,
    /// which a TCP stream does not have.
    ///
    /// # Errors
    /// As [`Self::send`].
    #[inline]
    pub(crate) fn receive_scattered(&self, segments: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        // SAFETY: a msghdr of zeros is valid: no name, no segments, no control data. Its private padding stays zero.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = segments.as_mut_ptr().cast();
        message.msg_iovlen = segments.len() as _;
        let flags = if self.receive_waits { 0 } else { libc::MSG_DONTWAIT as usize };
        let arguments = [self.fd.number() as usize, &raw mut message as usize, flags, 0, 0, 0];
        // SAFETY: an `IoSliceMut` is an iovec; slices and header outlive the call, the slices are borrowed exclusively.
        let received = unsafe { call(libc::SYS_recvmsg, arguments) };
        if received < 0 { Err(io::Error::from_raw_os_error(-received as i32)) } else { Ok(received as usize) }
    }

    /// Ends the connection at once, on both sides and for every process that inherited it, and frees its port. No reply to what
    /// was sent on it can arrive in a buffer any more.
    pub(crate) fn abort(self) {
        // If this fails, the close that follows ends the connection too, less thoroughly.
        let _ = connect_unspec(&self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::super::connect::Connect;
    use super::super::internal_fd::{is_internal_fd, lowest_internal_fd};
    use super::*;
    use crate::process::this_process;
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::time::Duration;

    fn connect(listener: &TcpListener, local_port: Option<u16>) -> Socket {
        let server = listener.local_addr().unwrap();
        Connect { server, local_address: None, local_port, privileged: false, timeout: Duration::from_secs(5) }.connect().unwrap()
    }

    #[test]
    fn an_aborted_connection_frees_its_port_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A port that connect chooses may be shared with connections to other servers, and is then not free afterwards; a bound
        // port is exclusive. Another program may take it in between, but not sixteen times.
        let again = (0..16).any(|_| {
            let port = Some(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
            let first = connect(&listener, port);
            let ours = first.local_port() == port;
            first.abort();
            ours && connect(&listener, port).local_port() == port
        });
        assert!(again, "a port was in use whenever it had just been given up");
    }

    #[test]
    fn sockets_are_marked_as_internal_while_they_live() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = connect(&listener, None);
        let fd = socket.fd.number();
        assert!(is_internal_fd(fd) && !is_internal_fd(-1) && !is_internal_fd(i32::MAX));
        assert!(fd >= lowest_internal_fd());
    }

    #[test]
    fn segments_arrive_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = connect(&listener, None);
        assert_eq!(socket.send(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).unwrap(), 4);
        let mut got = [0; 4];
        listener.accept().unwrap().0.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"abcd");
    }

    #[test]
    fn a_child_leaves_the_connection_of_its_parent_alone_and_makes_its_own() {
        use crate::nfs3::procedures::NFS;
        use crate::rpc::connection::Connection;
        use crate::rpc::route::{RetryPolicy, Route};
        use std::io::Write as _;
        this_process().watch_forks();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let who = crate::Credentials::of_process();
        let route = Route::new(listener.local_addr().unwrap(), NFS, &who, RetryPolicy::Mounting);
        let mut connection = Connection::new();
        connection.connect(&route).ok().unwrap();
        let mut served = listener.accept().unwrap().0;
        // SAFETY: the child makes system calls only, no allocation, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = connection.socket().is_err();
            let fresh = connection.connect(&route).is_ok_and(|new| new);
            let sent = connection.socket().is_ok_and(|socket| socket.send(&[IoSlice::new(b"child")]).is_ok());
            connection.disconnect();
            // SAFETY: ends the child.
            unsafe { libc::_exit(if refused && fresh && sent { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        served.write_all(b"parent").unwrap();
        let mut got = [0; 6];
        assert_eq!(connection.socket().ok().unwrap().receive(&mut got).unwrap(), 6);
        assert_eq!(&got, b"parent");
    }
}
