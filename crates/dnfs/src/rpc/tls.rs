//! The TLS records of a connection, encrypted and decrypted in memory of its own (RFC 9289, RFC 8446 5).
//!
//! Only a change of keys allocates, once in millions of records. The keys belong to the connection: a child after fork
//! drops them without sending anything, and makes its own connection and handshake.

use crate::sys::region::Region;
use crate::sys::socket::Socket;
use rpc_tls::{Incoming, RecordFault, Sealer, Taken};
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;

/// TLS of one connection, with the calls of [`Socket`].
#[derive(Debug)]
pub(crate) struct TlsStream {
    sealer: Sealer,
    incoming: Incoming<Region>,
    sealed: Region,
    unsent: Range<usize>, // of `sealed`
    taken: usize,         // the caller's bytes in these records
}

impl TlsStream {
    /// Starts after the handshake. `sealed` holds the records of one send.
    pub(super) const fn new(sealer: Sealer, incoming: Incoming<Region>, sealed: Region) -> Self {
        Self { sealer, incoming, sealed, unsent: 0..0, taken: 0 }
    }

    /// Encrypts what it can and sends all of that. After an error the caller must offer the same bytes again: they are
    /// encrypted already, and only the rest of them is sent.
    pub(crate) fn send(&mut self, socket: &Socket, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.unsent.is_empty() {
            let done = self.sealer.seal(segments, &mut self.sealed).map_err(io::Error::other)?;
            (self.unsent, self.taken) = (0..done.sealed, done.plain);
        }
        while !self.unsent.is_empty() {
            let rest = self.sealed.get(self.unsent.clone()).unwrap_or_default();
            self.unsent.start += socket.send(&[IoSlice::new(rest)])?;
        }
        Ok(self.taken)
    }

    /// Receives available data.
    pub(crate) fn receive(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_by(socket, |incoming| incoming.take(buffer))
    }

    /// As [`Self::receive`], into several buffers.
    pub(crate) fn receive_scattered(&mut self, socket: &Socket, segments: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.receive_by(socket, |incoming| incoming.take_scattered(segments))
    }

    fn receive_by(
        &mut self,
        socket: &Socket,
        mut take: impl FnMut(&mut Incoming<Region>) -> Result<Taken, RecordFault>,
    ) -> io::Result<usize> {
        loop {
            match take(&mut self.incoming).map_err(io::Error::other)? {
                Taken::Bytes(bytes) => return Ok(bytes),
                Taken::Closed => return Ok(0),
                Taken::None => {}
            }
            match socket.receive(self.incoming.room())? {
                0 => return Ok(0),
                bytes => self.incoming.received(bytes),
            }
        }
    }
}
