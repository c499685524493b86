//! What bytes go over: a socket, under TLS where the URL asks for it.

use super::tls::TlsStream;
use crate::sys::socket::Socket;
use std::io::{self, IoSlice, IoSliceMut};

/// The calls of [`Socket`], under TLS where there is one.
pub(crate) struct Stream<'c> {
    pub(super) socket: &'c Socket,
    pub(super) tls: Option<&'c mut TlsStream>,
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
