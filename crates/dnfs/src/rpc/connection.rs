//! One TCP connection: made again from the same port, ended before anything is sent a second time, never shared with
//! the parent of a fork.

use super::attach::ChannelIdentity;
use super::fault::Fault;
use super::service::Service;
use super::stream::Stream;
use super::tls::TlsStream;
use super::tls_handshake;
use crate::sys::connect::Connect;
use crate::sys::fork;
use crate::sys::socket::Socket;
use std::io;
use std::sync::atomic::Ordering;

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Option<Socket>,
    tls: Option<TlsStream>, // of this socket
    fork_generation: u32,
    local_port: Option<u16>, // of the last socket: servers tell resent calls by it
    connected_before: bool,
    identity: ChannelIdentity,
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            tls: None,
            fork_generation: 0,
            local_port: None,
            connected_before: false,
            identity: ChannelIdentity::new(),
        }
    }

    /// Connects unless connected; true when the connection is new.
    pub(crate) fn connect(&mut self, service: &Service) -> Result<bool, Fault> {
        self.leave_after_fork();
        if self.socket.is_some() {
            return Ok(false);
        }
        let how = Connect {
            server: service.server,
            local_address: service.local_address,
            local_port: self.local_port,
            privileged: service.privileged_port,
            timeout: service.connect_timeout(),
        };
        let socket = how.connect().map_err(Fault::Connect)?;
        self.local_port = socket.local_port();
        match self.set_up(&socket, service) {
            Ok(tls) => self.tls = tls,
            Err(fault) => {
                // Not in a child that came out of a fork meanwhile: there, the parent goes on with it.
                if !self.is_of_parent() {
                    socket.abort();
                }
                return Err(fault);
            }
        }
        self.socket = Some(socket);
        service.connections.fetch_add(1, Ordering::Release);
        if self.connected_before {
            service.reconnects.fetch_add(1, Ordering::Relaxed);
        }
        self.connected_before = true;
        Ok(true)
    }

    /// What comes first on a new connection: TLS, then ATTACH, which tells the server whose channel it is.
    fn set_up(&mut self, socket: &Socket, service: &Service) -> Result<Option<TlsStream>, Fault> {
        let start = |config| tls_handshake::start(socket, service, config);
        let mut tls = service.tls_config.as_ref().map(start).transpose()?;
        if service.uses_attach() {
            self.identity.attach(&mut Stream { socket, tls: tls.as_mut() }, service)?;
        }
        Ok(tls)
    }

    /// Ends the connection: no reply can come any more.
    pub(crate) fn disconnect(&mut self) {
        self.tls = None;
        let Some(socket) = self.socket.take() else { return };
        if !self.is_of_parent() {
            socket.abort();
        }
        // Otherwise it is the parent's connection: only the descriptor is closed, by dropping it.
    }

    /// In a child that knows it is one, right after the fork: closes the parent's connection. True when there was a fork.
    pub(crate) fn reset_after_fork(&mut self) -> bool {
        let forked = self.is_of_parent();
        if forked {
            self.disconnect();
            self.begin_anew();
        }
        forked
    }

    /// After a fork that nobody told of: never touches the parent's connection again. True when there was a fork.
    ///
    /// The descriptor is left open, marked as ours: the table of descriptors may be the parent's (CLONE_FILES).
    #[inline]
    pub(crate) fn leave_after_fork(&mut self) -> bool {
        let forked = self.is_of_parent();
        if forked {
            self.abandon();
        }
        forked
    }

    /// The same whatever state things are in; drops nothing, since malloc's locks may have been copied too.
    #[cold]
    pub(crate) fn abandon(&mut self) {
        std::mem::forget((self.socket.take(), self.tls.take()));
        self.begin_anew();
    }

    #[inline]
    fn is_of_parent(&self) -> bool {
        self.fork_generation != fork::fork_generation()
    }

    fn begin_anew(&mut self) {
        (self.fork_generation, self.local_port, self.connected_before) = (fork::fork_generation(), None, false);
        self.identity.renew();
    }

    /// The socket, while it is ours.
    pub(crate) fn socket(&self) -> Result<&Socket, Fault> {
        if self.is_of_parent() {
            return Err(Fault::Forked);
        }
        self.socket.as_ref().ok_or_else(not_connected)
    }

    /// Socket and TLS, while they are ours.
    #[inline]
    pub(crate) fn stream(&mut self) -> Result<Stream<'_>, Fault> {
        if self.is_of_parent() {
            return Err(Fault::Forked);
        }
        let socket = self.socket.as_ref().ok_or_else(not_connected)?;
        Ok(Stream { socket, tls: self.tls.as_mut() })
    }
}

fn not_connected() -> Fault {
    Fault::Broken(io::Error::from_raw_os_error(libc::ENOTCONN))
}
