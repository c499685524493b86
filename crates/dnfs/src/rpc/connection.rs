//! One TCP connection. It is reconnected from the same port, closed before anything is resent, and never shared with the parent
//! of a fork.

use super::attach::ChannelIdentity;
use super::fault::Fault;
use super::route::Route;
use super::stream::Stream;
use super::tls::TlsStream;
use super::tls_handshake;
use crate::error::Error;
use crate::process::this_process;
use crate::slot_limiter::{KeptConnections, KeptPlace};
use crate::sys::socket::Socket;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A connection that is made on first use.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Option<Socket>,
    tls: Option<TlsStream>, // of this socket
    fork_generation: u32,
    local_port: Option<u16>, // of the last socket: servers recognise resent calls by it
    connected_before: bool,
    move_count: u32, // changes of the server's address when it was made
    identity: ChannelIdentity,
    aside: bool,              // in use by a child that shares this memory
    place: Option<KeptPlace>, // it stays open between calls
    answered: bool,           // a reply has arrived on it
}

/// The connection of a parent, while a child that shares the memory uses the channel.
pub(super) struct SetAside {
    socket: Option<Socket>,
    tls: Option<TlsStream>,
    local_port: Option<u16>,
    connected_before: bool,
    channel: (u64, u32),
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            tls: None,
            fork_generation: 0,
            local_port: None,
            connected_before: false,
            move_count: 0,
            identity: ChannelIdentity::new(),
            aside: false,
            place: None,
            answered: false,
        }
    }

    /// Whether a child that shares the memory has set the parent's connection aside.
    pub(super) const fn is_aside(&self) -> bool {
        self.aside
    }

    /// Takes the connection out, so that another can be made. Does not allocate.
    pub(super) fn set_aside(&mut self) -> SetAside {
        self.aside = true;
        SetAside {
            socket: self.socket.take(),
            tls: self.tls.take(),
            local_port: self.local_port.take(),
            connected_before: core::mem::take(&mut self.connected_before),
            channel: self.identity.exchange((0, 0)),
        }
    }

    /// Puts the connection back after the other one was closed.
    pub(super) fn put_back(&mut self, parents: SetAside) {
        let SetAside { socket, tls, local_port, connected_before, channel } = parents;
        (self.socket, self.tls, self.local_port, self.connected_before) = (socket, tls, local_port, connected_before);
        self.identity.exchange(channel);
        self.aside = false;
    }

    /// Whether there is a connection.
    #[inline]
    pub(super) const fn is_made(&self) -> bool {
        self.socket.is_some()
    }

    /// Connects if necessary. True if the connection is new.
    pub(crate) fn connect(&mut self, route: &Route) -> Result<bool, Fault> {
        self.leave_after_fork();
        let move_count = route.endpoints.move_count();
        if self.socket.is_some() {
            return if self.move_count == move_count { Ok(false) } else { Err(Fault::Moved) };
        }
        if !self.aside && this_process().identity.is_unexpected() {
            // This is the parent's memory, and the parent has other descriptors. The next call sees that and uses another
            // connection.
            let source = io::Error::from_raw_os_error(libc::EBADF);
            return Err(Fault::Fatal(Error::Local { action: "connect in a process that shares another's memory", source }));
        }
        let how = route.connect_request(self.local_port);
        let socket = how.connect().map_err(|failed| Fault::of_connect(&failed, &how, route))?;
        self.local_port = socket.local_port();
        match self.set_up(&socket, route) {
            Ok(tls) => self.tls = tls,
            Err(fault) => {
                // A child that was forked meanwhile does not do this: the parent continues.
                if !self.is_of_parent() {
                    socket.abort();
                }
                return Err(fault);
            }
        }
        self.socket = Some(socket);
        self.move_count = move_count;
        self.answered = false;
        route.counts.connections.fetch_add(1, Ordering::Release);
        if self.connected_before {
            route.counts.reconnects.fetch_add(1, Ordering::Relaxed);
        }
        self.connected_before = true;
        Ok(true)
    }

    /// Sets up a new connection: TLS, then ATTACH, by which the server learns the channel of the
    /// connection.
    fn set_up(&mut self, socket: &Socket, route: &Route) -> Result<Option<TlsStream>, Fault> {
        let start = |config| tls_handshake::start(socket, route, config);
        let mut tls = route.tls_config.as_ref().map(start).transpose()?;
        if route.uses_attach() {
            self.identity.attach(&mut Stream { socket, tls: tls.as_mut() }, route)?;
        }
        Ok(tls)
    }

    /// Lets the next connection use any port, so that the server does not recognise resent calls by the port.
    pub(super) const fn forget_port(&mut self) {
        self.local_port = None;
    }

    /// Fences another process by a call on this connection. False if the server does not support that; `None` if the call must
    /// be repeated.
    pub(super) fn fence(&mut self, route: &Route, number: u64) -> Result<Option<bool>, Fault> {
        if !route.uses_attach() {
            return Ok(Some(false));
        }
        let Some(socket) = &self.socket else { return Err(not_connected()) };
        self.identity.fence(&mut Stream { socket, tls: self.tls.as_mut() }, route, number)
    }

    /// Closes the connection: no more replies can arrive.
    pub(crate) fn disconnect(&mut self) {
        self.tls = None;
        self.place = None;
        self.answered = false;
        let Some(socket) = self.socket.take() else { return };
        if !self.is_of_parent() {
            socket.abort();
        }
        // Otherwise the connection belongs to the parent: dropping it closes only the descriptor.
    }

    /// Closes the connection of a call that its thread left.
    pub(crate) fn leave(&mut self) {
        if self.is_of_parent() {
            return self.abandon();
        }
        std::mem::forget(self.tls.take()); // its state may be inconsistent
        self.aside = false;
        self.disconnect();
    }

    /// In a child right after fork: closes the parent's connection. True if there was a fork.
    pub(crate) fn reset_after_fork(&mut self) -> bool {
        let forked = self.is_of_parent();
        if forked {
            std::mem::forget(self.tls.take()); // malloc's locks may have been copied, unless the child is one of `fork`
            self.disconnect();
            self.begin_anew();
        }
        forked
    }

    /// Checks for a fork that this library did not see. After one, never uses the parent's connection again. True if there was
    /// a fork.
    ///
    /// The descriptor stays open and is marked as this library's: the table of descriptors may be the parent's (CLONE_FILES).
    #[inline]
    pub(crate) fn leave_after_fork(&mut self) -> bool {
        let forked = self.is_of_parent();
        if forked {
            self.abandon();
        }
        forked
    }

    /// As [`Self::reset_after_fork`], in any state. Drops nothing, since malloc's locks may have been copied too.
    #[cold]
    pub(crate) fn abandon(&mut self) {
        std::mem::forget((self.socket.take(), self.tls.take(), self.place.take()));
        self.aside = false;
        self.begin_anew();
    }

    #[inline]
    fn is_of_parent(&self) -> bool {
        self.fork_generation != this_process().identity.generation()
    }

    fn begin_anew(&mut self) {
        (self.fork_generation, self.local_port, self.connected_before) = (this_process().identity.generation(), None, false);
        self.identity.renew();
    }

    /// The socket, if this process owns it.
    pub(crate) fn socket(&self) -> Result<&Socket, Fault> {
        if self.is_of_parent() {
            return Err(Fault::Forked);
        }
        self.socket.as_ref().ok_or_else(not_connected)
    }

    /// Whether the connection may stay open after its call. Takes a place for it.
    pub(super) fn may_stay(&mut self, kept: &Arc<KeptConnections>) -> bool {
        if self.place.as_ref().is_some_and(|place| !kept.allows(place)) {
            self.place = None;
            return false;
        }
        if self.place.is_none() && self.socket.is_some() {
            self.place = kept.take();
        }
        self.socket.is_none() || self.place.is_some()
    }

    /// How often the server's address had changed when the connection was made.
    pub(super) const fn move_count(&self) -> u32 {
        self.move_count
    }

    /// Notes that a reply arrived.
    pub(super) const fn note_answer(&mut self) {
        self.answered = true;
    }

    /// Whether no reply has arrived on the connection, also if it could not be made.
    pub(super) const fn is_unanswered(&self) -> bool {
        !self.answered
    }

    /// The socket for its setup, if this process owns it.
    pub(crate) fn socket_mut(&mut self) -> Option<&mut Socket> {
        if self.is_of_parent() { None } else { self.socket.as_mut() }
    }

    /// Whether received bytes may be in memory, where no poll of the socket sees them.
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Socket and TLS, if this process owns them.
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
