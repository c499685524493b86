//! Why connections end.

use std::io;
use std::net::SocketAddr;

use rpc_tls::{RecordFault, TlsFault};

use super::transport::ReceiveFault;
use crate::limits::BUFFER_BYTES_MAX;
use crate::paced::Paced;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The peer closed it, or the filer stops.
    #[error("closed")]
    Closed,
    /// The socket failed.
    #[error("transfer data with the peer: {0}")]
    Socket(#[from] io::Error),
    /// The peer broke the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The rest of a request did not arrive in time.
    #[error("receive the rest of a request in time")]
    Stalled,
    /// The buffers of all connections have reached their limit.
    #[error("receive a large request: the buffers of all connections exceed {BUFFER_BYTES_MAX} bytes")]
    BuffersFull,
    /// The service ended the connection, as its protocol requires. The text is for the log.
    #[error("{0}")]
    ByService(&'static str),
    /// An injected fault reset the connection.
    #[error("connection reset by an injected fault")]
    Reset,
    /// A handler panicked: a bug of the filer.
    #[error("serve a request: the handler panicked")]
    Panic,
    /// The TLS handshake failed.
    #[error("complete the TLS handshake: {0}")]
    Tls(#[from] TlsFault),
    /// A TLS record cannot be decrypted.
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

/// The log of connections that ended. Any peer can violate a protocol and connect again, so each kind of end gets one line in some seconds.
#[derive(Default)]
pub(super) struct Ends {
    sockets: Paced,
    protocols: Paced,
    limits: Paced,
}

impl Ends {
    pub(super) fn log(&self, peer: SocketAddr, ended: &Ended) {
        match ended {
            Ended::Closed => tracing::debug!(%peer, "disconnected"),
            Ended::Socket(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                tracing::debug!(%peer, "reset by the client")
            }
            Ended::Panic => tracing::error!(%peer, "a handler panicked: connection closed"),
            Ended::ByService(message) => tracing::info!(%peer, "{message}"),
            Ended::Reset => tracing::info!(%peer, "connection reset by an injected fault"),
            Ended::Socket(error) => {
                if let Some(count) = self.sockets.count() {
                    tracing::info!(%peer, %error, count, "connection failed");
                }
            }
            Ended::Protocol(_) | Ended::Tls(_) | Ended::Record(_) => {
                if let Some(count) = self.protocols.count() {
                    tracing::info!(%peer, error = %ended, count, "connection closed");
                }
            }
            Ended::Stalled | Ended::BuffersFull => {
                if let Some(count) = self.limits.count() {
                    tracing::warn!(%peer, error = %ended, count, "connection closed");
                }
            }
        }
    }
}
