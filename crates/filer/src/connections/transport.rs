//! The socket of a connection and, after a handshake, TLS over it.
//!
//! Only the connection's own thread receives ([`Receiver`]). The thread that holds the sending side sends. It encrypts the records
//! in the order in which they leave.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use host::Unpoisoned;
use rpc_tls::{Incoming, RecordFault, Sealer, ServerTls, Taken, TlsFault, Wire};

use super::delivery::SentMark;
use crate::limits::{
    HANDSHAKE_TIMEOUT, KEEPALIVE_IDLE, RECEIVE_BYTES_BUSY, SEAL_BYTES, SEND_BYTES_MIN, SEND_TIMEOUT, TLS_BYTES_IDLE,
};
use crate::sys;

/// The socket, with the state of its sending half.
pub(crate) struct Transport {
    stream: TcpStream,
    sealing: OnceLock<Mutex<Sealing>>, // only the holder of the sending side locks it
    written: AtomicU64,                // bytes the socket has taken
}

struct Sealing {
    sealer: Sealer,
    sealed: Vec<u8>, // encrypted records that are being sent
}

/// The receiving half.
#[derive(Default)]
pub(crate) struct Receiver(Option<Box<Incoming<Vec<u8>>>>);

impl Transport {
    /// Configures the socket.
    ///
    /// # Errors
    /// The socket's, for example because the peer has closed it.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        sys::keep_alive(&stream, KEEPALIVE_IDLE)?;
        Ok(Self { stream, sealing: OnceLock::new(), written: AtomicU64::new(0) })
    }

    /// The local address.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// The socket, to wait on.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Ends sending, receiving, or both.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        let _ = self.stream.shutdown(how);
    }

    /// Makes the socket send a reset when it is closed.
    pub(crate) fn reset_on_close(&self) {
        let _ = sys::reset_on_close(&self.stream);
    }

    /// Sets the time after which a receive without data ends with `WouldBlock`.
    pub(crate) fn set_receive_timeout(&self, limit: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(limit))
    }

    /// Frees the memory for encrypted records, unless it is in use.
    pub(crate) fn shrink_idle(&self) {
        if let Some(Ok(mut sealing)) = self.sealing.get().map(Mutex::try_lock) {
            sealing.sealed = Vec::new();
        }
    }

    /// Performs the TLS handshake as the server. Returns whether the client presented a trusted certificate. No other thread may send
    /// meanwhile. The caller must set the receive timeout again.
    ///
    /// # Errors
    /// [`TlsFault`]: the caller must close the connection.
    // Not inlined: its large frame would cost the stack of every connection a page, TLS or not.
    #[inline(never)]
    pub(crate) fn tls_handshake(&self, tls: &ServerTls, receiver: &mut Receiver) -> Result<bool, TlsFault> {
        let session = tls.handshake(&mut HandshakeWire { transport: self, deadline: Instant::now() + HANDSHAKE_TIMEOUT })?;
        let memory = vec![0; TLS_BYTES_IDLE.max(session.early.len())];
        receiver.0 = Some(Box::new(Incoming::new(session.opener, memory, &session.early)));
        let sealing = Sealing { sealer: session.sealer, sealed: Vec::new() };
        if self.sealing.set(Mutex::new(sealing)).is_err() {
            return Err(TlsFault::Unexpected("TLS within TLS"));
        }
        Ok(session.certified)
    }

    /// Sends all bytes. Fails if the peer takes less than [`SEND_BYTES_MIN`] in a [`SEND_TIMEOUT`], at the latest after two of them: a peer
    /// that takes one byte now and then must not hold a thread and its replies. Sets the marks to the position at which the bytes end.
    pub(crate) fn send_all(&self, bytes: &[u8], marks: &[SentMark]) -> io::Result<()> {
        let mut rate = SendRate::default();
        let Some(mut sealing) = self.sealing() else {
            self.mark_end(bytes, marks);
            return self.send_raw(bytes, &mut rate);
        };
        let parts = bytes.len().div_ceil(SEAL_BYTES);
        for (nth, part) in bytes.chunks(SEAL_BYTES).enumerate() {
            // The socket may have taken the part before in one write, and slowly.
            if nth > 0 {
                rate.took(SEAL_BYTES, Instant::now())?;
            }
            let sealed = sealing.seal(part)?;
            if nth + 1 == parts {
                self.mark_end(sealed, marks);
            }
            self.send_raw(sealed, &mut rate)?;
        }
        Ok(())
    }

    /// Sends what the socket takes without waiting. Returns the rest, which under TLS is encrypted already. Sets the marks to the position
    /// at which the bytes end.
    pub(crate) fn send_now(&self, bytes: &[u8], marks: &[SentMark]) -> io::Result<Vec<u8>> {
        let Some(mut sealing) = self.sealing() else {
            self.mark_end(bytes, marks);
            return self.send_raw_now(bytes);
        };
        let sealed = sealing.seal(bytes)?;
        self.mark_end(sealed, marks);
        let rest = self.send_raw_now(sealed);
        sealing.shrink();
        rest
    }

    /// Sends what [`Self::send_now`] left.
    pub(crate) fn send_rest(&self, rest: &[u8]) -> io::Result<()> {
        self.send_raw(rest, &mut SendRate::default())
    }

    /// Answers the close_notify of a client. An error is ignored: the client has closed anyway.
    pub(crate) fn close_notify(&self) {
        if let Some(mut sealing) = self.sealing()
            && let Ok(alert) = sealing.sealer.close()
        {
            let _ = sys::send_now(&self.stream, &alert);
        }
    }

    /// Bytes sent that the peer's TCP has acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        sys::bytes_acknowledged(&self.stream)
    }

    /// Number of bytes that the socket took.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Sets the marks to the position at which `bytes` will end. Called before the send, because the acknowledgement may come before
    /// the send returns.
    fn mark_end(&self, bytes: &[u8], marks: &[SentMark]) {
        if !marks.is_empty() {
            let end = self.written() + bytes.len() as u64;
            marks.iter().for_each(|mark| mark.set(end));
        }
    }

    /// Counts bytes that the socket took. Only the holder of the sending side calls this.
    fn note_written(&self, bytes: usize) {
        self.written.store(self.written() + bytes as u64, Ordering::Relaxed);
    }

    fn send_raw(&self, mut bytes: &[u8], rate: &mut SendRate) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.stream).write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.note_written(sent);
                    bytes = bytes.get(sent..).unwrap_or_default();
                    // The clock is read only if the write did not take all: then the socket's own timeout has ended it.
                    if !bytes.is_empty() {
                        rate.took(sent, Instant::now())?;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send_raw_now(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match sys::send_now(&self.stream, bytes) {
            Ok(sent) => {
                self.note_written(sent);
                Ok(bytes.get(sent..).unwrap_or_default().to_vec())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(bytes.to_vec()),
            Err(error) => Err(error),
        }
    }

    fn sealing(&self) -> Option<MutexGuard<'_, Sealing>> {
        self.sealing.get().map(|sealing| sealing.lock().unpoisoned())
    }
}

impl Sealing {
    /// Encrypts all bytes. The records are in memory that is reused.
    fn seal(&mut self, bytes: &[u8]) -> io::Result<&[u8]> {
        let space = Sealer::room_for(bytes.len());
        if self.sealed.len() < space {
            self.sealed = vec![0; space];
        }
        let done = self.sealer.seal(&[bytes], &mut self.sealed).map_err(io::Error::other)?;
        debug_assert_eq!(done.plain, bytes.len(), "the space was enough");
        Ok(self.sealed.get(..done.sealed).unwrap_or_default())
    }

    /// Frees the memory of a large reply that a worker sent.
    fn shrink(&mut self) {
        if self.sealed.len() > Sealer::room_for(SEAL_BYTES) {
            self.sealed = Vec::new();
        }
    }
}

impl Receiver {
    /// Receives data and waits for it. Returns 0 at the end.
    ///
    /// # Errors
    /// The socket's. `Interrupted` also if the received records have no data. [`ReceiveFault::Record`] if the bytes are not a TLS record of
    /// this connection.
    pub(crate) fn receive(&mut self, transport: &Transport, space: &mut [u8]) -> Result<usize, ReceiveFault> {
        let mut stream = &transport.stream;
        let Some(incoming) = &mut self.0 else { return Ok(stream.read(space)?) };
        if let Some(bytes) = taken(incoming, space)? {
            return Ok(bytes);
        }
        if incoming.is_full() && incoming.size() < RECEIVE_BYTES_BUSY {
            incoming.resize((incoming.size() * 2).min(RECEIVE_BYTES_BUSY));
        }
        match stream.read(incoming.room())? {
            0 => return Ok(0),
            bytes => incoming.received(bytes),
        }
        // A peer may send records without data forever. The caller checks the time in between.
        taken(incoming, space)?.ok_or_else(|| io::Error::from(ErrorKind::Interrupted).into())
    }

    /// Size of its memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |incoming| incoming.size())
    }

    /// Whether it holds more memory than an idle connection needs.
    pub(crate) fn has_spare(&self) -> bool {
        self.size() > TLS_BYTES_IDLE
    }

    /// Frees the memory that an idle connection does not need.
    pub(crate) fn shrink(&mut self) {
        if let Some(incoming) = &mut self.0 {
            incoming.resize(TLS_BYTES_IDLE);
        }
    }

    /// Whether no received bytes are buffered here.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|incoming| incoming.is_empty())
    }

    /// The client has sent its close_notify.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.as_ref().is_some_and(|incoming| incoming.is_closed())
    }
}

/// Data of the records received so far. 0 after the last record, `None` until more is received.
fn taken(incoming: &mut Incoming<Vec<u8>>, space: &mut [u8]) -> Result<Option<usize>, RecordFault> {
    Ok(match incoming.take(space)? {
        Taken::Bytes(bytes) => Some(bytes),
        Taken::Closed => Some(0),
        Taken::None => None,
    })
}

/// Why a receive failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveFault {
    /// The socket failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// A received record cannot be decrypted.
    #[error(transparent)]
    Record(#[from] RecordFault),
}

/// How fast a peer receives.
#[derive(Default)]
struct SendRate {
    since: Option<Instant>, // set once the peer did not take all bytes of a write
    taken: usize,
}

impl SendRate {
    /// Counts bytes taken.
    ///
    /// # Errors
    /// `TimedOut` if the peer took less than [`SEND_BYTES_MIN`] in a [`SEND_TIMEOUT`].
    fn took(&mut self, bytes: usize, now: Instant) -> io::Result<()> {
        // How long the peer took for the bytes before the first check is unknown.
        let Some(since) = self.since else {
            self.since = Some(now);
            return Ok(());
        };
        self.taken += bytes;
        if now.saturating_duration_since(since) < SEND_TIMEOUT {
            return Ok(());
        }
        if self.taken < SEND_BYTES_MIN {
            return Err(ErrorKind::TimedOut.into());
        }
        *self = Self { since: Some(now), taken: 0 };
        Ok(())
    }
}

/// The socket during a handshake, with a deadline.
struct HandshakeWire<'s> {
    transport: &'s Transport,
    deadline: Instant,
}

impl Wire for HandshakeWire<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        // A few KiB, into an empty socket buffer.
        (&self.transport.stream).write_all(bytes)?;
        self.transport.note_written(bytes.len());
        Ok(())
    }

    fn receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.transport.stream.set_read_timeout(Some(left))?;
        (&self.transport.stream).read(space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_takes_little_in_a_minute_is_given_up_and_one_that_takes_enough_is_not() {
        let begun = Instant::now();
        let minute = |nth: u32| begun + SEND_TIMEOUT * nth;
        let mut rate = SendRate::default();
        assert!(rate.took(4 << 20, minute(0)).is_ok(), "how long these bytes took is unknown");
        assert!(rate.took(SEND_BYTES_MIN / 2, begun + SEND_TIMEOUT / 2).is_ok());
        assert!(rate.took(SEND_BYTES_MIN / 2, minute(1)).is_ok());
        assert!(rate.took(2 * SEND_BYTES_MIN, minute(2)).is_ok());
        let error = rate.took(SEND_BYTES_MIN - 1, minute(3)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "the bytes of an earlier minute do not count");
    }
}
