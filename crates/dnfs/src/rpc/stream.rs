//! Transfers bytes over a socket, with TLS if the URL asks for it.

use super::tls::TlsStream;
use crate::sys::socket::Socket;
use std::io::{self, IoSlice, IoSliceMut};

/// The functions of [`Socket`], with TLS if the connection has it.
pub(crate) struct Stream<'c> {
    pub(super) socket: &'c Socket,
    pub(super) tls: Option<&'c mut TlsStream>,
}

impl Stream<'_> {
    /// As [`Socket::send`]. With TLS, the caller must offer the same bytes again after an error.
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
