//! One connection: receives, serves what is quick, hands what is slow to the workers, sends replies.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::dispatch::{self, Call, Served};
use crate::filer::Filer;
use crate::limits::{
    BUFFER_BYTES_KEPT, BUFFER_IDLE, KEEPALIVE_IDLE, REPLY_BYTES_GATHERED, REPLY_BYTES_QUIET, SEND_TIMEOUT,
    SLOW_CALLS_PER_CONNECTION_MAX, SMALL_TURNS,
};
use crate::session::Session;
use crate::sys;
use crate::workers::{Job, Workers};

/// What the thread of a connection and the workers share.
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    stream: TcpStream,
    outbox: Mutex<Outbox>,
    sent: Condvar,
    slow_calls: AtomicUsize, // waiting for or running on a worker
}

#[derive(Default)]
struct Outbox {
    pending: Vec<u8>, // replies of workers, while another thread sends
    sending: bool,    // a thread owns the sending side of the socket
    waiting: bool,    // the connection's own thread wants it next
    broken: bool,     // a send failed: the connection is of no use any more
}

impl Connection {
    /// Sets the socket up.
    ///
    /// # Errors
    /// The socket's, when the peer is gone already.
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        sys::keep_alive(&stream, KEEPALIVE_IDLE)?;
        Ok(Self { peer, stream, outbox: Mutex::default(), sent: Condvar::new(), slow_calls: AtomicUsize::new(0) })
    }

    /// Address of the client, without port; an IPv4 address in IPv6 clothes is the same client.
    pub(crate) fn client(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Ends it now, replies under way included.
    pub(crate) fn drop_now(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Takes no further calls; those under way are still answered.
    pub(crate) fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Sends from the connection's own thread, which may wait for the peer.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut outbox = self.outbox();
        while outbox.sending {
            outbox.waiting = true;
            outbox = self.sent.wait(outbox).unwrap_or_else(PoisonError::into_inner);
        }
        outbox.waiting = false;
        if outbox.broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        outbox.sending = true;
        drop(outbox);
        let result = (&self.stream).write_all(bytes);
        self.send_pending(result)
    }

    /// Sends from a worker, which never waits for a peer: what the socket does not take is left to a thread of its own.
    pub(crate) fn queue(self: &Arc<Self>, bytes: &[u8]) {
        let mut outbox = self.outbox();
        if outbox.broken {
            return;
        }
        if outbox.sending {
            outbox.pending.extend_from_slice(bytes);
            return;
        }
        outbox.sending = true;
        drop(outbox);
        let left = match sys::send_now(&self.stream, bytes) {
            Ok(sent) => bytes.get(sent..).unwrap_or_default(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => bytes,
            Err(error) => {
                let _ = self.send_pending(Err(error));
                return;
            }
        };
        if left.is_empty() {
            // What others queued meanwhile is a few small replies; the socket had room a moment ago.
            let _ = self.send_pending(Ok(()));
            return;
        }
        let (connection, rest) = (Arc::clone(self), left.to_vec());
        let flush = move || {
            let result = (&connection.stream).write_all(&rest);
            let _ = connection.send_pending(result);
        };
        if std::thread::Builder::new().name("flush".into()).stack_size(crate::limits::STACK_BYTES).spawn(flush).is_err() {
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
            drop(outbox);
            result = (&self.stream).write_all(&pending);
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker has answered a slow call.
    pub(crate) fn slow_call_done(&self) {
        self.slow_calls.fetch_sub(1, Ordering::Release);
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The peer closed it, or the filer stops.
    #[error("closed")]
    Closed,
    /// The socket failed.
    #[error("transfer with the peer")]
    Socket(#[from] io::Error),
    /// What came is no RPC.
    #[error("read a call: {0}")]
    Framing(#[from] nfs_proto::record::RecordError),
    /// A record that is no call.
    #[error("read a call: the record is none")]
    NotACall,
    /// A handler panicked: our fault.
    #[error("serve a call: panic")]
    Panic,
}

/// Serves a connection until it ends.
pub(crate) fn run(connection: &Arc<Connection>, filer: &Arc<Filer>, workers: &Workers) -> Ended {
    match drive(connection, filer, workers) {
        Ok(()) => Ended::Closed,
        Err(ended) => {
            if !matches!(ended, Ended::Socket(_)) {
                connection.drop_now();
            }
            ended
        }
    }
}

fn drive(connection: &Arc<Connection>, filer: &Arc<Filer>, workers: &Workers) -> Result<(), Ended> {
    let mut buffers = Buffers { filer, session: Session::default(), out: Vec::new(), small_turns: 0, counted: 0 };
    loop {
        if buffers.spare() && !sys::readable_within(&connection.stream, BUFFER_IDLE) {
            buffers.shrink();
        }
        let received = match (&connection.stream).read(buffers.session.room()) {
            Ok(0) => return Ok(()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        buffers.session.received(received);
        let Buffers { session, out, .. } = &mut buffers;
        let served = catch_unwind(AssertUnwindSafe(|| serve_received(connection, filer, workers, session, out)));
        served.map_err(|_| Ended::Panic)??;
        buffers.turn_over();
    }
}

/// The two buffers of a connection, counted into those of all.
struct Buffers<'a> {
    filer: &'a Filer,
    session: Session,
    out: Vec<u8>,
    small_turns: u32, // in a row that a small reply buffer would have done
    counted: usize,   // bytes of ours in `Filer::buffer_bytes`
}

impl Buffers<'_> {
    /// Whether there is anything to give back.
    fn spare(&self) -> bool {
        self.session.holds_spare() || self.out.capacity() > REPLY_BYTES_QUIET
    }

    fn shrink(&mut self) {
        self.session.shrink();
        self.out = Vec::new();
        self.count(self.session.size());
    }

    /// After a turn: gives back what was not needed for long, or at once when all connections together hold much.
    fn turn_over(&mut self) {
        self.small_turns = if self.out.len() > REPLY_BYTES_QUIET { 0 } else { self.small_turns.saturating_add(1) };
        let total = self.count(self.session.size() + self.out.capacity());
        let crowded = total > BUFFER_BYTES_KEPT;
        if self.session.holds_spare() && (crowded || self.session.small_turns() >= SMALL_TURNS) {
            self.session.shrink();
        }
        if self.out.capacity() > REPLY_BYTES_QUIET && (crowded || self.small_turns >= SMALL_TURNS) {
            self.out = Vec::new();
        }
        self.count(self.session.size() + self.out.capacity());
    }

    /// Counts ours as `bytes`; the bytes of all.
    fn count(&mut self, bytes: usize) -> usize {
        let all = &self.filer.buffer_bytes;
        if bytes != self.counted {
            all.fetch_add(bytes, Ordering::Relaxed);
            all.fetch_sub(self.counted, Ordering::Relaxed);
            self.counted = bytes;
        }
        all.load(Ordering::Relaxed)
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// Serves every whole call in the buffer and sends the replies together.
fn serve_received(
    connection: &Arc<Connection>,
    filer: &Arc<Filer>,
    workers: &Workers,
    session: &mut Session,
    out: &mut Vec<u8>,
) -> Result<(), Ended> {
    let client = connection.client();
    out.clear();
    while let Some(record) = session.next_record()? {
        let call = Call::parse(record.bytes).ok_or(Ended::NotACall)?;
        if !(call.is_slow() && handed_over(connection, workers, record.bytes, record.more)) {
            // What is ready goes out before a call that waits for the medium.
            if !out.is_empty() && call.is_slow() {
                connection.send(out)?;
                out.clear();
            }
            let before = out.len();
            match dispatch::serve_call(filer, client, &call, out) {
                Served::Answered => {}
                Served::Due(due) => {
                    let held = out.split_off(before);
                    // Holding may wait for room: what is ready does not.
                    if !out.is_empty() {
                        connection.send(out)?;
                        out.clear();
                    }
                    workers.hold(connection, due, held);
                }
                Served::Close => return Err(Ended::NotACall),
            }
        }
        if out.len() >= REPLY_BYTES_GATHERED {
            connection.send(out)?;
            out.clear();
        }
    }
    if !out.is_empty() {
        connection.send(out)?;
    }
    Ok(())
}

/// Gives a slow call to a worker if there is anything to overlap it with: a call behind it, or one already with a worker.
/// A lone call is quicker on the thread that has it.
fn handed_over(connection: &Arc<Connection>, workers: &Workers, record: &[u8], more: bool) -> bool {
    let under_way = connection.slow_calls.load(Ordering::Acquire);
    if (!more && under_way == 0) || under_way >= SLOW_CALLS_PER_CONNECTION_MAX {
        return false;
    }
    connection.slow_calls.fetch_add(1, Ordering::Relaxed);
    let taken = workers.submit(Job { connection: Arc::clone(connection), record: record.to_vec() });
    if !taken {
        connection.slow_call_done();
    }
    taken
}
