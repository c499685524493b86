//! The socket of a connection and, after a handshake, TLS over it.
//!
//! Receiving belongs to the connection's own thread ([`Receiver`]), sending to the thread that owns the sending side: records are
//! encrypted by it, in the order in which they leave.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rpc_tls::{Incoming, RecordFault, Sealer, ServerTls, Taken, TlsFault, Wire};

use crate::limits::{
    HANDSHAKE_TIMEOUT, KEEPALIVE_IDLE, RECEIVE_BYTES_BUSY, SEAL_BYTES, SEND_BYTES_MIN, SEND_TIMEOUT, TLS_BYTES_IDLE,
};
use crate::sys;

/// The sending half, and what ends a connection.
pub(crate) struct Transport {
    stream: TcpStream,
    sealing: OnceLock<Mutex<Sealing>>, // locked by the holder of the sending side only
}

struct Sealing {
    sealer: Sealer,
    sealed: Vec<u8>, // records on their way
}

/// The receiving half.
#[derive(Default)]
pub(crate) struct Receiver(Option<Box<Incoming<Vec<u8>>>>);

impl Transport {
    /// Sets the socket up.
    ///
    /// # Errors
    /// The socket's, when the peer is gone already.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        sys::keep_alive(&stream, KEEPALIVE_IDLE)?;
        Ok(Self { stream, sealing: OnceLock::new() })
    }

    /// The address of ours.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// Ends sending, receiving, or both.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        let _ = self.stream.shutdown(how);
    }

    /// Has the peer see a reset when the socket is closed.
    pub(crate) fn reset_on_close(&self) {
        let _ = sys::reset_on_close(&self.stream);
    }

    /// Has receives end with `WouldBlock` when nothing comes for so long, or never; whether they do now.
    pub(crate) fn set_receive_timeout(&self, limit: Option<Duration>) -> bool {
        self.stream.set_read_timeout(limit).is_ok() && limit.is_some()
    }

    /// Gives back the memory for encrypted records, unless it is in use.
    pub(crate) fn shrink_idle(&self) {
        if let Some(Ok(mut sealing)) = self.sealing.get().map(Mutex::try_lock) {
            sealing.sealed = Vec::new();
        }
    }

    /// The TLS handshake as the server; whether the client showed a certificate that is trusted. Nobody else may send meanwhile.
    /// Leaves a time limit on receives.
    ///
    /// # Errors
    /// [`TlsFault`]: the connection is of no use any more.
    // Not inlined: its large frame would cost the stack of every connection a page, TLS or not.
    #[inline(never)]
    pub(crate) fn tls_handshake(&self, tls: &ServerTls, receiver: &mut Receiver) -> Result<bool, TlsFault> {
        let session = tls.handshake(&mut HandshakeWire { stream: &self.stream, deadline: Instant::now() + HANDSHAKE_TIMEOUT })?;
        let memory = vec![0; TLS_BYTES_IDLE.max(session.early.len())];
        receiver.0 = Some(Box::new(Incoming::new(session.opener, memory, &session.early)));
        let sealing = Sealing { sealer: session.sealer, sealed: Vec::new() };
        if self.sealing.set(Mutex::new(sealing)).is_err() {
            return Err(TlsFault::Unexpected("TLS within TLS"));
        }
        Ok(session.certified)
    }

    /// Sends all of it, or fails when the peer takes less than [`SEND_BYTES_MIN`] in a [`SEND_TIMEOUT`]: one that takes a byte
    /// now and then would hold a thread and its replies as one that takes none. Found within two of them.
    pub(crate) fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rate = SendRate::default();
        let Some(mut sealing) = self.sealing() else { return self.send_raw(bytes, &mut rate) };
        for (nth, part) in bytes.chunks(SEAL_BYTES).enumerate() {
            // A part before may have been taken at one go, and slowly.
            if nth > 0 {
                rate.took(SEAL_BYTES, Instant::now())?;
            }
            self.send_raw(sealing.seal(part)?, &mut rate)?;
        }
        Ok(())
    }

    /// Sends what the socket takes without waiting; what it did not take comes back as it is to be sent, sealed already.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let Some(mut sealing) = self.sealing() else { return self.send_raw_now(bytes) };
        let rest = self.send_raw_now(sealing.seal(bytes)?);
        sealing.shrink();
        rest
    }

    /// Sends what [`Self::send_now`] left.
    pub(crate) fn send_rest(&self, rest: &[u8]) -> io::Result<()> {
        self.send_raw(rest, &mut SendRate::default())
    }

    /// Answers the close_notify of a client. Of no consequence when it does not arrive.
    pub(crate) fn close_notify(&self) {
        if let Some(mut sealing) = self.sealing()
            && let Ok(alert) = sealing.sealer.close()
        {
            let _ = sys::send_now(&self.stream, &alert);
        }
    }

    fn send_raw(&self, mut bytes: &[u8], rate: &mut SendRate) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.stream).write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    bytes = bytes.get(sent..).unwrap_or_default();
                    // The clock is only looked at when a send did not take all: then the socket's own time limit has ended it.
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
            Ok(sent) => Ok(bytes.get(sent..).unwrap_or_default().to_vec()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(bytes.to_vec()),
            Err(error) => Err(error),
        }
    }

    fn sealing(&self) -> Option<MutexGuard<'_, Sealing>> {
        self.sealing.get().map(|sealing| sealing.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sealing {
    /// Seals all of it; the records stand in memory that is used again.
    fn seal(&mut self, bytes: &[u8]) -> io::Result<&[u8]> {
        let space = Sealer::room_for(bytes.len());
        if self.sealed.len() < space {
            self.sealed = vec![0; space];
        }
        let done = self.sealer.seal(&[bytes], &mut self.sealed).map_err(io::Error::other)?;
        debug_assert_eq!(done.plain, bytes.len(), "space for all of it");
        Ok(self.sealed.get(..done.sealed).unwrap_or_default())
    }

    /// Gives back the memory of a large reply that a worker sent.
    fn shrink(&mut self) {
        if self.sealed.len() > Sealer::room_for(SEAL_BYTES) {
            self.sealed = Vec::new();
        }
    }
}

impl Receiver {
    /// Receives data, waiting for it; 0 is the end.
    ///
    /// # Errors
    /// The socket's; `Interrupted` also when what came has no data yet; a peer's that sends what is no record of this connection.
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
        // Records without data may come for ever: the caller looks at the time in between.
        taken(incoming, space)?.ok_or_else(|| io::Error::from(ErrorKind::Interrupted).into())
    }

    /// Memory it holds, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |incoming| incoming.size())
    }

    /// Whether it holds more than a idle connection needs.
    pub(crate) fn has_spare(&self) -> bool {
        self.size() > TLS_BYTES_IDLE
    }

    /// Gives back what a idle connection does not need.
    pub(crate) fn shrink(&mut self) {
        if let Some(incoming) = &mut self.0 {
            incoming.resize(TLS_BYTES_IDLE);
        }
    }

    /// The client has sent its close_notify.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.as_ref().is_some_and(|incoming| incoming.is_closed())
    }
}

/// Data of records that are there, 0 behind the last; none before more is received.
fn taken(incoming: &mut Incoming<Vec<u8>>, space: &mut [u8]) -> Result<Option<usize>, RecordFault> {
    Ok(match incoming.take(space)? {
        Taken::Bytes(bytes) => Some(bytes),
        Taken::Closed => Some(0),
        Taken::None => None,
    })
}

/// Why nothing was received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveFault {
    /// The socket failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// What came cannot be opened.
    #[error(transparent)]
    Record(#[from] RecordFault),
}

/// How fast a peer receives.
#[derive(Default)]
struct SendRate {
    since: Option<Instant>, // once it did not take all at a time
    taken: usize,
}

impl SendRate {
    /// Counts bytes taken.
    ///
    /// # Errors
    /// `TimedOut` when a [`SEND_TIMEOUT`] has passed in which they were less than [`SEND_BYTES_MIN`].
    fn took(&mut self, bytes: usize, now: Instant) -> io::Result<()> {
        // What was taken before the first look took an unknown time.
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
    stream: &'s TcpStream,
    deadline: Instant,
}

impl Wire for HandshakeWire<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Some KiB, into a socket that is empty.
        (&mut &*self.stream).write_all(bytes)
    }

    fn receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(space)
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
        assert!(rate.took(4 << 20, minute(0)).is_ok(), "nobody knows how long it took over these");
        assert!(rate.took(SEND_BYTES_MIN / 2, begun + SEND_TIMEOUT / 2).is_ok());
        assert!(rate.took(SEND_BYTES_MIN / 2, minute(1)).is_ok());
        assert!(rate.took(2 * SEND_BYTES_MIN, minute(2)).is_ok());
        let error = rate.took(SEND_BYTES_MIN - 1, minute(3)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "what it took in an earlier minute is no credit");
    }
}
