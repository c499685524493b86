//! What the thread of a connection and the workers share: the sending side, and how much waits there.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Totals;
use super::transport::Transport;
use crate::limits::{SLOW_BYTES_MAX, SLOW_BYTES_PER_CONNECTION_MAX, SLOW_REQUESTS_PER_CONNECTION_MAX, STACK_BYTES};
use crate::sys;

/// What a protocol does to bytes at the moment that fixes the order in which they leave, as to number them. Called with the sending
/// side held: it must not wait. The bytes may become more or fewer.
pub(crate) trait Stamp: Send {
    /// Bytes that were handed over together.
    fn stamp(&mut self, bytes: &mut Vec<u8>);
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(super) transport: Transport,
    outbox: Mutex<Outbox>,
    sent: Condvar,
    slow_requests: AtomicUsize, // waiting for or running on a worker, or their replies wait for the peer
    slow_bytes: AtomicUsize,    // of these requests and replies
    active_s: AtomicU32,        // second of the last turn with a request, 0 when there was none
}

/// Memory reserved for a slow request and its reply, from when it is handed over until its reply has left.
pub(crate) struct Reservation {
    connection: Arc<Connection>,
    totals: Arc<Totals>,
    bytes: usize,
}

impl Reservation {
    /// None when the connection, or all together, have reserved as much as they may.
    pub(super) fn new(connection: &Arc<Connection>, totals: &Arc<Totals>, bytes: usize) -> Option<Self> {
        let requests = connection.slow_requests.fetch_add(1, Ordering::AcqRel) + 1;
        let own = connection.slow_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let total = totals.slow_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let reservation = Self { connection: Arc::clone(connection), totals: Arc::clone(totals), bytes };
        let fits =
            requests <= SLOW_REQUESTS_PER_CONNECTION_MAX && own <= SLOW_BYTES_PER_CONNECTION_MAX && total <= SLOW_BYTES_MAX;
        fits.then_some(reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.totals.slow_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.connection.slow_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.connection.slow_requests.fetch_sub(1, Ordering::Release);
    }
}

#[derive(Default)]
struct Outbox {
    pending: Vec<u8>,               // replies of workers, while another thread sends
    reservations: Vec<Reservation>, // theirs
    sending: bool,                  // a thread owns the sending side of the socket
    waiting: bool,                  // the connection's own thread waits for it
    broken: bool,                   // a send failed: the connection is of no use any more
    stamp: Option<Box<dyn Stamp>>,
}

impl Outbox {
    fn stamp(&mut self, bytes: &mut Vec<u8>) {
        if let Some(stamp) = &mut self.stamp {
            stamp.stamp(bytes);
        }
    }
}

impl Connection {
    /// Sets the socket up.
    ///
    /// # Errors
    /// The socket's, when the peer is gone already.
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        let transport = Transport::new(stream)?;
        let (outbox, sent, slow_requests, slow_bytes, active_s) = Default::default();
        Ok(Self { peer, transport, outbox, sent, slow_requests, slow_bytes, active_s })
    }

    /// Ends it now, replies under way included.
    pub(crate) fn drop_now(&self) {
        self.transport.shutdown(Shutdown::Both);
    }

    /// Ends it after a handler panicked: our fault.
    pub(crate) fn drop_after_panic(&self) {
        tracing::error!(peer = %self.peer, "a handler panicked: connection closed");
        self.drop_now();
    }

    /// Ends it so that the peer sees a reset, as soon as nobody here works for it any more. No reply leaves from now on.
    pub(crate) fn reset(&self) {
        self.outbox().broken = true;
        self.transport.reset_on_close();
        // Wakes the thread of the connection and, unlike the end of the sending side, sends the peer nothing.
        self.transport.shutdown(Shutdown::Read);
    }

    /// Receives no further requests; those under way are still answered.
    pub(crate) fn finish(&self) {
        self.transport.shutdown(Shutdown::Read);
    }

    /// Has everything that is sent from now on stamped.
    pub(crate) fn stamp_with(&self, stamp: Box<dyn Stamp>) {
        self.outbox().stamp = Some(stamp);
    }

    /// Sends from the connection's own thread, which may wait for the peer.
    pub(super) fn send(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut outbox = self.outbox();
        while outbox.sending {
            outbox.waiting = true;
            outbox = self.sent.wait(outbox).unwrap_or_else(PoisonError::into_inner);
        }
        outbox.waiting = false;
        if outbox.broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        outbox.stamp(bytes);
        outbox.sending = true;
        drop(outbox);
        let result = if bytes.is_empty() { Ok(()) } else { self.transport.send_all(bytes) };
        self.send_pending(result)
    }

    /// Sends from any thread, which never waits for the peer: what the socket does not take is left to a thread of its own.
    /// What is queued leaves in that order and whole. The reservations end when the bytes have left.
    pub(crate) fn queue(self: &Arc<Self>, bytes: &mut Vec<u8>, reservations: Vec<Reservation>) {
        let mut outbox = self.outbox();
        outbox.stamp(bytes);
        if outbox.broken || bytes.is_empty() {
            return;
        }
        if outbox.sending {
            outbox.pending.extend_from_slice(bytes);
            outbox.reservations.extend(reservations);
            return;
        }
        outbox.sending = true;
        drop(outbox);
        let rest = match self.transport.send_now(bytes) {
            Ok(rest) => rest,
            Err(error) => {
                let _ = self.send_pending(Err(error));
                return;
            }
        };
        if rest.is_empty() {
            // What others queued meanwhile is a few small replies; the socket had room a moment ago.
            let _ = self.send_pending(Ok(()));
            return;
        }
        let connection = Arc::clone(self);
        let flush = move || {
            let result = connection.transport.send_rest(&rest);
            drop(reservations);
            let _ = connection.send_pending(result);
        };
        if std::thread::Builder::new().name("flush".into()).stack_size(STACK_BYTES).spawn(flush).is_err() {
            let _ = self.send_pending(Err(ErrorKind::OutOfMemory.into()));
        }
    }

    /// Sends what workers left while this thread was sending, then gives the sending side up.
    fn send_pending(&self, mut result: io::Result<()>) -> io::Result<()> {
        loop {
            let mut outbox = self.outbox();
            if result.is_err() {
                outbox.broken = true;
                outbox.pending = Vec::new();
                outbox.reservations = Vec::new();
                self.drop_now();
            }
            if outbox.pending.is_empty() {
                outbox.sending = false;
                let waiting = outbox.waiting;
                drop(outbox);
                // A wake-up is a system call even when nobody sleeps.
                if waiting {
                    self.sent.notify_one();
                }
                return result;
            }
            let pending = std::mem::take(&mut outbox.pending);
            let reservations = std::mem::take(&mut outbox.reservations);
            drop(outbox);
            result = self.transport.send_all(&pending);
            drop(reservations);
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of ours that the peer reached.
    pub(crate) fn local(&self) -> Option<std::net::SocketAddr> {
        self.transport.local()
    }

    /// Address of the client, without port.
    pub(crate) fn client(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Notes that a request has come.
    pub(super) fn note_activity(&self) {
        self.active_s.store(sys::coarse_seconds(), Ordering::Relaxed);
    }

    /// Second of its last request; 0 when there was none.
    pub(super) fn active_s(&self) -> u32 {
        self.active_s.load(Ordering::Relaxed)
    }

    /// Slow requests that are not answered yet.
    pub(super) fn slow_requests(&self) -> usize {
        self.slow_requests.load(Ordering::Acquire)
    }
}
