//! One TCP connection: made again from the same port, ended before anything is sent a second time, never shared with
//! the parent of a fork.

use crate::fence::Mark;
use crate::link::{Fault, Link};
use crate::sys::socket::{self, Connect, Socket};
use std::io;
use std::sync::atomic::Ordering;

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Option<Socket>,
    fork_generation: u32,
    local_port: Option<u16>, // of the last socket: servers tell resent calls by it
    connected_before: bool,
    mark: Mark,
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self { socket: None, fork_generation: 0, local_port: None, connected_before: false, mark: Mark::new() }
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
        if link.attaches()
            && let Err(fault) = self.mark.attach(&socket, link)
        {
            socket.abort();
            return Err(fault);
        }
        self.socket = Some(socket);
        link.connections.fetch_add(1, Ordering::Release);
        if self.connected_before {
            link.reconnects.fetch_add(1, Ordering::Relaxed);
        }
        self.connected_before = true;
        Ok(true)
    }

    /// Ends the connection: no reply can come any more.
    pub(crate) fn disconnect(&mut self) {
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
        self.socket.as_ref().ok_or_else(|| Fault::Broken(io::Error::from_raw_os_error(libc::ENOTCONN)))
    }
}
