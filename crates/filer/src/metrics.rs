//! Two pages over HTTP: `/metrics` with the counters in the text format of Prometheus, and `/healthz` for supervisors and alarms.
//!
//! Calls are not affected: the thread that answers a request sums what the other threads have counted. The endpoint has its own threads
//! and limits, so that its clients cannot slow the filer down.

mod http;
mod luns;
mod page;
pub mod text;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use host::Unpoisoned;

use crate::limits::{METRICS_CLIENTS_MAX, METRICS_TIMEOUT, STACK_BYTES};
use crate::server::Server;

/// How long the endpoint pauses before the next accept if the process has no free descriptor.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// The bound endpoint.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// Binds the endpoint. Port 0 takes any free port.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address that it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests on threads of its own until the process ends.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn serve(self, server: &Arc<Server>) -> io::Result<()> {
        let server = Arc::clone(server);
        std::thread::Builder::new()
            .name("metrics".into())
            .stack_size(STACK_BYTES)
            .spawn(move || accept(&self.listener, &server))?;
        Ok(())
    }
}

fn accept(listener: &TcpListener, server: &Arc<Server>) {
    let (clients, turn) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
    for stream in listener.incoming() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a metrics connection");
                std::thread::sleep(EXHAUSTED_PAUSE);
                continue;
            }
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= METRICS_CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::Relaxed);
            tracing::debug!(limit = METRICS_CLIENTS_MAX, "metrics connection refused: too many");
            continue;
        }
        let (server, counted, turn) = (Arc::clone(server), Arc::clone(&clients), Arc::clone(&turn));
        let answer = move || {
            if let Err(error) = talk(&stream, &server, &turn) {
                tracing::debug!(%error, "metrics connection ended");
            }
            drop(stream);
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("metrics".into()).stack_size(STACK_BYTES).spawn(answer).is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers one request. Writes one page at a time, so that any number of collectors use one core at most.
fn talk(stream: &TcpStream, server: &Server, turn: &Mutex<()>) -> io::Result<()> {
    let page = || {
        let _turn = turn.lock().unpoisoned();
        page::write(server)
    };
    http::answer(stream, Instant::now() + METRICS_TIMEOUT, page, || health(server))
}

/// Whether all volumes and LUNs accept writes. The error has one line for each that does not.
fn health(server: &Server) -> Result<(), String> {
    let exports = server.filer().exports();
    let volumes = exports.entries().iter().filter(|entry| entry.export.volume().is_poisoned());
    let volumes = volumes.map(|entry| {
        format!("volume {}: a flush failed; it refuses changes until the filer is restarted\n", entry.export.name())
    });
    let luns = luns::failed(server)
        .into_iter()
        .map(|lun| format!("LUN {lun}: writes may have been lost; it refuses writes until the filer is restarted\n"));
    let reasons: String = volumes.chain(luns).collect();
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}
