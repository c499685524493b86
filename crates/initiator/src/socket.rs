//! A TCP connection that never blocks.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Bytes that the kernel may keep for a connection, in each direction.
const KERNEL_BYTES: usize = 4 << 20;

/// Begins a connection. When the socket is writable, the connection is made or has failed, as [`result`] returns.
pub(crate) fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    // The kernel accepts less if net.core.rmem_max is lower, which makes the connection slower.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, KERNEL_BYTES);
    let _ = sockopt::set_socket_send_buffer_size(&socket, KERNEL_BYTES);
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// The outcome of a connection whose socket is writable.
pub(crate) fn result(stream: &TcpStream) -> io::Result<()> {
    match stream.take_error()? {
        Some(error) => Err(error),
        None => stream.peer_addr().map(|_| ()),
    }
}

/// Sends what the kernel accepts. Returns the number of bytes.
pub(crate) fn send(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            other => return other,
        }
    }
}

/// Receives available data. Returns 0 if no data is available.
pub(crate) fn receive(mut stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the target closed it")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            other => return other,
        }
    }
}

/// A descriptor to wait for.
pub(crate) struct Wait<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) to_send: bool,
}

/// Waits until one of the descriptors is ready, the time is over, or a signal arrives. Returns
/// which are ready.
pub(crate) fn wait(waits: &[Wait<'_>], time: Duration) -> io::Result<Vec<bool>> {
    let flags = |wait: &Wait<'_>| if wait.to_send { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut fds: Vec<PollFd<'_>> = waits.iter().map(|wait| PollFd::from_borrowed_fd(wait.fd.as_fd(), flags(wait))).collect();
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match poll(&mut fds, Some(&time)) {
        Ok(_) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; waits.len()]),
        Err(error) => Err(error.into()),
    }
}
