//! Accepts connections: one thread for each listening address.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Totals;
use super::admission::{Newcomer, Pool};
use super::connection::Connection;
use super::ended::Ends;
use super::parking::{Parked, Parking, Resume};
use super::refusals::{Refusal, Refusals};
use super::table::ConnectionTable;
use crate::limits::{BACKLOG, STACK_BYTES};
use crate::sys;

/// How a client is treated when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// An export rule or `clients` of `[iscsi]` names it.
    Known,
    /// It may connect. All strangers together get only a few places.
    Stranger,
    /// It may not connect.
    Refused,
}

/// Decides how a client of a protocol is treated.
pub(crate) type Judge = Box<dyn Fn(Pool, IpAddr) -> Standing + Send + Sync>;

/// Prepares a new connection. Returns the closure that serves it once it becomes readable.
pub(crate) type Serve = Box<dyn Fn(&Arc<Connection>) -> Resume + Send + Sync>;

/// A listening address, and how its connections are served.
pub(crate) struct Served {
    pub(crate) socket: TcpListener,
    pub(crate) pool: Pool,
    pub(crate) serve: Serve,
}

/// All listening addresses.
pub(crate) struct Acceptor {
    listeners: Vec<Served>,
    judge: Judge,
    pub(crate) table: Arc<ConnectionTable>,
    totals: Arc<Totals>,
    refusals: Refusals,
    stopping: AtomicBool,
}

/// Pause before the next accept when the process has no free descriptor.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

impl Acceptor {
    /// `judge` decides how a client is treated.
    pub(crate) fn new(listeners: Vec<Served>, totals: Arc<Totals>, judge: Judge) -> Arc<Self> {
        let (table, refusals, stopping) = Default::default();
        Arc::new(Self { listeners, judge, table, totals, refusals, stopping })
    }

    /// Accepts and serves until [`Self::stop`].
    ///
    /// # Errors
    /// The host refuses an epoll instance or a thread. No connection was served.
    pub(crate) fn run(self: &Arc<Self>) -> io::Result<()> {
        let (table, ends) = (Arc::clone(&self.table), Ends::default());
        let parking = Parking::new(Arc::clone(&self.totals.crowd), move |id, connection, ended| {
            table.remove(id);
            ends.log(connection.peer, ended);
        })?;
        parking.watch()?;
        std::thread::scope(|scope| {
            for listener in &self.listeners {
                let thread = std::thread::Builder::new().name("accept".into()).stack_size(STACK_BYTES);
                if let Err(error) = thread.spawn_scoped(scope, || self.accept(listener, &parking)) {
                    tracing::error!(%error, "failed to start a thread: a listening address is not served");
                }
            }
        });
        Ok(())
    }

    /// Decides again which NFS clients are known, after the rules changed.
    pub(crate) fn update_known(&self) {
        self.table.update_known(&|client| (self.judge)(Pool::Nfs, client) == Standing::Known);
    }

    /// Stops accepting. [`Self::run`] then returns.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.listeners.iter().for_each(|listener| sys::stop_listening(&listener.socket));
    }

    fn accept(&self, listener: &Served, parking: &Arc<Parking>) {
        sys::set_backlog(&listener.socket, BACKLOG);
        while !self.stopping.load(Ordering::SeqCst) {
            match volume::opening(|| listener.socket.accept()) {
                Ok((stream, peer)) => match self.admit(&stream, peer, listener.pool) {
                    Ok(known) => self.begin(stream, peer, known, listener, parking),
                    Err(refusal) => self.log(refusal, peer, listener.pool),
                },
                Err(_) if self.stopping.load(Ordering::SeqCst) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if let Some(count) = self.refusals.count(Refusal::NoDescriptor) {
                        tracing::warn!(%error, count, "failed to accept a connection");
                    }
                    // No descriptor is free. An idle connection is closed so that the next accept succeeds.
                    self.table.spare_one();
                    std::thread::sleep(EXHAUSTED_PAUSE);
                }
            }
        }
    }

    /// Finds or makes a place for a new connection. Returns whether its client is known.
    fn admit(&self, stream: &TcpStream, peer: SocketAddr, pool: Pool) -> Result<bool, Refusal> {
        let client = peer.ip().to_canonical();
        let known = match (self.judge)(pool, client) {
            Standing::Refused => return Err(Refusal::NotNamed),
            standing => standing == Standing::Known,
        };
        self.table.admit(&Newcomer { client, pool, known }).map_err(Refusal::Full)?;
        // Calls need descriptors too, for the files that they open.
        let is_spare = !sys::is_nearly_last(stream) || volume::close_spare_descriptors() || self.table.spare_one();
        if is_spare { Ok(known) } else { Err(Refusal::NoDescriptor) }
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr, known: bool, listener: &Served, parking: &Arc<Parking>) {
        let connection = match Connection::new(stream, peer) {
            Ok(connection) => Arc::new(connection),
            Err(error) => {
                tracing::debug!(%peer, %error, "connection closed by the peer before it was served");
                return;
            }
        };
        connection.set_known(known);
        let Some(id) = self.table.add(&connection, listener.pool) else { return };
        let resume = (listener.serve)(&connection);
        parking.park(Parked { id, connection, resume });
    }

    fn log(&self, refusal: Refusal, peer: SocketAddr, pool: Pool) {
        let Some(count) = self.refusals.count(refusal) else { return };
        match refusal {
            Refusal::Full(full) => {
                tracing::warn!(%peer, limit = full.limit(pool), count, "connection refused: too many {full}")
            }
            Refusal::NotNamed => {
                tracing::warn!(%peer, count, "connection refused: clients of [iscsi] does not name the initiator")
            }
            Refusal::NoDescriptor => {
                tracing::warn!(%peer, count, "connection refused: the process has too few descriptors left (LimitNOFILE=)")
            }
        }
    }
}
