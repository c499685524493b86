//! One connection: receives, serves what is quick, hands what is slow to the workers, sends replies.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use nfs_proto::channel1;
use nfs_proto::rpc::encode_starttls;
use rpc_tls::{RecordFault, TlsFault};

use crate::connections::buffers::Buffers;
use crate::connections::frame_timer::Progress;
use crate::connections::receive_buffer::Session;
use crate::connections::replies::Replies;
use crate::connections::transport::{ReceiveFault, Receiver, Transport};
use crate::connections::workers::{Job, Workers};
use crate::limits::{
    BUFFER_BYTES_MAX, BUFFER_IDLE, LONE_TURNS, REPLY_BYTES_GATHERED, SLOW_BYTES_MAX, SLOW_BYTES_PER_CONNECTION_MAX,
    SLOW_CALLS_PER_CONNECTION_MAX,
};
use crate::listener::ListenerRole;
use crate::nfs::channels::{self, Carried};
use crate::nfs::dispatch::{self, Call, Served};
use crate::nfs::exports::View;
use crate::nfs::filer::Filer;
use crate::nfs::policy::{Peer, Security};
use crate::sys;

/// What the thread of a connection and the workers share.
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    role: ListenerRole,
    transport: Transport,
    outbox: Mutex<Outbox>,
    sent: Condvar,
    slow_calls: AtomicUsize, // waiting for or running on a worker, or their replies wait for the peer
    slow_bytes: AtomicUsize, // of these calls and replies
    active_s: AtomicU32,     // second of the last turn with a call, 0 when there was none
    carried: OnceLock<Carried>,
    fenced: AtomicBool, // its client has ended it for good: no further call of it is carried out
}

/// What a slow call takes of the room there is, from being handed over until its reply has left.
pub(crate) struct Charge {
    connection: Arc<Connection>,
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Charge {
    /// None when the connection, or all together, keep as much as they may.
    pub(crate) fn take(connection: &Arc<Connection>, all: &Arc<AtomicUsize>, bytes: usize) -> Option<Self> {
        let calls = connection.slow_calls.fetch_add(1, Ordering::AcqRel) + 1;
        let own = connection.slow_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let total = all.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let charge = Self { connection: Arc::clone(connection), all: Arc::clone(all), bytes };
        let fits = calls <= SLOW_CALLS_PER_CONNECTION_MAX && own <= SLOW_BYTES_PER_CONNECTION_MAX && total <= SLOW_BYTES_MAX;
        fits.then_some(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::AcqRel);
        self.connection.slow_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.connection.slow_calls.fetch_sub(1, Ordering::Release);
    }
}

#[derive(Default)]
struct Outbox {
    pending: Vec<u8>,     // replies of workers, while another thread sends
    charges: Vec<Charge>, // theirs
    sending: bool,        // a thread owns the sending side of the socket
    waiting: bool,        // the connection's own thread wants it next
    broken: bool,         // a send failed: the connection is of no use any more
}

impl Connection {
    /// Sets the socket up.
    ///
    /// # Errors
    /// The socket's, when the peer is gone already.
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, role: ListenerRole) -> io::Result<Self> {
        let transport = Transport::new(stream)?;
        let (slow_calls, slow_bytes, carried, fenced) = Default::default();
        let (outbox, sent, active_s) = Default::default();
        Ok(Self { peer, role, transport, outbox, sent, slow_calls, slow_bytes, active_s, carried, fenced })
    }

    /// Ends it now, replies under way included.
    pub(crate) fn drop_now(&self) {
        self.transport.shutdown(Shutdown::Both);
    }

    /// Carries a channel from now on; false when it does already.
    pub(crate) fn carry(&self, carried: Carried) -> bool {
        self.carried.set(carried).is_ok()
    }

    /// Whether it carries this channel, in this generation.
    pub(crate) fn carries(&self, process: u64, channel: u64, generation: u32) -> bool {
        self.carried.get().is_some_and(|carried| carried.is(process, channel, generation))
    }

    /// Ends it for good: calls that have not begun are not carried out. Those that have go on, and hold it.
    pub(crate) fn fence(&self) {
        self.fenced.store(true, Ordering::SeqCst);
        self.drop_now();
    }

    /// Whether calls of it may not be begun any more.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst)
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
        // Wakes the thread of the connection and, unlike the end of the sending side, tells the peer nothing.
        self.transport.shutdown(Shutdown::Read);
    }

    /// Takes no further calls; those under way are still answered.
    pub(crate) fn finish(&self) {
        self.transport.shutdown(Shutdown::Read);
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
        let result = self.transport.send_all(bytes);
        self.send_pending(result)
    }

    /// Sends from a worker, which never waits for a peer: what the socket does not take is left to a thread of its own. The
    /// charges are given back when the bytes have left.
    pub(crate) fn queue(self: &Arc<Self>, bytes: &[u8], charges: Vec<Charge>) {
        let mut outbox = self.outbox();
        if outbox.broken {
            return;
        }
        if outbox.sending {
            outbox.pending.extend_from_slice(bytes);
            outbox.charges.extend(charges);
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
            drop(charges);
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
                outbox.charges = Vec::new();
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
            let charges = std::mem::take(&mut outbox.charges);
            drop(outbox);
            result = self.transport.send_all(&pending);
            drop(charges);
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Address of the client, without port.
    pub(crate) fn client(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Second of its last call; 0 when there was none.
    pub(crate) fn active_s(&self) -> u32 {
        self.active_s.load(Ordering::Relaxed)
    }

    /// Whether calls of it are under way beside it.
    pub(crate) fn is_busy(&self) -> bool {
        self.slow_calls() > 0
    }

    /// Slow calls that are not answered yet.
    fn slow_calls(&self) -> usize {
        self.slow_calls.load(Ordering::Acquire)
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
    /// A record was begun and does not come on.
    #[error("read a call: nothing more of the one that was begun")]
    Stalled,
    /// All connections together hold as much as they may.
    #[error("read a call: no memory to spare for one so large")]
    Crowded,
    /// Its client has ended it.
    #[error("fenced by its client")]
    Fenced,
    /// A fault on purpose.
    #[error("reset: a fault on purpose")]
    Reset,
    /// A handler panicked: our fault.
    #[error("serve a call: panic")]
    Panic,
    /// Bytes in the clear behind the question for TLS: they could be anybody's.
    #[error("start TLS: bytes in the clear behind the question for it")]
    Injected,
    /// Hands were not shaken.
    #[error("start TLS: {0}")]
    Tls(#[from] TlsFault),
    /// What came under TLS cannot be opened.
    #[error("receive under TLS: {0}")]
    Record(#[from] RecordFault),
}

impl From<ReceiveFault> for Ended {
    fn from(fault: ReceiveFault) -> Self {
        match fault {
            ReceiveFault::Socket(error) => Self::Socket(error),
            ReceiveFault::Record(fault) => Self::Record(fault),
        }
    }
}

/// Serves a connection until it ends.
pub(crate) fn run(connection: &Arc<Connection>, filer: &Arc<Filer>, workers: &Workers) -> Ended {
    match drive(connection, filer, workers) {
        Ok(()) => Ended::Closed,
        Err(ended) => {
            if !matches!(ended, Ended::Socket(_) | Ended::Reset) {
                connection.drop_now();
            }
            ended
        }
    }
}

fn drive(connection: &Arc<Connection>, filer: &Arc<Filer>, workers: &Workers) -> Result<(), Ended> {
    let mut view = filer.view(Peer::at(connection.peer, connection.role));
    let transport = &connection.transport;
    let mut buffers = Buffers::new(filer);
    let upgrade = if connection.role == ListenerRole::Nfs && filer.tls().is_some() { Upgrade::Possible } else { Upgrade::Over };
    let mut course = Course { lone_turns: 0, upgrade };
    let (mut watched, mut progress) = (false, Progress::default());
    loop {
        let partial = buffers.session.partial();
        if !progress.comes_on(partial, Instant::now) {
            return Err(Ended::Stalled);
        }
        // A receive that is watched comes back after a while of silence: whoever has something to give back, or waits for
        // the rest of a record, does not sleep for ever. One that is not costs no timer.
        if !watched && (partial.is_some() || buffers.spare()) {
            watched = transport.come_back_after(Some(BUFFER_IDLE));
        }
        let received = match buffers.receiver.receive(transport, buffers.session.room()) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(ReceiveFault::Socket(error)) if error.kind() == ErrorKind::Interrupted => continue,
            Err(ReceiveFault::Socket(error)) if error.kind() == ErrorKind::WouldBlock => {
                buffers.rest();
                transport.rest();
                watched = partial.is_some() || transport.come_back_after(None);
                continue;
            }
            Err(fault) => return Err(fault.into()),
        };
        buffers.session.received(received);
        filer.renew(&mut view);
        let Buffers { session, replies, .. } = &mut buffers;
        let served =
            catch_unwind(AssertUnwindSafe(|| serve_received(connection, filer, &view, workers, session, replies, &mut course)));
        let overlapped = served.map_err(|_| Ended::Panic)??;
        course.lone_turns = if overlapped { 0 } else { (course.lone_turns + 1).min(LONE_TURNS) };
        if course.upgrade == Upgrade::Asked {
            course.upgrade = Upgrade::Over;
            let shaken = catch_unwind(AssertUnwindSafe(|| shake_hands(connection, filer, &mut buffers.receiver)));
            view = filer.view(shaken.map_err(|_| Ended::Panic)??);
            watched = transport.come_back_after(None);
        }
        if buffers.turn_over() > BUFFER_BYTES_MAX && buffers.spare() {
            return Err(Ended::Crowded);
        }
        if overlapped {
            // Of a client that has many calls under way the next few are there already, and more while others have their turn:
            // the more a turn finds, the less each call costs. One that waits for each answer is never held up by this.
            std::thread::yield_now();
        }
    }
    // A reply still to come is worth more than the form.
    if buffers.receiver.is_closed() && connection.slow_calls() == 0 {
        transport.say_goodbye();
    }
    Ok(())
}

/// Goes over to TLS: the peer, as it is known then.
fn shake_hands(connection: &Connection, filer: &Filer, receiver: &mut Receiver) -> Result<Peer, Ended> {
    let Some(tls) = filer.tls() else { return Err(Ended::NotACall) };
    let certified = connection.transport.shake_hands(&tls, receiver)?;
    tracing::debug!(peer = %connection.peer, certified, "TLS");
    let security = if certified { Security::Certified } else { Security::Tls };
    Ok(Peer { security, ..Peer::at(connection.peer, connection.role) })
}

/// How a connection went so far.
struct Course {
    lone_turns: u32, // in a row without calls that overlap, up to LONE_TURNS
    upgrade: Upgrade,
}

impl Course {
    /// Whether this call asks for TLS while it can be had; `more`: something came behind it, which could only be injected.
    fn goes_over(&mut self, call: &Call<'_>, more: bool) -> Result<bool, Ended> {
        if self.upgrade != Upgrade::Possible {
            return Ok(false);
        }
        let asked = call.asks_for_tls();
        if asked && more {
            return Err(Ended::Injected);
        }
        if asked {
            self.upgrade = Upgrade::Asked;
        } else if !call.is_null() {
            self.upgrade = Upgrade::Over;
        }
        Ok(asked)
    }
}

/// Where a connection stands on its way to TLS (RFC 9289 4.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    /// Nothing but NULL was called: no reply in the clear can fall into a handshake.
    Possible,
    /// It was asked for, and the answer is that there is TLS.
    Asked,
    /// Not any more.
    Over,
}

/// Serves every whole call in the buffer and sends the replies together. True when calls overlapped: one came behind another,
/// or while a slow one ran.
fn serve_received(
    connection: &Arc<Connection>,
    filer: &Filer,
    view: &Arc<View>,
    workers: &Workers,
    session: &mut Session,
    replies: &mut Replies,
    course: &mut Course,
) -> Result<bool, Ended> {
    let lone = course.lone_turns >= LONE_TURNS; // no calls of this connection have overlapped for long
    let (mut overlapped, mut first) = (false, true);
    replies.out.clear();
    while let Some(record) = session.next_record()? {
        if connection.is_fenced() {
            return Err(Ended::Fenced);
        }
        let call = Call::parse(record.bytes).ok_or(Ended::NotACall)?;
        if course.goes_over(&call, record.more)? {
            encode_starttls(call.xid(), &mut replies.out);
            break;
        }
        if std::mem::take(&mut first) {
            connection.active_s.store(sys::coarse_seconds(), Ordering::Relaxed);
        }
        if let Some((head, arguments)) = call.of_program(channel1::PROGRAM).filter(|_| view.is_of_use()) {
            replies.send(|bytes| connection.send(bytes))?;
            let served = filer.channels.serve(connection, head, arguments, &mut replies.out);
            replies.send(|bytes| connection.send(bytes))?;
            if served == channels::Served::Last {
                return Err(Ended::Fenced);
            }
            continue;
        }
        let overlaps = record.more || connection.slow_calls() > 0;
        overlapped |= overlaps;
        let slow = call.is_slow();
        // A lone slow call is quicker on the thread that has it; a read that turns out cold, if its client waits for each.
        if slow && overlaps && handed_over(connection, view, workers, &call) {
            continue;
        }
        if slow {
            replies.send(|bytes| connection.send(bytes))?;
        }
        let mut before = replies.out.len();
        let mut served = dispatch::serve_call(filer, view, &call.without_waiting(), &mut replies.out);
        if served == Served::Cold {
            if (overlaps || !lone) && handed_over(connection, view, workers, &call) {
                continue;
            }
            replies.send(|bytes| connection.send(bytes))?;
            before = 0;
            served = dispatch::serve_call(filer, view, &call, &mut replies.out);
        }
        match served {
            Served::Answered | Served::Cold => {}
            Served::Due(due) => {
                let held = replies.out.split_off(before);
                // Holding may wait for room: what is ready does not.
                replies.send(|bytes| connection.send(bytes))?;
                workers.hold(connection, due, held);
            }
            Served::Reset => {
                connection.reset();
                return Err(Ended::Reset);
            }
            Served::Close => return Err(Ended::NotACall),
        }
        if replies.out.len() >= REPLY_BYTES_GATHERED {
            replies.send(|bytes| connection.send(bytes))?;
        }
    }
    replies.send(|bytes| connection.send(bytes))?;
    Ok(overlapped)
}

/// Gives a slow call to a worker, if there is room.
fn handed_over(connection: &Arc<Connection>, view: &Arc<View>, workers: &Workers, call: &Call<'_>) -> bool {
    let record = call.record();
    let Some(charge) = workers.charge(connection, record.len() + call.reply_bytes_max()) else { return false };
    let of_connection = || call.is_brief(view).then(|| Arc::as_ptr(connection).addr() as u64);
    let (group, came) = (call.shares_flush(view).or_else(of_connection), Instant::now());
    let (connection, view) = (Arc::clone(connection), Arc::clone(view));
    workers.submit(Job { group, connection, view, record: record.to_vec(), charge, came })
}
