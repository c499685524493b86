//! One TCP connection: made again from the same port, ended before anything is sent a second time, never shared with
//! the parent of a fork.

use crate::rpc::attach::Mark;
use crate::rpc::service::{Fault, Link};
use crate::rpc::tls::Tls;
use crate::sys::socket::{self, Connect, Socket};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Option<Socket>,
    tls: Option<Tls>, // of this socket
    fork_generation: u32,
    local_port: Option<u16>, // of the last socket: servers tell resent calls by it
    connected_before: bool,
    mark: Mark,
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self { socket: None, tls: None, fork_generation: 0, local_port: None, connected_before: false, mark: Mark::new() }
    }

    /// Connects unless connected; true when the connection is new.
    pub(crate) fn connect(&mut self, link: &Link) -> Result<bool, Fault> {
        self.leave_parent();
        if self.socket.is_some() {
            return Ok(false);
        }
        let how = Connect {
            server: link.server,
            local_port: self.local_port,
            privileged: link.privileged_port,
            timeout: link.connect_timeout(),
        };
        let socket = Socket::connect(&how).map_err(Fault::Connect)?;
        self.local_port = socket.local_port();
        match self.introduce(&socket, link) {
            Ok(tls) => self.tls = tls,
            Err(fault) => {
                socket.abort();
                return Err(fault);
            }
        }
        self.socket = Some(socket);
        link.connections.fetch_add(1, Ordering::Release);
        if self.connected_before {
            link.reconnects.fetch_add(1, Ordering::Relaxed);
        }
        self.connected_before = true;
        Ok(true)
    }

    /// The first words on a new connection: TLS, then whose channel it is.
    fn introduce(&mut self, socket: &Socket, link: &Link) -> Result<Option<Tls>, Fault> {
        let mut tls = link.secrecy.as_ref().map(|secrecy| Tls::start(socket, link, secrecy)).transpose()?;
        if link.attaches() {
            self.mark.attach(&mut Stream { socket, tls: tls.as_mut() }, link)?;
        }
        Ok(tls)
    }

    /// Ends the connection: no reply can come any more.
    pub(crate) fn disconnect(&mut self) {
        self.tls = None;
        let Some(socket) = self.socket.take() else { return };
        if self.fork_generation == socket::fork_generation() {
            socket.abort();
        }
        // Otherwise it is the parent's connection: only the descriptor is closed, by dropping it.
    }

    /// After a fork: never touches the parent's connection again. True when there was a fork.
    pub(crate) fn leave_parent(&mut self) -> bool {
        let generation = socket::fork_generation();
        let forked = self.fork_generation != generation;
        if forked {
            self.disconnect();
            (self.fork_generation, self.local_port, self.connected_before) = (generation, None, false);
            self.mark.renew();
        }
        forked
    }

    /// The socket, while it is ours.
    pub(crate) fn socket(&self) -> Result<&Socket, Fault> {
        if self.fork_generation != socket::fork_generation() {
            return Err(Fault::Forked);
        }
        self.socket.as_ref().ok_or_else(unconnected)
    }

    /// Socket and TLS, while they are ours.
    pub(crate) fn stream(&mut self) -> Result<Stream<'_>, Fault> {
        if self.fork_generation != socket::fork_generation() {
            return Err(Fault::Forked);
        }
        let socket = self.socket.as_ref().ok_or_else(unconnected)?;
        Ok(Stream { socket, tls: self.tls.as_mut() })
    }
}

fn unconnected() -> Fault {
    Fault::Broken(io::Error::from_raw_os_error(libc::ENOTCONN))
}

/// What bytes go over: the calls of [`Socket`], under TLS where there is one.
pub(crate) struct Stream<'c> {
    socket: &'c Socket,
    tls: Option<&'c mut Tls>,
}

impl Stream<'_> {
    /// See [`Socket::send`]; under TLS, bytes that an error came for are to be offered again.
    #[inline]
    pub(crate) fn send(&mut self, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.send(segments),
            Some(tls) => tls.send(self.socket, segments),
        }
    }

    /// See [`Socket::receive`].
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.receive(buffer),
            Some(tls) => tls.receive(self.socket, buffer),
        }
    }

    /// See [`Socket::receive_scattered`].
    #[inline]
    pub(crate) fn receive_scattered(&mut self, segments: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.receive_scattered(segments),
            Some(tls) => tls.receive_scattered(self.socket, segments),
        }
    }
}
