//! Makes a TCP connection.

use super::fd::Fd;
use super::internal_fd::InternalFd;
use super::socket::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// How long one blocking send or receive waits before it returns, so that the caller can check the clock.
pub(crate) const SOCKET_TIMEOUT: Duration = Duration::from_millis(250);

/// How to make a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connect {
    /// The address of the server.
    pub(crate) server: SocketAddr,
    /// The address of this host to connect from. `None`: the kernel chooses.
    pub(crate) local_address: Option<IpAddr>,
    /// The port to connect from, if it is available: servers recognise resent calls by it.
    pub(crate) local_port: Option<u16>,
    /// Whether to connect from a port below 1024.
    pub(crate) privileged: bool,
    /// How long to wait for the connection.
    pub(crate) timeout: Duration,
}

/// Which system call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// socket(2).
    Socket,
    /// bind(2), or an option.
    SetUp,
    /// connect(2), or the wait for it.
    Connect,
}

impl Step {
    /// The call, as a message names it.
    pub(crate) const fn call(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::SetUp => "bind or setsockopt",
            Self::Connect => "connect",
        }
    }
}

/// The failed system call and its errno; `ETIMEDOUT` after the timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectError {
    pub(crate) step: Step,
    pub(crate) errno: Errno,
}

impl From<&ConnectError> for io::Error {
    fn from(failed: &ConnectError) -> Self {
        failed.errno.into()
    }
}

type Result<T> = core::result::Result<T, ConnectError>;

/// Adds the failed call to an errno.
fn at<T>(step: Step, done: core::result::Result<T, Errno>) -> Result<T> {
    done.map_err(|errno| ConnectError { step, errno })
}

impl Connect {
    /// Connects.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub(crate) fn connect(&self) -> Result<Socket> {
        if let Some(socket) = self.local_port.and_then(|port| self.connect_from(Some(port)).ok()) {
            return Ok(socket);
        }
        if !self.privileged {
            // The socket is bound before it connects: a port that connect(2) chooses may be shared with other sockets, and
            // could then not be bound again.
            return match self.connect_from(Some(0)) {
                Err(failed) if [Errno::ADDRINUSE, Errno::ADDRNOTAVAIL].contains(&failed.errno) => self.connect_from(None),
                other => other,
            };
        }
        let mut last = ConnectError { step: Step::SetUp, errno: Errno::ADDRINUSE };
        for port in (665..=1023).rev() {
            match self.connect_from(Some(port)) {
                Err(failed) if [Errno::ADDRINUSE, Errno::ADDRNOTAVAIL].contains(&failed.errno) => last = failed,
                other => return other,
            }
        }
        Err(last)
    }

    fn connect_from(&self, port: Option<u16>) -> Result<Socket> {
        let family = if self.server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = InternalFd::moved_up(Fd::from(at(Step::Socket, socket_with(family, SocketType::STREAM, flags, None))?));
        if port.is_some() || self.local_address.is_some() {
            at(Step::SetUp, sockopt::set_socket_reuseaddr(&fd, true))?;
            let any = if self.server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
            at(Step::SetUp, bind(&fd, &SocketAddr::new(self.local_address.unwrap_or(any), port.unwrap_or(0))))?;
        }
        match connect(&fd, &self.server) {
            Ok(()) => {}
            Err(Errno::INPROGRESS | Errno::INTR) => at(Step::Connect, finish_connect(&fd, self.timeout))?,
            Err(errno) => return Err(ConnectError { step: Step::Connect, errno }),
        }
        at(Step::SetUp, set_options(&fd))?;
        Ok(Socket::new(fd))
    }
}

/// Sets the options of a connected socket.
fn set_options(fd: &InternalFd) -> core::result::Result<(), Errno> {
    // A call is one send; waiting for more bytes to fill a segment would only delay it.
    sockopt::set_tcp_nodelay(fd, true)?;
    // Keepalive detects a dead host while nothing is sent.
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_socket_timeout(fd, Timeout::Recv, Some(SOCKET_TIMEOUT))?;
    sockopt::set_socket_timeout(fd, Timeout::Send, Some(SOCKET_TIMEOUT))?;
    fcntl_setfl(fd, OFlags::empty()) // blocking from here on
}

/// Waits until the connection is made.
fn finish_connect(fd: &InternalFd, timeout: Duration) -> core::result::Result<(), Errno> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&left)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => return sockopt::socket_error(fd)?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
