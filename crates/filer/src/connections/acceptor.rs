//! Accepting: a thread for each address that is listened on, and one for each connection.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::admission::Newcomer;
use super::connection::Connection;
use super::ended::Ended;
use super::table::ConnectionTable;
use crate::limits::{BACKLOG, STACK_BYTES};
use crate::sys;

/// Whether an address is one that is served.
pub(crate) type Knows = Box<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Serves a connection until it ends.
pub(crate) type Serve = Box<dyn Fn(&Arc<Connection>) -> Ended + Send + Sync>;

/// An address that is listened on, and what is done with its connections.
pub(crate) struct Served {
    pub(crate) socket: TcpListener,
    pub(crate) serve: Serve,
}

/// All that is listened on.
pub(crate) struct Acceptor {
    listeners: Vec<Arc<Served>>,
    knows: Knows,
    pub(crate) table: ConnectionTable,
    stopping: AtomicBool,
}

/// How long accepting pauses when the process has no descriptor or thread left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

impl Acceptor {
    /// `knows` says whether a client may use anything here at all.
    pub(crate) fn new(listeners: Vec<Served>, knows: Knows) -> Arc<Self> {
        let listeners = listeners.into_iter().map(Arc::new).collect();
        Arc::new(Self { listeners, knows, table: ConnectionTable::default(), stopping: AtomicBool::new(false) })
    }

    /// Accepts and serves until [`Self::stop`].
    pub(crate) fn run(self: &Arc<Self>) {
        std::thread::scope(|scope| {
            for listener in &self.listeners {
                let thread = std::thread::Builder::new().name("accept".into()).stack_size(STACK_BYTES);
                if let Err(error) = thread.spawn_scoped(scope, || self.accept(listener)) {
                    tracing::error!(%error, "failed to start a thread: an address is not served");
                }
            }
        });
    }

    /// Asks again who is known, after rules changed.
    pub(crate) fn judge_anew(&self) {
        self.table.judge_anew(&self.knows);
    }

    /// Accepts nobody more: [`Self::run`] returns.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.listeners.iter().for_each(|listener| sys::stop_listening(&listener.socket));
    }

    fn accept(self: &Arc<Self>, listener: &Arc<Served>) {
        sys::set_backlog(&listener.socket, BACKLOG);
        while !self.stopping.load(Ordering::SeqCst) {
            match listener.socket.accept() {
                Ok((stream, peer)) => self.admit(stream, peer, listener),
                Err(_) if self.stopping.load(Ordering::SeqCst) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    // Short of descriptors: one that nobody uses may be given up for it.
                    if !self.table.spare_one() {
                        std::thread::sleep(EXHAUSTED_PAUSE);
                    }
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, listener: &Arc<Served>) {
        let newcomer = Newcomer { client: peer.ip().to_canonical(), known: (self.knows)(peer.ip().to_canonical()) };
        if let Err(full) = self.table.admit(newcomer) {
            tracing::warn!(%peer, limit = full.limit(), "connection refused: too many {full}");
            return;
        }
        let connection = match Connection::new(stream, peer) {
            Ok(connection) => Arc::new(connection),
            Err(error) => {
                tracing::debug!(%peer, %error, "connection closed by the peer before it was served");
                return;
            }
        };
        let Some(id) = self.table.add(&connection, newcomer.known) else { return };
        let (acceptor, listener) = (Arc::clone(self), Arc::clone(listener));
        let serve = move || {
            let ended = (listener.serve)(&connection);
            drop(connection);
            acceptor.table.remove(id);
            log_end(peer, &ended);
        };
        if let Err(error) = std::thread::Builder::new().name("connection".into()).stack_size(STACK_BYTES).spawn(serve) {
            tracing::warn!(%peer, %error, "connection refused: no thread");
            self.table.remove(id);
        }
    }
}

fn log_end(peer: SocketAddr, ended: &Ended) {
    match ended {
        Ended::Closed => tracing::debug!(%peer, "disconnected"),
        Ended::Socket(error) if error.kind() == io::ErrorKind::ConnectionReset => tracing::debug!(%peer, "reset by the client"),
        Ended::Panic => tracing::error!(%peer, "a handler panicked: connection closed"),
        Ended::Socket(error) => tracing::info!(%peer, %error, "connection failed"),
        Ended::ByService(message) => tracing::info!(%peer, "{message}"),
        Ended::Stalled | Ended::BuffersFull => tracing::warn!(%peer, error = %ended, "connection closed"),
        Ended::Reset => tracing::info!(%peer, "connection reset by an injected fault"),
        Ended::Protocol(_) | Ended::Tls(_) | Ended::Record(_) => {
            tracing::info!(%peer, error = %ended, "connection closed")
        }
    }
}
