//! One connection: a socket, the bytes to send, the received bytes, and the state of its session.

use crate::error::Error;
use crate::socket;
use iscsi_proto::initiator::{Event, Initiator};
use iscsi_proto::pdu::Framed;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// Room for received bytes: answers to 32 reads of 8 KiB.
const INPUT_BYTES: usize = 288 << 10;
/// If this number of bytes waits for the kernel, no further command is appended.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

pub(crate) struct Connection {
    /// Its name in messages.
    portal: String,
    stream: TcpStream,
    pub(crate) session: Initiator,
    input: Vec<u8>,
    start: usize,
    end: usize,
    pub(crate) output: Vec<u8>,
    sent: usize,
    is_connected: bool,
    /// When bytes last arrived, or when the connection began.
    pub(crate) heard: Instant,
}

impl Connection {
    /// Begins to connect.
    pub(crate) fn begin(portal: String, address: SocketAddr, session: Initiator, now: Instant) -> Result<Self, Error> {
        let stream = socket::begin(address).map_err(|source| Error::Connect { portal: portal.clone(), source })?;
        Ok(Self {
            portal,
            stream,
            session,
            input: vec![0; INPUT_BYTES],
            start: 0,
            end: 0,
            output: Vec::new(),
            sent: 0,
            is_connected: false,
            heard: now,
        })
    }

    pub(crate) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn portal(&self) -> &str {
        &self.portal
    }

    /// Whether to wait until the socket is writable.
    pub(crate) const fn has_output(&self) -> bool {
        !self.is_connected || self.sent < self.output.len()
    }

    /// Whether too many bytes wait to be sent for another command.
    pub(crate) const fn is_full(&self) -> bool {
        self.output.len() - self.sent >= OUTPUT_BYTES_MAX
    }

    /// Called when the socket is ready: ends the connecting, and begins the login.
    pub(crate) fn connected(&mut self, now: Instant) -> Result<(), Error> {
        if !self.is_connected {
            match socket::result(&self.stream) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(()),
                Err(source) => return Err(Error::Connect { portal: self.portal.clone(), source }),
            }
            self.is_connected = true;
            self.heard = now;
            self.session.start(&mut self.output);
        }
        Ok(())
    }

    /// Sends what the kernel accepts.
    pub(crate) fn send(&mut self) -> Result<(), Error> {
        if !self.is_connected {
            return Ok(());
        }
        while self.sent < self.output.len() {
            let rest = self.output.get(self.sent..).unwrap_or_default();
            let count = socket::send(&self.stream, rest).map_err(|source| self.broken(source))?;
            if count == 0 {
                return Ok(());
            }
            self.sent += count;
        }
        self.output.clear();
        self.output.shrink_to(OUTPUT_BYTES_MAX);
        self.sent = 0;
        Ok(())
    }

    /// Receives available data, and calls `handle` with each event, the session and the bytes to be
    /// sent.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        mut handle: impl FnMut(&mut Initiator, &mut Vec<u8>, Event<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.is_connected {
            return Ok(());
        }
        loop {
            let room = self.input.get_mut(self.end..).unwrap_or_default();
            let room_bytes = room.len();
            let count = socket::receive(&self.stream, room).map_err(|source| self.broken(source))?;
            if count == 0 {
                return Ok(());
            }
            self.heard = now;
            self.end += count;
            self.take_pdus(&mut handle)?;
            if count < room_bytes {
                return Ok(());
            }
        }
    }

    fn take_pdus(
        &mut self,
        handle: &mut impl FnMut(&mut Initiator, &mut Vec<u8>, Event<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let protocol = |portal: &str, source| Error::Protocol { portal: portal.to_owned(), source };
        let needed = loop {
            let unread = self.input.get(self.start..self.end).unwrap_or_default();
            match self.session.frame(unread).map_err(|source| protocol(&self.portal, source))? {
                Framed::Whole { bytes } => {
                    let pdu = unread.get(..bytes).unwrap_or_default();
                    self.start += bytes;
                    let event = self.session.receive(pdu, &mut self.output).map_err(|source| protocol(&self.portal, source))?;
                    handle(&mut self.session, &mut self.output, event)?;
                }
                Framed::Incomplete { bytes_needed } => break bytes_needed,
            }
        };
        // The rest moves to the front if it would not fit where it is.
        let rest = self.end - self.start;
        if rest == 0 {
            (self.start, self.end) = (0, 0);
        } else if self.start + needed.max(rest + 1) > self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, rest);
            if needed > self.input.len() {
                self.input.resize(needed, 0);
            }
        }
        Ok(())
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Broken { portal: self.portal.clone(), source }
    }
}
