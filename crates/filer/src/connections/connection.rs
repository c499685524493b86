//! The part of a connection that its own thread and the workers share: the sending side, and bounds on what waits there.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};

use host::Unpoisoned;

use super::Totals;
use super::delivery::{Delivery, Receiving, SentMark, SentMarks};
use super::transport::Transport;
use crate::limits::{SLOW_BYTES_MAX, SLOW_BYTES_PER_CONNECTION_MAX, SLOW_REQUESTS_PER_CONNECTION_MAX, STACK_BYTES};
use crate::sys;

/// Changes bytes at the moment that fixes the order in which they leave, for example to number them. The caller holds the sending
/// side, so this must not wait. The number of bytes may change.
pub(crate) trait Stamp: Send {
    /// Changes bytes that leave together.
    fn stamp(&mut self, bytes: &mut Vec<u8>);
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(super) transport: Transport,
    outbox: Mutex<Outbox>,
    sent: Condvar,
    slow_requests: AtomicUsize, // those that wait for a worker, that run on one, or whose replies wait for the peer
    slow_bytes: AtomicUsize,    // of these requests and replies
    slow_of_client: OnceLock<Arc<AtomicUsize>>, // `slow_bytes` of all connections of the client
    delivery: OnceLock<Delivery>, // set when it is first asked for
    active_s: AtomicU32,        // second of the last turn with a request; 0 before the first one
    serving: AtomicBool,        // the connection's own thread executes a request
    is_known: AtomicBool,       // an export rule names the client, or the initiator has logged in
}

/// Memory reserved for a slow request and its reply, from when it is handed over until its reply has left.
pub(crate) struct Reservation {
    connection: Arc<Connection>,
    totals: Arc<Totals>,
    bytes: usize,
}

impl Reservation {
    /// `None` if the connection, or all connections together, have reserved as much as the limit allows. `None` also if the client has
    /// reserved as much as is left. So a client that receives no replies leaves room for others.
    pub(super) fn new(connection: &Arc<Connection>, totals: &Arc<Totals>, bytes: usize) -> Option<Self> {
        let requests = connection.slow_requests.fetch_add(1, Ordering::AcqRel) + 1;
        let own = connection.slow_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let total = totals.slow_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let client = connection.slow_of_client(totals).fetch_add(bytes, Ordering::AcqRel) + bytes;
        let reservation = Self { connection: Arc::clone(connection), totals: Arc::clone(totals), bytes };
        let is_own = requests <= SLOW_REQUESTS_PER_CONNECTION_MAX && own <= SLOW_BYTES_PER_CONNECTION_MAX;
        let fits = is_own && total + client <= SLOW_BYTES_MAX;
        fits.then_some(reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.connection.slow_of_client(&self.totals).fetch_sub(self.bytes, Ordering::AcqRel);
        self.totals.slow_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.connection.slow_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.connection.slow_requests.fetch_sub(1, Ordering::Release);
    }
}

#[derive(Default)]
struct Outbox {
    pending: Vec<u8>,               // replies of workers, while another thread sends
    reservations: Vec<Reservation>, // those of `pending`
    marks: SentMarks,               // of replies in `pending` whose delivery may be asked for
    sending: bool,                  // a thread owns the sending side of the socket
    waiting: bool,                  // the connection's own thread waits for it
    broken: bool,                   // a send failed: nothing more is sent
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
    /// Configures the socket.
    ///
    /// # Errors
    /// The socket's, for example because the peer has closed it.
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        let transport = Transport::new(stream)?;
        let (outbox, sent, slow_requests, slow_bytes, slow_of_client) = Default::default();
        let (delivery, active_s, serving, is_known) = Default::default();
        Ok(Self {
            peer,
            transport,
            outbox,
            sent,
            slow_requests,
            slow_bytes,
            slow_of_client,
            delivery,
            active_s,
            serving,
            is_known,
        })
    }

    fn slow_of_client(&self, totals: &Totals) -> &AtomicUsize {
        self.slow_of_client.get_or_init(|| totals.slow_shares.of(self.client()))
    }

    /// Closes the connection at once. Replies that have not left are dropped.
    pub(crate) fn drop_now(&self) {
        self.transport.shutdown(Shutdown::Both);
    }

    /// Closes the connection after a handler panicked.
    pub(crate) fn drop_after_panic(&self) {
        tracing::error!(peer = %self.peer, "a handler panicked: connection closed");
        self.drop_now();
    }

    /// Closes the connection with a TCP reset once no thread uses it any more. No reply leaves from now on.
    pub(crate) fn reset(&self) {
        self.outbox.lock().unpoisoned().broken = true;
        self.transport.reset_on_close();
        // This wakes the connection's thread. Unlike a shutdown of the sending side, it sends the peer nothing.
        self.transport.shutdown(Shutdown::Read);
    }

    /// Receives no further requests. Requests in progress are still answered.
    pub(crate) fn finish(&self) {
        self.transport.shutdown(Shutdown::Read);
    }

    /// Applies `stamp` to everything that is sent from now on.
    pub(crate) fn stamp_with(&self, stamp: Box<dyn Stamp>) {
        self.outbox.lock().unpoisoned().stamp = Some(stamp);
    }

    /// A reference to the connection, by which the filer asks later whether the peer has received a reply.
    pub(crate) fn delivery(self: &Arc<Self>) -> Delivery {
        self.delivery.get_or_init(|| Delivery::new(Arc::downgrade(self) as Weak<dyn Receiving>)).clone()
    }

    /// Whether a [`Delivery`] exists and the peer has not acknowledged all bytes yet.
    pub(crate) fn awaits_acknowledgement(&self) -> bool {
        self.delivery.get().is_some_and(Delivery::is_referred_to) && self.acknowledged() < self.transport.written()
    }

    /// Sends from the connection's own thread, which may wait for the peer. `marks` belong to replies in `bytes`.
    pub(super) fn send(&self, bytes: &mut Vec<u8>, marks: &[SentMark]) -> io::Result<()> {
        let mut outbox = self.outbox.lock().unpoisoned();
        while outbox.sending {
            outbox.waiting = true;
            outbox = self.sent.wait(outbox).unpoisoned();
        }
        outbox.waiting = false;
        if outbox.broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        outbox.stamp(bytes);
        outbox.sending = true;
        drop(outbox);
        let result = if bytes.is_empty() { Ok(()) } else { self.transport.send_all(bytes, marks) };
        self.send_pending(result)
    }

    /// Sends from any thread and never waits for the peer: a new thread sends the bytes that the socket does not take. Replies leave
    /// whole and in the order of the calls of this function. The reservations end when the bytes have left.
    pub(crate) fn queue(self: &Arc<Self>, bytes: &mut Vec<u8>, reservations: Vec<Reservation>) {
        self.queue_marked(bytes, reservations, SentMarks::new());
    }

    /// As [`Self::queue`]. `marks` belong to replies in `bytes` whose delivery the filer may ask for later.
    pub(crate) fn queue_marked(self: &Arc<Self>, bytes: &mut Vec<u8>, mut reservations: Vec<Reservation>, mut marks: SentMarks) {
        let mut outbox = self.outbox.lock().unpoisoned();
        outbox.stamp(bytes);
        if outbox.broken || bytes.is_empty() {
            return;
        }
        if outbox.sending {
            outbox.pending.extend_from_slice(bytes);
            outbox.reservations.extend(reservations);
            outbox.marks.extend(marks);
            return;
        }
        outbox.sending = true;
        drop(outbox);
        let mut next: Vec<u8>;
        let mut bytes: &[u8] = bytes;
        loop {
            match self.transport.send_now(bytes, &marks) {
                Ok(rest) if rest.is_empty() => {}
                Ok(rest) => return self.flush_aside(rest, reservations),
                Err(error) => {
                    let _ = self.send_pending(Err(error));
                    return;
                }
            }
            drop(reservations);
            // Other threads may have queued more meanwhile, and the socket may have no room for it.
            let Some(pending) = self.take_pending() else { return };
            (next, reservations, marks) = pending;
            bytes = &next;
        }
    }

    /// Starts a thread that waits for the peer. It sends the rest of a reply, and then what was queued meanwhile.
    fn flush_aside(self: &Arc<Self>, rest: Vec<u8>, reservations: Vec<Reservation>) {
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

    /// Sends the replies that workers queued while this thread was sending, then releases the sending side. Waits for the peer.
    fn send_pending(&self, mut result: io::Result<()>) -> io::Result<()> {
        loop {
            if result.is_err() {
                let mut outbox = self.outbox.lock().unpoisoned();
                outbox.broken = true;
                (outbox.pending, outbox.reservations, outbox.marks) = Default::default();
                self.drop_now();
            }
            let Some((pending, reservations, marks)) = self.take_pending() else { return result };
            result = self.transport.send_all(&pending, &marks);
            drop(reservations);
        }
    }

    /// Takes what was queued while this thread was sending. If the queue is empty, releases the sending side and returns `None`.
    fn take_pending(&self) -> Option<(Vec<u8>, Vec<Reservation>, SentMarks)> {
        let mut outbox = self.outbox.lock().unpoisoned();
        if !outbox.pending.is_empty() {
            let Outbox { pending, reservations, marks, .. } = &mut *outbox;
            return Some((std::mem::take(pending), std::mem::take(reservations), std::mem::take(marks)));
        }
        outbox.sending = false;
        let waiting = outbox.waiting;
        drop(outbox);
        // A wake-up is a system call even when no thread sleeps.
        if waiting {
            self.sent.notify_one();
        }
        None
    }

    /// Whether many replies of other threads wait for the peer.
    pub(super) fn has_backlog(&self) -> bool {
        self.outbox.lock().unpoisoned().pending.len() > SLOW_BYTES_PER_CONNECTION_MAX
    }

    /// The local address that the peer connected to.
    pub(crate) fn local(&self) -> Option<std::net::SocketAddr> {
        self.transport.local()
    }

    /// The client's address, without the port.
    pub(crate) fn client(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// The socket, to wait on.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.transport.socket()
    }

    /// Whether the client is known: an export rule names it, or the initiator has logged in.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Sets whether the client is known.
    pub(crate) fn set_known(&self, is_known: bool) {
        self.is_known.store(is_known, Ordering::Relaxed);
    }

    /// Notes that a request was received.
    pub(super) fn note_activity(&self) {
        self.active_s.store(sys::coarse_seconds(), Ordering::Relaxed);
    }

    /// Notes whether the connection's own thread executes a request. Waiting for the peer does not count.
    pub(super) fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Ordering::Relaxed);
    }

    /// Second of the last request. The current second while the thread executes a request. 0 before the first request.
    pub(super) fn active_s(&self) -> u32 {
        if self.serving.load(Ordering::Relaxed) { sys::coarse_seconds() } else { self.active_s.load(Ordering::Relaxed) }
    }

    /// Number of slow requests that are not answered yet.
    pub(crate) fn slow_requests(&self) -> usize {
        self.slow_requests.load(Ordering::Acquire)
    }
}

impl Receiving for Connection {
    fn acknowledged(&self) -> u64 {
        self.transport.acknowledged()
    }

    fn queue_copy(self: Arc<Self>, reply: &[u8], mark: SentMark) {
        self.queue_marked(&mut reply.to_vec(), Vec::new(), smallvec::smallvec![mark]);
    }

    fn drop_now(&self) {
        Self::drop_now(self);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A holder of a `Delivery` may ask later how much arrived, and the socket is closed next.
        if let Some(delivery) = self.delivery.get().filter(|delivery| delivery.is_referred_to()) {
            delivery.end(self.acknowledged());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A connection over loopback, and the client's end of it.
    pub(crate) fn connected() -> (Arc<Connection>, TcpStream) {
        connected_as([127, 0, 0, 1])
    }

    /// A connection whose client has this address as far as the filer knows, and the client's end of it.
    pub(crate) fn connected_as(client: [u8; 4]) -> (Arc<Connection>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        (Arc::new(Connection::new(stream, (client, 700).into()).unwrap()), peer)
    }

    #[test]
    fn a_client_that_receives_no_replies_leaves_memory_for_slow_calls_of_others() {
        const TRANSFER: usize = 1 << 20;
        let totals = Arc::default();
        let reserved_by = |connection: &Arc<Connection>| -> Vec<Reservation> {
            std::iter::from_fn(|| Reservation::new(connection, &totals, TRANSFER)).collect()
        };
        let noisy: Vec<_> = (0..20).map(|_| connected_as([10, 0, 0, 1])).collect();
        let held: Vec<Reservation> = noisy.iter().flat_map(|(connection, _)| reserved_by(connection)).collect();
        assert_eq!(held.len() * TRANSFER, SLOW_BYTES_MAX / 2);
        let other = connected_as([10, 0, 0, 2]);
        assert_eq!(reserved_by(&other.0).len() * TRANSFER, SLOW_BYTES_PER_CONNECTION_MAX);
        drop(held);
        assert_eq!(totals.slow_bytes.load(Ordering::Relaxed), 0);
        assert_eq!(reserved_by(&noisy[0].0).len() * TRANSFER, SLOW_BYTES_PER_CONNECTION_MAX);
    }

    #[test]
    fn a_connection_that_executes_a_long_call_is_not_idle() {
        let (connection, _peer) = connected();
        assert_eq!(connection.active_s(), 0);
        connection.set_serving(true);
        assert!(connection.active_s() > 0, "active now, whenever the call began");
        connection.set_serving(false);
        assert_eq!(connection.active_s(), 0);
    }
}
