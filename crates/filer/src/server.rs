//! Sockets and threads: accepts connections, knows all of them, stops cleanly.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use volume::CutReport;

use crate::config::ConfigError;
use crate::config::edit::EditError;
use crate::connections::admission::Connections;
use crate::connections::connection::{self, Connection, Ended};
use crate::connections::workers::Workers;
use crate::limits::{BACKLOG, CONNECTIONS_MAX, LEAVING_WAIT, STACK_BYTES, STOP_TIMEOUT};
use crate::listener::{Listener, ListenerRole};
use crate::nfs::exports::Exports;
use crate::nfs::filer::Filer;
use crate::setup::{ChangeError, Reloaded, Setup};
use crate::sys;

/// A running filer.
pub struct Server {
    filer: Arc<Filer>,
    listeners: Vec<Listener>,
    setup: Mutex<Option<Setup>>, // taken for the time of a reload
    workers: Workers,
    connections: Mutex<Connections>,
    closed: Condvar,
    stopping: AtomicBool,
    started: Instant,
}

/// How long accepting pauses when the process has no descriptor or thread left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

impl Server {
    /// A server that is ready to [`Server::run`]. `setup` is the configuration it was made from, if there is one.
    #[must_use]
    pub fn new(filer: Filer, listeners: Vec<Listener>, setup: Option<Setup>) -> Arc<Self> {
        let filer = Arc::new(filer);
        Arc::new(Self {
            workers: Workers::new(Arc::clone(&filer)),
            filer,
            listeners,
            setup: Mutex::new(setup),
            connections: Mutex::default(),
            closed: Condvar::new(),
            stopping: AtomicBool::new(false),
            started: Instant::now(),
        })
    }

    /// What is served.
    #[must_use]
    pub fn filer(&self) -> &Filer {
        &self.filer
    }

    /// Time since the start.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Replies that waited for the modelled medium, and the CPU that their waiting has cost, in nanoseconds.
    #[must_use]
    pub fn held_counts(&self) -> (u64, u64) {
        self.workers.held_counts()
    }

    /// Connections open now.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections().open.len()
    }

    /// Connections that were begun since the start.
    pub(crate) fn connections_begun(&self) -> u64 {
        self.connections().next
    }

    /// The threads for slow calls.
    pub(crate) const fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Accepts and serves until [`Server::stop`], then ends the connections, waits for running calls, and flushes.
    ///
    /// **Durability**: everything written is durable when this returns without an error.
    ///
    /// # Errors
    /// The last flush failed.
    pub fn run(self: &Arc<Self>) -> Result<(), volume::Error> {
        std::thread::scope(|scope| {
            for listener in &self.listeners {
                let thread = std::thread::Builder::new().name("accept".into()).stack_size(STACK_BYTES);
                if let Err(error) = thread.spawn_scoped(scope, || self.accept(listener)) {
                    tracing::error!(%error, "an address is not served: no thread");
                }
            }
        });
        self.drain();
        let exports = self.filer.exports();
        // Each is flushed, also behind one that fails.
        let flushed: Vec<_> = exports.entries().iter().map(|entry| entry.export.volume.flush_all()).collect();
        flushed.into_iter().collect()
    }

    fn accept(self: &Arc<Self>, listener: &Listener) {
        sys::listen_for_more(&listener.socket, BACKLOG);
        while !self.stopping.load(Ordering::SeqCst) {
            match listener.socket.accept() {
                Ok((stream, peer)) => self.admit(stream, peer, listener.role),
                Err(_) if self.stopping.load(Ordering::SeqCst) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection accepted");
                    // Short of descriptors: one that nobody uses may be given up for it.
                    if !self.make_room(self.connection_count()) {
                        std::thread::sleep(EXHAUSTED_PAUSE);
                    }
                }
            }
        }
    }

    /// Makes [`Server::run`] return.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.listeners.iter().for_each(|listener| sys::stop_listening(&listener.socket));
    }

    /// Reads the configuration again and serves by it; connections stay. None: there is none. The log says what was done.
    ///
    /// # Errors
    /// What is wrong with it; then nothing has changed.
    pub fn reload(&self) -> Option<Result<Reloaded, ConfigError>> {
        let mut setup = self.setup.lock().unwrap_or_else(PoisonError::into_inner);
        let done = setup.as_mut()?.reload(&self.filer);
        if let Err(error) = &done {
            tracing::error!(%error, "the configuration is not taken: the one before stays in force");
        }
        Some(done)
    }

    /// Changes the file of the configuration and serves by it; `new` is the volume that comes with it, if one does. None:
    /// there is no file.
    pub(crate) fn change(
        &self,
        new: Option<&str>,
        change: impl FnOnce(&str) -> Result<String, EditError>,
    ) -> Option<Result<Reloaded, ChangeError>> {
        let mut setup = self.setup.lock().unwrap_or_else(PoisonError::into_inner);
        Some(setup.as_mut()?.edit(&self.filer, new, change))
    }

    /// Takes back everything that was not promised stable, as a power cut would.
    ///
    /// As with a real one, no call and no answer crosses it: connections are dropped and calls under way have ended before
    /// anything is taken back, and nobody is let in until all of it is. Clients tell by their connections that there was one.
    ///
    /// # Errors
    /// `NotSupported` when a volume has no loss layer, `Busy` when calls do not end or another cut is under way; else what kept a
    /// volume from going back.
    pub fn power_cut(&self) -> Result<CutReport, volume::Error> {
        let exports = self.filer.exports();
        if !exports.entries().iter().all(|entry| entry.export.volume.can_lose()) {
            return Err(volume::Error::NotSupported);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        let mut connections = self.connections();
        if connections.powerless {
            return Err(volume::Error::Busy);
        }
        connections.powerless = true;
        connections.open.values().for_each(|connection| connection.drop_now());
        exports.entries().iter().for_each(|entry| entry.export.volume.faults().hurry());
        let ended = self.wait_until_closed(connections, deadline).open.is_empty() && self.workers.wait_until_idle(deadline);
        let report = if ended { cut(&exports) } else { Err(volume::Error::Busy) };
        self.filer.forget();
        self.connections().powerless = false;
        let report = report?;
        tracing::warn!(undone_writes = report.undone_writes, undone_names = report.undone_names, "power cut");
        Ok(report)
    }

    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, role: ListenerRole) {
        if !self.make_room(CONNECTIONS_MAX) {
            tracing::warn!(%peer, limit = CONNECTIONS_MAX, "connection refused: too many");
            return;
        }
        let connection = match Connection::new(stream, peer, role) {
            Ok(connection) => Arc::new(connection),
            Err(error) => {
                tracing::debug!(%peer, %error, "connection gone at once");
                return;
            }
        };
        let Some(id) = self.remember(&connection) else { return };
        let server = Arc::clone(self);
        let serve = move || {
            let ended = connection::run(&connection, &server.filer, &server.workers);
            drop(connection);
            server.forget(id);
            log_end(peer, &ended);
        };
        if let Err(error) = std::thread::Builder::new().name("connection".into()).stack_size(STACK_BYTES).spawn(serve) {
            tracing::warn!(%peer, %error, "connection refused: no thread");
            self.forget(id);
        }
    }

    /// Has connections leave until there are fewer than `limit`; false when all have a right to stay.
    fn make_room(&self, limit: usize) -> bool {
        let deadline = Instant::now() + LEAVING_WAIT;
        let mut connections = self.connections();
        while connections.open.len() >= limit {
            let Some(leaving) = connections.one_to_leave(sys::coarse_seconds()) else { return false };
            tracing::debug!(peer = %leaving.peer, "connection closed to make room");
            leaving.drop_now();
            drop(leaving);
            let before = connections.open.len();
            while connections.open.len() >= before {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                connections = self.closed.wait_timeout(connections, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        true
    }

    /// None while there is no power.
    fn remember(&self, connection: &Arc<Connection>) -> Option<u64> {
        let mut connections = self.connections();
        if connections.powerless {
            return None;
        }
        let id = connections.next;
        connections.next += 1;
        connections.open.insert(id, Arc::clone(connection));
        tracing::debug!(peer = %connection.peer, connections = connections.open.len(), "connected");
        Some(id)
    }

    fn forget(&self, id: u64) {
        self.connections().open.remove(&id);
        self.closed.notify_all();
    }

    /// Waits until no connection is open, or the time has come.
    fn wait_until_closed<'s>(
        &'s self,
        mut connections: MutexGuard<'s, Connections>,
        deadline: Instant,
    ) -> MutexGuard<'s, Connections> {
        while !connections.open.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            connections = self.closed.wait_timeout(connections, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        connections
    }

    /// Lets running calls end and their replies leave.
    fn drain(&self) {
        let deadline = Instant::now() + STOP_TIMEOUT;
        let exports = self.filer.exports();
        let connections = self.connections();
        connections.open.values().for_each(|connection| connection.finish());
        exports.entries().iter().for_each(|entry| entry.export.volume.faults().hurry());
        let connections = self.wait_until_closed(connections, deadline);
        if !connections.open.is_empty() {
            tracing::warn!(connections = connections.open.len(), "calls still running at the end of the stop time");
            connections.open.values().for_each(|connection| connection.drop_now());
        }
        drop(connections);
        if !self.workers.finish(deadline.saturating_duration_since(Instant::now())) {
            tracing::warn!("slow calls still running at the end of the stop time");
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes back what each volume did not promise.
fn cut(exports: &Exports) -> Result<CutReport, volume::Error> {
    let mut all = CutReport::default();
    for entry in exports.entries() {
        let report = entry.export.volume.power_cut()?;
        all.undone_writes += report.undone_writes;
        all.undone_names += report.undone_names;
    }
    Ok(all)
}

fn log_end(peer: SocketAddr, ended: &Ended) {
    match ended {
        Ended::Closed => tracing::debug!(%peer, "disconnected"),
        Ended::Socket(error) if error.kind() == io::ErrorKind::ConnectionReset => tracing::debug!(%peer, "reset by the client"),
        Ended::Panic => tracing::error!(%peer, "a handler panicked: connection closed"),
        Ended::Socket(error) => tracing::info!(%peer, %error, "connection failed"),
        Ended::Fenced => tracing::info!(%peer, "connection fenced by its client"),
        Ended::Stalled | Ended::Crowded => tracing::warn!(%peer, error = %ended, "connection closed"),
        Ended::Reset => tracing::info!(%peer, "connection reset: a fault on purpose"),
        Ended::Framing(_) | Ended::NotACall | Ended::Injected | Ended::Tls(_) | Ended::Record(_) => {
            tracing::info!(%peer, error = %ended, "connection closed")
        }
    }
}
